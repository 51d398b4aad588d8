"""The levers of elasticity: what controllers and users can have done to running jobs. Each is carried out by a worker,
which reports whether it worked.

One lever so far: the shards of an elastic executor move to other workers.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address
from stretto.coordinator.part import FrameHandlers, Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.protocol.elastic import MoveShards, ShardsMoved


class Results(Protocol):
    """Whoever waits for what has become of orders."""

    def done(self, order: int, moved: ShardsMoved) -> None: ...

    def failed(self, order: int, reason: str) -> None: ...


class Levers(Part):
    """Orders to workers, by their numbers."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._orders = 0
        self._pulled: dict[int, str] = {}
        """The attempt of the job of each order that is not done."""

    def connect(self, results: Results) -> None:
        self._results = results

    def frames(self) -> FrameHandlers:
        return {ShardsMoved: self._on_moved}

    def move_shards(self, job: Job, function: str, partition: int, moves: tuple[tuple[int, str], ...]) -> int | None:
        """Has shards moved; returns the number of the order, or None if the job does not run or has no such actor."""
        homes = job.placement.get(function, [])
        if job.status is not JobStatus.RUNNING or not 0 <= partition < len(homes):
            return None
        self._orders += 1
        actor = Address(job.attempt, function, partition)
        self._pulled[self._orders] = job.attempt
        self._host.send(homes[partition], MoveShards(actor, self._orders, moves))
        return self._orders

    def _on_moved(self, sender: str, frame: ShardsMoved) -> None:
        if self._pulled.pop(frame.order, None) is not None:
            self._results.done(frame.order, frame)

    def tick(self) -> None:
        """Gives up the orders of attempts that have ended."""
        for order, attempt in list(self._pulled.items()):
            if self._host.running(attempt) is None:
                del self._pulled[order]
                self._results.failed(order, "the attempt of the job has ended")
