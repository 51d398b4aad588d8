"""Compares strategies by setting, as in thesis figures 6.9, 6.10, 6.18, 6.20 and 6.21a."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from stretto.scheduling.spreading import Dispatcher
from stretto.scheduling.strategies import STRATEGIES
from stretto.simulator.experiments import bids, requests

BINDING = ("queue-direct", "laxity-direct")
OFFLOADING = ("1rtt-reject-send", "1rtt-accept-and-check")
COMPARED = (*BINDING, *OFFLOADING)
AUTO_WITHIN = 1.10
SKEWS = (0.1, 1.0, float("inf"))
SKEWED_TASK_MS = 10.0
TASKS_MS = (10.0, 5.0, 2.0, 1.0)
SPREADS = (16, 32)
RANGES = (1, 2, 4, 8, 12, 16)
RANGE_LOAD = 3.0
BIDS_LATENCY_NS = 20_000_000
CENTRAL_TASK_MS = 1.0
CENTRAL_UTILISATIONS = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Outcome:
    """One setting: the latency of each strategy, by which they are ranked, and all other measurements."""

    figure: str
    setting: str
    by: str
    latency_ms: dict[str, float]
    details: dict[str, dict[str, Any]]
    paper: str

    @property
    def ranked(self) -> list[str]:
        """The compared strategies, the best first, without `auto` and the static ones."""
        return sorted((name for name in self.latency_ms if name in COMPARED), key=self.latency_ms.__getitem__)

    @property
    def winner(self) -> str:
        return self.ranked[0]

    @property
    def kind(self) -> str:
        """The kind of strategy that the winner is."""
        return "dynamic binding" if self.winner in BINDING else "offloading"

    @property
    def auto_by_best(self) -> float | None:
        """The latency with `auto` divided by that of the best of the others, the static ones included."""
        auto = self.latency_ms.get("auto")
        others = [latency for name, latency in self.latency_ms.items() if name != "auto"]
        return None if auto is None else round(auto / min(others), 3)

    def as_json(self) -> dict[str, Any]:
        """Returns the object that `--json` prints."""
        return {**asdict(self), "winner": self.winner, "kind": self.kind, "auto_by_best": self.auto_by_best}


Step = Callable[[], None]


def by_skew(step: Step) -> Iterator[Outcome]:
    """Figure 6.9: tasks of 10 ms with increasing skew."""
    latency_ns = requests.objective_ns(int(SKEWED_TASK_MS * 1e6))
    for stateful in (False, True):
        for skew in SKEWS:
            text = f"{SKEWED_TASK_MS:g} ms, skew {skew:g}, {_state(stateful)}"
            setting = requests.Setting(int(SKEWED_TASK_MS * 1e6), skew, stateful)
            paper = "dynamic binding is more robust against skew"
            yield _requests("6.9", text, setting, latency_ns, paper, step)


def by_task_size(step: Step) -> Iterator[Outcome]:
    """Figure 6.10: smaller and smaller tasks at the same load, skew 0.1."""
    for task_ms in TASKS_MS:
        latency_ns = requests.objective_ns(int(task_ms * 1e6))
        for stateful in (False, True):
            setting = requests.Setting(int(task_ms * 1e6), 0.1, stateful)
            paper = "offloading is better when tasks are small"
            yield _requests("6.10", f"{task_ms:g} ms, skew 0.1, {_state(stateful)}", setting, latency_ns, paper, step)


def _state(stateful: bool) -> str:
    return "with state" if stateful else "no state"


def _requests(figure: str, text: str, setting: requests.Setting, latency_ns: int, paper: str, step: Step) -> Outcome:
    details = {}
    for name in (*COMPARED, "priority", "auto"):
        details[name] = asdict(requests.latencies(setting, STRATEGIES[name], latency_ns))
        step()
    means = {name: found["mean"] for name, found in details.items()}
    return Outcome(figure, text, "mean", means, details, paper)


def by_query(step: Step) -> Iterator[Outcome]:
    """Figure 6.18: windows that close at barriers, at half the load that an actor's home worker can handle.

    Our barriers cost M + N messages under both kinds, where the thesis sends M * N markers under dynamic binding. So
    the difference comes from merging the N lessees, and shows when there are many."""
    papers = {
        "highest bid": "1rtt-reject-send is lower than laxity-direct by up to 30 percent",
        "bid quantisation": "1rtt-reject-send is lower than laxity-direct by up to 9 percent",
    }
    for query, paper in papers.items():
        for instances in SPREADS:
            setting = bids.Setting(query, actors=8, instances=instances, load=0.5)
            yield _bids("6.18", f"{query}, half load, {instances} instances", setting, paper, step)


def by_range(step: Step) -> Iterator[Outcome]:
    """Figure 6.20: one overloaded aggregation on more and more instances."""
    for instances in RANGES:
        setting = bids.Setting("bid quantisation", actors=1, instances=instances, load=RANGE_LOAD)
        paper = "1rtt-reject-send is stable from 4 instances on, laxity-direct from 12"
        yield _bids("6.20", f"load {RANGE_LOAD:g}, PARALLELISM_RANGE {instances}", setting, paper, step)


def _bids(figure: str, text: str, setting: bids.Setting, paper: str, step: Step) -> Outcome:
    details = {}
    for name in (*COMPARED, "priority", "auto"):
        details[name] = asdict(bids.latencies(setting, STRATEGIES[name](), BIDS_LATENCY_NS))
        step()
    medians = {name: found["p50"] for name, found in details.items()}
    return Outcome(figure, text, "p50", medians, details, paper)


@dataclass(frozen=True)
class Central:
    """Figure 6.21a: a central dispatcher against asking two workers, at one load; latencies in milliseconds."""

    utilisation: float
    dispatcher: dict[str, Any]
    decentral: dict[str, Any]
    paper: str = "the gap grows with the load, from 2124 to 3632 ms"


def central(step: Step) -> Iterator[Central]:
    """Figure 6.21a: small tasks, all through one dispatching worker, or directly to one of two workers."""
    for utilisation in CENTRAL_UTILISATIONS:
        setting = requests.Setting(int(CENTRAL_TASK_MS * 1e6), float("inf"), False, utilisation=utilisation)
        dispatched = asdict(requests.latencies(setting, Dispatcher, 10**12))
        step()
        decentral = asdict(requests.latencies(setting, STRATEGIES["queue-direct"], 10**12))
        step()
        yield Central(utilisation, dispatched, decentral)


RUNS = (len(SKEWS) * 2 + len(TASKS_MS) * 2 + 2 * len(SPREADS) + len(RANGES)) * (len(COMPARED) + 2) + 2 * len(
    CENTRAL_UTILISATIONS
)
"""Number of simulations for all figures."""
