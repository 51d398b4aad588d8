"""What goes wrong while an app with streams and entities runs: crashes, hangs, cuts, restarts, handovers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from stretto.actors.deployment import Deployment
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.engine.both_parts import STREAMS, BothParts
from stretto.simulator.engine.durable import DurableCluster

TROUBLE_NS = (30_000_000, 80_000_000, 150_000_000)
"""When the last trouble begins."""


class Scalable(Protocol):
    """A dataflow in which one function can have several numbers of partitions."""

    @property
    def scaled(self) -> str:
        """The name of that function."""

    @property
    def counts(self) -> Sequence[int]: ...

    def rescaled(self, parallelism: int) -> Deployment: ...


@dataclass
class TroubledTrial:
    """The run of one seed: rows, faults, and what was wrong."""

    seed: int
    rows: int = 0
    crashes: int = 0
    restarts: int = 0
    recoveries: int = 0
    handovers: int = 0
    moves: int = 0
    snapshots: int = 0
    durable: bool = True
    """Without checkpoints, no worker may be lost, and the streams are only handed over."""
    violations: list[Violation] = field(default_factory=list)

    def count(self, cluster: BothParts) -> None:
        """Notes what has happened on the cluster."""
        self.crashes, self.recoveries, self.snapshots = cluster.deaths, cluster.recoveries, cluster.snapshots
        self.handovers, self.moves = len(cluster.handed_over), cluster.places_moved


def plan_trouble(cluster: BothParts, flow: Scalable, chance: random.Random, trial: TroubledTrial) -> bool:
    """Plan what goes wrong. Returns whether anything does."""
    crashes, others = chance.choice((0, 1, 2, 3)), chance.choice((0, 1, 2, 3))
    last_ns = chance.choice(TROUBLE_NS)
    if not trial.durable or chance.random() < 0.2:
        # Handovers alone: those that a fault meets are called off, for the most part.
        for _ in range(chance.randint(1, 3)):
            cluster.plan(chance.randint(0, last_ns), partial(_reshape, cluster, flow, chance))
        return False
    for _ in range(crashes):
        cluster.plan(chance.randint(0, last_ns), cluster.crash_some)
    for _ in range(others):
        kinds: list[Callable[[], None]] = [
            partial(_hang, cluster, chance),
            partial(cut_some, cluster, chance),
            partial(_restart, cluster, flow, chance, trial),
            partial(_restart, cluster, flow, chance, trial),
            *[partial(_reshape, cluster, flow, chance)] * 3,
        ]
        cluster.plan(chance.randint(0, last_ns), chance.choice(kinds))
    return bool(crashes or others)


def _hang(cluster: BothParts, chance: random.Random) -> None:
    names = cluster.names_of_workers()
    if names:
        cluster.hang(chance.choice(names), chance.choice((10_000_000, 100_000_000, 300_000_000)))


def cut_some(cluster: DurableCluster, chance: random.Random) -> None:
    names = cluster.names_of_workers()
    if len(names) > 1:
        one, other = chance.sample(names, 2)
        cluster.cut_off(one, other, chance.randint(1, 30) * 1_000_000)


def _restart(cluster: BothParts, flow: Scalable, chance: random.Random, trial: TroubledTrial) -> None:
    if not cluster.has_ended:
        trial.restarts += 1
        cluster.restart(flow.rescaled(chance.choice(flow.counts)) if chance.random() < 0.5 else None)


def _reshape(cluster: BothParts, flow: Scalable, chance: random.Random) -> None:
    """Hand the streams over to another number of partitions."""
    job = cluster.coordinator.jobs.get(STREAMS)
    if job is not None and not cluster.has_ended:
        now = job.shapes[flow.scaled].parallelism
        others = [count for count in flow.counts if count != now]
        if others:
            cluster.reshape(flow.rescaled(chance.choice(others)))
