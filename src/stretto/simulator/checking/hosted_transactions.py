"""Transactions on a whole simulated cluster: what `transactions.py` checks, with the machines that host them on Spark.

The parts around the machines of transactions are tried: places and who fills them, attempts after a loss or a broken
connection, claims on the log, doors that are told where the entities are. Workers crash, hang for longer than they may
be silent and then continue, and lose connections to each other. In every other seed places move (`moving_places.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from stretto.protocol.entities import Pace
from stretto.simulator.checking import transactions
from stretto.simulator.checking.cells import Cell
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.fuses import Fuse
from stretto.simulator.checking.moving_places import Movers
from stretto.simulator.checking.transactions import Trial, Users, tried
from stretto.simulator.engine.durable import Parts
from stretto.simulator.engine.hosted_entities import HostedEntities
from stretto.transactions import log
from stretto.transactions.attempt import WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.epoch import Epoch, EpochParts
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.place_log import PlaceLog
from stretto.worker.reports import REPORT_EVERY_NS

TROUBLE_NS = 250_000_000
"""When the last trouble begins."""


@dataclass(frozen=True)
class HostedParts:
    """The parts around the machines of transactions. A mutation replaces one."""

    cluster: Parts = field(default_factory=Parts)
    place: type[PlaceLog] = PlaceLog
    worker: type[Epoch] = Epoch
    machine: type[TransactionWorker] = TransactionWorker
    read_log: Callable[[bytes, int], log.Content] = log.read


class UsersOfCluster(Users):
    """On a whole cluster, with one door."""

    CLIENTS = (1, 1, 1)
    cluster: HostedEntities

    def __init__(self, seed: int, workers_max: int, parts: HostedParts) -> None:
        self._parts = parts
        super().__init__(seed, workers_max)

    def make(self, seed: int, workers: int, clients: int) -> HostedEntities:
        spare = self.chance.choice((0, 0, 1))
        self.movers = Movers(random.Random(seed * 19 + 3), workers, seed)
        self.fuse = Fuse(random.Random(seed), self.chance.choice((0.0, 0.0, 0.02)))
        parts = self._parts
        machine_parts = WorkerParts(
            epoch=parts.worker, read_log=parts.read_log, in_epoch=EpochParts(execution=self.fuse.execution())
        )
        cluster = HostedEntities(
            workers + spare,
            seed,
            Catalog([Cell]),
            self.answered,
            parts.cluster,
            parts.place,
            machine_parts,
            self.movers.machine(parts.machine),
            self.fuse.around,
        )
        self.movers.begin(cluster)
        settings = self.settings
        cluster.submit_entities(
            Pace(settings.epoch_ns, settings.calls_max, settings.snapshot_ns, settings.keys_kept_us),
            self.movers.places,
        )
        return cluster

    def calm(self) -> None:
        self.fuse.share = 0.0

    def trouble(self) -> None:
        cluster, chance = self.cluster, self.chance
        self.movers.plan(cluster)
        for _ in range(chance.choice((0, 1, 2, 3))):
            cluster.after(chance.randint(0, TROUBLE_NS), cluster.crash_some)
        for _ in range(chance.choice((0, 1, 1))):
            cluster.after(chance.randint(0, TROUBLE_NS), partial(self._hang, chance.randint(10, 400) * 1_000_000))
        for _ in range(chance.choice((0, 1, 2))):
            cluster.after(chance.randint(0, TROUBLE_NS), self._cut)

    def _hang(self, length_ns: int) -> None:
        names = self.cluster.names_of_workers()
        if names:
            self.cluster.hang(self.chance.choice(names), length_ns)

    def _cut(self) -> None:
        names = self.cluster.names_of_workers()
        if len(names) > 1:
            one, other = self.chance.sample(names, 2)
            self.cluster.cut_off(one, other, self.chance.randint(1, 30) * 1_000_000)


def try_hosted_seed(seed: int, workers_max: int, parts: HostedParts | None = None) -> Trial:
    """Run one random cluster, and check it."""
    made: list[UsersOfCluster] = []

    def make() -> UsersOfCluster:
        made.append(UsersOfCluster(seed, workers_max, parts or HostedParts()))
        return made[0]

    trial = tried(seed, make)
    for users in made:
        trial.moves = users.cluster.places_moved
        trial.violations += [Violation("leaves", text) for text in users.cluster.leaver_faults]
        if trial.violations:
            continue  # It may have stopped in the midst of a step.
        trial.violations += [Violation("counts", text) for text in _counted_twice(users.cluster)]
        trial.violations += [Violation("liveness", text) for text in _stuck(users.cluster)]
    return trial


def _stuck(cluster: HostedEntities) -> Iterator[str]:
    """Yields which place is still moving although nothing goes wrong any more."""
    moving = cluster.coordinator.entities.moving
    if not cluster.run_until(transactions.STEPS_MAX, lambda: moving.of(cluster.job) is None):
        yield f"a place does not stop moving: {moving.of(cluster.job)}"


def _counted_twice(cluster: HostedEntities) -> Iterator[str]:
    """Yields what is wrong with what is observed: a transaction that is replayed is counted once. Fewer may be counted,
    since reports are lost with workers."""
    told_ns = cluster.now_ns + REPORT_EVERY_NS * 5 // 4
    cluster.run_until(transactions.STEPS_MAX, lambda: cluster.now_ns >= told_ns)
    ended = {(reply.client, reply.number) for reply in cluster.replies if reply.place is not None}
    for name, entities in cluster.coordinator.observed().entities.items():
        counted = entities.totals.committed + sum(entities.totals.aborted.values())
        if counted > len(ended):
            yield f"{counted} transactions of {name} were counted, and {len(ended)} have ended"
