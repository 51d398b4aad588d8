"""What each figure of `stretto simulate elastic-paper` is made of, and the approaches that it compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stretto.elasticity import Controller
from stretto.simulator.experiments.executors import Measured, Setting, Trial, elastic_controllers, naive_controllers

Done = Callable[[], None]
"""Called after each run."""
KEYS_PER_NODE = 10_000 / 32
"""The paper's 10,000 keys on 32 nodes. A smaller cluster gets fewer, so that a partition has as many as in the paper:
with more, static partitions would be balanced by themselves."""
TOO_MUCH_FOR_STATIC = 1.1
OF_ELASTIC = 0.95
CATCH_UP_S = 8.0
"""The longer warm-up of runs with a given input: what could not be taken while executors had their homes only has to be
worked off."""


@dataclass(frozen=True)
class PaperScale:
    """The size of the cluster, the length of the runs, the seed of all random choices, and a clock in seconds for what
    takes the time of this machine. `known` has the runs that were made: several figures begin from the same ones."""

    nodes: int
    seconds: float
    warm_s: float
    seed: int
    clock: Callable[[], float]
    known: dict[Setting, Measured] = field(default_factory=dict, compare=False, repr=False)

    def setting(self, **more: Any) -> Setting:
        nodes = more.get("nodes", self.nodes)
        usual = {"nodes": nodes, "executors": nodes, "keys": round(KEYS_PER_NODE * nodes)}
        return Setting(**{**usual, "seed": self.seed, "seconds": self.seconds, "warm_s": self.warm_s, **more})

    def run(self, setting: Setting, done: Done) -> Measured:
        """Returns what a run measures, made or known."""
        if setting not in self.known:
            self.known[setting] = Trial(setting).run()
        done()
        return self.known[setting]


@dataclass(frozen=True)
class PaperFigure:
    """What we have found, what the paper says, which of its claims hold here, and why or why not."""

    title: str
    ours: dict[str, Any]
    paper: dict[str, Any]
    claims: dict[str, bool]
    note: str
    direction_holds: bool = field(init=False)
    """Whether all claims hold."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction_holds", all(self.claims.values()))


@dataclass(frozen=True)
class PaperExperiment:
    """A figure that can be made, and the number of runs that it takes."""

    make: Callable[[PaperScale, Done], PaperFigure]
    runs: int


@dataclass(frozen=True)
class Approach:
    """One of the paper's approaches: whether it has an executor per core or per node, the controllers of elastic
    executors, and whether keys are dealt to executors by load."""

    name: str
    per_core: bool
    controllers: Callable[[float], Sequence[Controller]] | None = None
    dealt: bool = False

    def of(self, setting: Setting) -> Setting:
        """Returns a setting with this approach."""
        executors = setting.cores if self.per_core else min(setting.executors, setting.nodes)
        return replace(setting, executors=executors, controllers=self.controllers, dealt=self.dealt)


STATIC = Approach("static", per_core=True)
RESOURCE_CENTRIC = Approach("resource_centric", per_core=True, dealt=True)
NAIVE = Approach("naive", per_core=False, controllers=naive_controllers)
ELASTIC = Approach("elastic", per_core=False, controllers=elastic_controllers)
ALL = (STATIC, RESOURCE_CENTRIC, NAIVE, ELASTIC)
OUR_LEVER = (
    "Our resource-centric lever moves all shards at one barrier that passes through the job as rows do, where the "
    "paper's synchronises for each shard: it pauses for as long as the fullest queue takes, not for seconds"
)


@dataclass(frozen=True)
class Compared:
    """What was measured of each approach, by its name."""

    found: dict[str, Measured]

    def of(self, approach: Approach) -> Measured:
        return self.found[approach.name]

    def rate(self, approach: Approach) -> float:
        return max(1.0, self.of(approach).tuples_per_s)

    def summary(self) -> dict[str, Any]:
        return {name: each.summary() for name, each in self.found.items()}


def run(scale: PaperScale, approach: Approach, setting: Setting, done: Done) -> Measured:
    """Runs one approach."""
    return scale.run(approach.of(setting), done)


def side_by_side(scale: PaperScale, setting: Setting, done: Done, approaches: Sequence[Approach] = ALL) -> Compared:
    """Runs the approaches, one after the other."""
    return Compared({each.name: run(scale, each, setting, done) for each in approaches})


def paced(full: Compared, setting: Setting) -> Setting:
    """Returns a setting with a given input, to compare latencies: more than static partitions can take, and less than
    elastic executors can. With full input all queues of those who keep up are full, and only that of the hottest static
    partition, which holds the generators back: latencies of full input say nothing."""
    most = full.of(STATIC).utilisation * TOO_MUCH_FOR_STATIC
    load = round(min(most, full.of(ELASTIC).utilisation * OF_ELASTIC), 3)
    return replace(setting, load=load, warm_s=setting.warm_s + CATCH_UP_S)
