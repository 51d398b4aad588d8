"""What each figure of `stretto simulate elastic-paper` is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stretto.simulator.experiments.executors import (
    CORES_PER_NODE,
    Measured,
    Setting,
    Trial,
    elastic_controllers,
    naive_controllers,
)

Done = Callable[[], None]
"""Called after each run."""


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
        return replace(Setting(self.nodes, seed=self.seed, seconds=self.seconds, warm_s=self.warm_s), **more)


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


NO_RC = "resource_centric is null: repartitioning a running function is not in the machines yet, so it was not run"


def static(setting: Setting, done: Done) -> Measured:
    """Runs as many partitions as cores, without controllers."""
    return _run(replace(setting, executors=setting.nodes * CORES_PER_NODE, controllers=None), done)


def elastic(setting: Setting, done: Done) -> Measured:
    """Runs an executor per node, unless there is another number of them, with the production controllers."""
    return _run(_executors(replace(setting, controllers=elastic_controllers)), done)


def naive(setting: Setting, done: Done) -> Measured:
    """Likewise, where the workers are the first that are found."""
    return _run(_executors(replace(setting, controllers=naive_controllers)), done)


def _executors(setting: Setting) -> Setting:
    return replace(setting, executors=min(setting.executors, setting.nodes))


def _run(setting: Setting, done: Done) -> Measured:
    measured = Trial(setting).run()
    done()
    return measured


def side_by_side(setting: Setting, done: Done) -> tuple[dict[str, Any], Measured, Measured]:
    """Runs the static approach and the elastic one; returns their figures, and what was measured of both."""
    fixed, free = static(setting, done), elastic(setting, done)
    shown = {"static": fixed.summary(), "resource_centric": None, "elastic": free.summary()}
    return shown, fixed, free
