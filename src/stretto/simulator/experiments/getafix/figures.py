"""Figure 4.4 and what the text says beside it: memory and time of Getafix against Scarlett, uniform and full
replication, by the number of clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stretto.segments.replication import Full, Getafix, Replication, Scarlett, Uniform
from stretto.simulator.experiments.getafix.queues import Measured, Run, Setting

UNIFORM_COPIES = 4
WAYS: dict[str, Callable[[], Replication]] = {
    "getafix": Getafix,
    "scarlett": lambda: Scarlett(Setting.cores),
    "uniform": lambda: Uniform(UNIFORM_COPIES),
    "full": Full,
}
CLIENTS = (5, 10, 15, 20)
LEAST_SAVED, MAKESPAN_WITHIN = 1.45, 0.05
THESIS = {
    "memory_ratio": "1.45 to 2.15 against Scarlett, more with more clients",
    "memory_max_ratio": "1.72 to 1.92 against Scarlett",
    "makespan": "within 5 percent of Scarlett's",
    "replication": "with 20 clients 1.9, Scarlett 4.2",
}


@dataclass(frozen=True)
class GetafixFigures:
    """What was measured by the number of clients, beside the thesis' figures."""

    clients: dict[str, dict[str, dict[str, Any]]]
    """For each number of clients and each way its own figures, and its memory and makespan by Getafix'."""
    asked_by_age: dict[str, float]
    """How often segments were asked for, by the average of the least popular forty percent."""
    thesis: dict[str, str] = field(default_factory=lambda: dict(THESIS))
    claims: dict[str, bool] = field(default_factory=dict)
    note: str = (
        "The thesis gives no segments, sizes or times: a day of hours, questions about two of them, 20 ms for each "
        "and nodes of four cores are ours. Scarlett's rule is that of its paper: a copy for each four questions that "
        "were there at the same time, and one more. The thesis divides work evenly whatever there is to do; here nodes "
        "may be 60 percent busy first, so with few clients nearly all segments have one copy."
    )


def getafix_figures(
    setting: Setting, clients: Sequence[int], ways: Sequence[str], done: Callable[[], None]
) -> GetafixFigures:
    """Runs all ways with all numbers of clients; Getafix is always among them."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    asked: dict[int, int] = {}
    for count in clients:
        measured: dict[str, Measured] = {}
        for name in ways:
            measured[name] = Run(replace(setting, clients=count), WAYS[name]()).run()
            done()
        base = measured["getafix"]
        found[str(count)] = {name: _figures(each, base) for name, each in measured.items()}
        for age, times in base.asked.items():
            asked[age] = asked.get(age, 0) + times
    return GetafixFigures(found, _by_least(asked, setting.segments), claims=_claims(found))


def _figures(measured: Measured, base: Measured) -> dict[str, Any]:
    latency, base_latency = measured.latency_ms(), base.latency_ms()
    return {
        "memory_ratio": round(measured.memory_mean / base.memory_mean, 3),
        "memory_max_ratio": round(measured.memory_max / base.memory_max, 3),
        "makespan_ratio": round(measured.makespan_s / base.makespan_s, 3),
        "latency_ratio": {each: round(latency[each] / base_latency[each], 3) for each in latency},
        "replication": round(measured.replication, 2),
        "makespan_s": round(measured.makespan_s, 2),
        "latency_ms": latency,
        "loaded": measured.loaded,
        "from_storage": measured.from_storage,
    }


def _by_least(asked: dict[int, int], segments: int) -> dict[str, float]:
    least = [asked.get(age, 0) for age in range(segments - round(0.4 * segments), segments)]
    mean = sum(least) / len(least)
    return {str(age): round(asked.get(age, 0) / mean, 2) for age in sorted(asked)}


def _claims(found: dict[str, dict[str, dict[str, Any]]]) -> dict[str, bool]:
    claims: dict[str, bool] = {}
    for count, ways in found.items():
        if "scarlett" in ways:
            scarlett = ways["scarlett"]
            claims[f"{count} clients: Scarlett takes {LEAST_SAVED} times the memory, or more"] = (
                scarlett["memory_ratio"] >= LEAST_SAVED
            )
            claims[f"{count} clients: the makespan is within 5 percent of Scarlett's, or shorter"] = scarlett[
                "makespan_ratio"
            ] >= 1 / (1 + MAKESPAN_WITHIN)
    ratios = [ways["scarlett"]["memory_ratio"] for ways in found.values() if "scarlett" in ways]
    if len(ratios) > 1:
        claims["the more clients, the more memory is saved"] = ratios[-1] > ratios[0]
    return claims
