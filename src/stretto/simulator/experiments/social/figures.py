"""Figures 6.12 to 6.15 of the thesis: latency and remote accesses by strategy, cache, object size and skew, with its
figures beside ours and which of its claims hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stretto.scheduling.strategies import STRATEGIES
from stretto.simulator.experiments.social.runs import Measured, measured
from stretto.simulator.experiments.social.workload import Setting

STATIC = "priority"
BINDING = ("queue-direct", "laxity-direct")
OFFLOADING = ("1rtt-reject-send", "1rtt-accept-and-check")
ALL = (STATIC, *BINDING, *OFFLOADING)
ONE_OF_EACH = (STATIC, "laxity-direct", "1rtt-accept-and-check")
CAPACITIES = (16, 32, 64, 256)
SIZES_BYTES = (512, 65_536, 262_144)
HOT = (0.1, 0.05, 0.01)
PARETO = (3.0, 2.0, 1.5)
FIGURES = ("6.12", "6.14a", "6.14b", "6.15a", "6.15b")
"""Figure 6.13 is by worker what 6.12 is over all."""

THESIS = {
    "6.12a": "without a cache, binding late is best: p99 up to 26 percent shorter than offloading, 36 than static",
    "6.12b": "with a cache, offloading is best: p50 up to 33 and p99 21 percent shorter than binding late, p99 17 than "
    "static",
    "6.13": "binding late balances the workers nearly perfectly; static binding is uneven",
    "6.14a": "more capacity saves up to 3.8 times the accesses of static binding and offloading, and then no more",
    "6.14b": "larger objects cost binding late 21 percent of p99 and 26 of p50; it accesses the server 5 times as much",
    "6.15a": "with 1 percent of the users asking for 90, binding late is best: p99 3.5 times shorter than offloading, "
    "7.2 than static, with 45 percent fewer accesses than at 10 percent",
    "6.15b": "under load that moves, offloading has a p99 60 percent shorter than static, and half the p50 of binding "
    "late with 19 times fewer accesses",
}

Rows = dict[str, dict[str, Measured]]
"""By setting and strategy."""


@dataclass(frozen=True)
class SocialFigures:
    """What was measured, by figure, setting and strategy."""

    figures: dict[str, dict[str, dict[str, dict[str, Any]]]]
    accesses_saved: dict[str, float]
    """How many times the remote accesses of one way are those of another."""
    claims: dict[str, bool]
    thesis: dict[str, str] = field(default_factory=lambda: dict(THESIS))
    note: str = (
        "The thesis gives no rates, service times or numbers of users: 1 ms, 0.2 ms for an access and five users per "
        "worker are ours. As there, a function waits for what its worker has no copy of. Capacities are a sixteenth of "
        "the thesis', as the objects of a worker are."
    )


def settings(figure: str, base: Setting) -> Iterator[tuple[str, Setting, Sequence[str]]]:
    """Yields the settings of a figure, with the strategies that it compares."""
    match figure:
        case "6.12":
            yield "a: without a cache", replace(base, cached=0), ALL
            yield "b: with a cache", base, ALL
        case "6.14a":
            for cached in CAPACITIES:
                yield f"{cached} objects", replace(base, cached=cached), ONE_OF_EACH
        case "6.14b":
            for size in SIZES_BYTES:
                yield f"{size} bytes", replace(base, size_bytes=size), ONE_OF_EACH
        case "6.15a":
            for hot in HOT:
                yield f"{hot:g} of the users", replace(base, hot=hot), ONE_OF_EACH
        case "6.15b":
            for exponent in PARETO:
                yield f"Pareto {exponent:g}", replace(base, pareto=exponent), ONE_OF_EACH


def number_of_runs(figures: Sequence[str]) -> int:
    """Returns how many simulations the figures take."""
    return sum(len(names) for figure in figures for _, _, names in settings(figure, Setting()))


def social_figures(base: Setting, figures: Sequence[str], done: Callable[[], None]) -> SocialFigures:
    """Runs all settings of these figures."""
    found: dict[str, Rows] = {}
    for figure in figures:
        rows = found[figure] = {}
        for name, setting, strategies in settings(figure, base):
            rows[name] = {}
            for strategy in strategies:
                rows[name][strategy] = measured(setting, STRATEGIES[strategy])
                done()
    shown = {
        figure: {name: {s: asdict(each) for s, each in ways.items()} for name, ways in rows.items()}
        for figure, rows in found.items()
    }
    return SocialFigures(shown, _saved(found), dict(_claims(found)))


def _saved(found: dict[str, Rows]) -> dict[str, float]:
    """Returns how many times fewer remote accesses there are."""
    saved = {}
    if "6.12" in found:
        without, cached = found["6.12"].values()
        for strategy in ALL:
            saved[f"by the cache, {strategy}"] = _times(without[strategy].fetches, cached[strategy].fetches)
    for figure in ("6.14b", "6.15a", "6.15b"):
        for name, ways in found.get(figure, {}).items():
            late, offloading = ways["laxity-direct"], ways["1rtt-accept-and-check"]
            saved[f"by offloading instead of binding late, {figure} {name}"] = _times(late.fetches, offloading.fetches)
    return saved


def _times(more: int, less: int) -> float:
    return round(more / max(less, 1), 2)


def _best(ways: dict[str, Measured], names: Sequence[str], quantile: str) -> float:
    found: float = min(getattr(ways[name], quantile) for name in names)
    return found


def _claims(found: dict[str, Rows]) -> Iterator[tuple[str, bool]]:
    if "6.12" in found:
        yield from _claims_by_cache(*found["6.12"].values())
    if "6.14a" in found:
        least, *_, most = found["6.14a"].values()
        for name in ONE_OF_EACH:
            yield f"6.14a: more capacity, fewer accesses: {name}", most[name].fetches < least[name].fetches
    if "6.14b" in found:
        small, *_, large = found["6.14b"].values()
        growth = {name: large[name].p50 / small[name].p50 for name in ONE_OF_EACH}
        yield "6.14b: large objects slow binding late the most", max(growth, key=growth.__getitem__) == "laxity-direct"
    if "6.15a" in found:
        lax, *_, hot = found["6.15a"].values()
        tails = {name: hot[name].p99 for name in ONE_OF_EACH}
        yield (
            "6.15a: where few users ask for most, binding late has the shortest p99",
            (min(tails, key=tails.__getitem__) == "laxity-direct"),
        )
        yield (
            "6.15a: binding late accesses less the fewer they are",
            (hot["laxity-direct"].fetches < lax["laxity-direct"].fetches),
        )
    if "6.15b" in found:
        for name, ways in found["6.15b"].items():
            offloading = ways["1rtt-accept-and-check"]
            yield f"6.15b, {name}: offloading has a shorter p99 than static binding", offloading.p99 < ways[STATIC].p99
            yield f"6.15b, {name}: and a shorter p50 than binding late", offloading.p50 < ways["laxity-direct"].p50


def _claims_by_cache(without: dict[str, Measured], cached: dict[str, Measured]) -> Iterator[tuple[str, bool]]:
    late, late_cached = (_best(ways, BINDING, "p99") for ways in (without, cached))
    yield (
        "6.12a: without a cache, binding late has the shortest p99",
        late < min(without[STATIC].p99, _best(without, OFFLOADING, "p99")),
    )
    yield (
        "6.12a: binding late has the shortest p50",
        _best(without, BINDING, "p50") < min(without[STATIC].p50, _best(without, OFFLOADING, "p50")),
    )
    yield (
        "6.12a: all others have a shorter p99 than static binding",
        (max(each.p99 for name, each in without.items() if name != STATIC) < without[STATIC].p99),
    )
    yield "6.12b: with a cache, all are faster", all(cached[name].p50 < without[name].p50 for name in ALL)
    yield (
        "6.12b: offloading has the shortest p99",
        _best(cached, OFFLOADING, "p99") < min(late_cached, cached[STATIC].p99),
    )
    yield (
        "6.12b: offloading has a shorter p50 than binding late",
        _best(cached, OFFLOADING, "p50") < _best(cached, BINDING, "p50"),
    )
    spread = min(cached[name].worker_p99_spread for name in BINDING)
    yield (
        "6.13: binding late balances the workers best",
        spread < min(cached[name].worker_p99_spread for name in (STATIC, *OFFLOADING)),
    )
