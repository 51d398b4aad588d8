"""Transactions on a whole simulated cluster: what `transactions.py` checks, with the machines that host them on Spark.

The parts around the machines of transactions are tried: places and who fills them, attempts after a loss or a broken
connection, claims on the log, doors that are told where the entities are. Workers crash, hang for longer than they may
be silent and then continue, and lose connections to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from stretto.protocol.entities import Pace
from stretto.simulator.checking.cells import Cell
from stretto.simulator.checking.transactions import Trial, Users, tried
from stretto.simulator.engine.durable import Parts
from stretto.simulator.engine.hosted_entities import HostedEntities
from stretto.transactions.catalog import Catalog
from stretto.transactions.place_log import PlaceLog

TROUBLE_NS = 250_000_000
"""When the last trouble begins."""


@dataclass(frozen=True)
class HostedParts:
    """The parts around the machines of transactions. A mutation replaces one."""

    cluster: Parts = field(default_factory=Parts)
    place: type[PlaceLog] = PlaceLog


class UsersOfCluster(Users):
    """On a whole cluster, with one door."""

    CLIENTS = (1, 1, 1)
    cluster: HostedEntities

    def __init__(self, seed: int, workers_max: int, parts: HostedParts) -> None:
        self._parts = parts
        super().__init__(seed, workers_max)

    def make(self, seed: int, workers: int, clients: int) -> HostedEntities:
        spare = self.chance.choice((0, 0, 1))
        cluster = HostedEntities(
            workers + spare, seed, Catalog([Cell]), self.answered, self._parts.cluster, self._parts.place
        )
        settings = self.settings
        cluster.submit_entities(Pace(settings.epoch_ns, settings.calls_max, settings.snapshot_ns), workers)
        return cluster

    def trouble(self) -> None:
        cluster, chance = self.cluster, self.chance
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
    return tried(seed, lambda: UsersOfCluster(seed, workers_max, parts or HostedParts()))
