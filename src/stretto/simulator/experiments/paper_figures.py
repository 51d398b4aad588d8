"""What each figure of `stretto simulate elastic-paper` is made of, and the approaches that it compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stretto.elasticity import Controller
from stretto.simulator.experiments.executors import Measured, Setting, Trial, elastic_controllers, naive_controllers

Done = Callable[[], None]
"""Called after each run."""
KEYS_PER_NODE = 10_000 / 32
"""The paper's 10,000 keys on 32 nodes. A smaller cluster gets fewer, so that a partition has as many as in the paper:
with more, static partitions would be balanced by themselves."""


LATENCY_LOAD = 0.7
"""The input of the runs whose latency is compared, as a share of all cores: more than static partitions can take."""
CATCH_UP_S = 8.0
"""The longer warm-up of these: what could not be taken while executors had their homes only has to be worked off."""


@dataclass(frozen=True)
class PaperScale:
    """The size of the cluster, the length of the runs, the seed of all random choices, and a clock in seconds for what
    takes the time of this machine."""

    nodes: int
    seconds: float
    warm_s: float
    seed: int
    clock: Callable[[], float]

    def setting(self, **more: Any) -> Setting:
        nodes = more.get("nodes", self.nodes)
        usual = {"nodes": nodes, "executors": nodes, "keys": round(KEYS_PER_NODE * nodes)}
        return Setting(**{**usual, "seed": self.seed, "seconds": self.seconds, "warm_s": self.warm_s, **more})

    def paced(self, **more: Any) -> Setting:
        """Returns a setting with a given input, to compare latencies."""
        return self.setting(**{"load": LATENCY_LOAD, "warm_s": self.warm_s + CATCH_UP_S, **more})


@dataclass(frozen=True)
class PaperFigure:
    """What we have found, what the paper says, whether the direction is the paper's (None: not compared), and why or
    why not."""

    title: str
    ours: dict[str, Any]
    paper: dict[str, Any]
    direction_holds: bool | None
    note: str


@dataclass(frozen=True)
class PaperExperiment:
    """A figure that can be made, and the number of runs that it takes."""

    make: Callable[[PaperScale, Done], PaperFigure]
    runs: int


@dataclass(frozen=True)
class Approach:
    """One of the paper's approaches: whether it has an executor per core or per node, and its controllers (None:
    nothing changes while it runs). One that is not `built` is not run, and its figures are null."""

    name: str
    per_core: bool
    controllers: Callable[[float], Sequence[Controller]] | None
    built: bool = True

    def run(self, setting: Setting, done: Done) -> Measured | None:
        """Runs a setting; None if it cannot be run yet."""
        if not self.built:
            return None
        executors = setting.cores if self.per_core else min(setting.executors, setting.nodes)
        measured = Trial(replace(setting, executors=executors, controllers=self.controllers)).run()
        done()
        return measured


STATIC = Approach("static", per_core=True, controllers=None)
RESOURCE_CENTRIC = Approach("resource_centric", per_core=True, controllers=None, built=False)
"""Its controllers would decide `Repartition`, which the machines refuse so far."""
NAIVE = Approach("naive", per_core=False, controllers=naive_controllers)
ELASTIC = Approach("elastic", per_core=False, controllers=elastic_controllers)
COMPARED = (STATIC, RESOURCE_CENTRIC, ELASTIC)
NO_RC = "resource_centric is null: repartitioning a running function is not in the machines yet, so it was not run"


def runs_of(approaches: Sequence[Approach]) -> int:
    """Returns how many runs it takes to compare these once."""
    return sum(each.built for each in approaches)


def run(approach: Approach, setting: Setting, done: Done) -> Measured:
    """Runs an approach that is built."""
    measured = approach.run(setting, done)
    if measured is None:
        raise ValueError(f"the approach '{approach.name}' cannot be run yet")
    return measured


@dataclass(frozen=True)
class Compared:
    """What was measured of each approach, by its name; None of those that are not built."""

    found: dict[str, Measured | None]

    def of(self, approach: Approach) -> Measured:
        measured = self.found[approach.name]
        assert measured is not None
        return measured

    def summary(self) -> dict[str, Any]:
        return {name: None if each is None else each.summary() for name, each in self.found.items()}


def side_by_side(setting: Setting, done: Done, approaches: Sequence[Approach] = COMPARED) -> Compared:
    """Runs the approaches, one after the other."""
    return Compared({each.name: each.run(setting, done) for each in approaches})
