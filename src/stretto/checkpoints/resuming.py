"""How a dataflow goes on from a checkpoint of another one: who follows whom, who had finished, how far event time is.

The coordinator and every worker work it out for themselves, from the manifest and the shape of the dataflow alone, and
so agree. Where nothing has changed, each actor follows itself.

- A keyed function's partition follows those that had some of its keys. Any other one's partition p of n follows p,
  p + n, p + 2n and so on. A source's follows those that read some of its parts of the input, which stay what they were.
- An actor had finished if all that it follows had, and all that feed it have.
- An actor has told those below the least watermark of all that it follows, but not more than it is told itself: where
  the dataflow has changed, what is above may be behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from msgspec.structs import replace

from stretto.actors.deployment import Deployment, Forward, FunctionSpec, edges_of
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.partitioning import SHARDS, partition_of
from stretto.checkpoints.manifest import ActorRecord, Feed, Manifest, Traits


@dataclass(frozen=True, slots=True)
class Shape:
    """A function as far as checkpoints see it."""

    parallelism: int
    traits: Traits


def shapes_of(deployment: Deployment) -> dict[str, Shape]:
    """The shapes of all functions of a deployment."""
    feeds: dict[str, list[Feed]] = {name: [] for name in deployment.functions}
    for name, spec in deployment.functions.items():
        for stage in spec.outputs.values():
            for edge in edges_of(stage):
                feeds[edge.target].append(Feed(name, edge.input, isinstance(edge.routing, Forward)))
    return {name: _shape(spec, tuple(feeds[name])) for name, spec in deployment.functions.items()}


def _shape(spec: FunctionSpec, feeds: tuple[Feed, ...]) -> Shape:
    is_sink = not any(edges_of(stage) for stage in spec.outputs.values())
    dealt_by = {name: tuple(schema.names) for name, schema in spec.dealt_by.items()}
    splits = 0 if feeds else spec.parallelism
    return Shape(spec.parallelism, Traits(feeds, dealt_by, spec.function.layouts(), is_sink, splits))


class Resumption:
    """How a dataflow goes on from `manifest`, or from the beginning."""

    def __init__(self, manifest: Manifest | None, shapes: Mapping[str, Shape]) -> None:
        self._records = manifest.functions if manifest is not None else {}
        self._before = manifest.traits if manifest is not None else {}
        self._shapes = shapes
        self._told: dict[tuple[str, int], int] = {}
        self._finished: dict[tuple[str, int], bool] = {}

    @cached_property
    def is_same(self) -> bool:
        """Whether it is the dataflow that it was."""
        counts = {name: shape.parallelism for name, shape in self._shapes.items()}
        if counts != {name: len(records) for name, records in self._records.items()}:
            return False
        return self._before.keys() == counts.keys() and all(
            shape.traits.feeds == self._before[name].feeds and self.is_dealt_as_before(name)
            for name, shape in self._shapes.items()
        )

    def splits(self, function: str) -> int:
        """In how many parts a source's input is: as many as it had at first."""
        before = self._before.get(function)
        return before.splits if before is not None and before.splits else self._shapes[function].traits.splits

    def traits(self) -> dict[str, Traits]:
        """What the next manifest says of the functions."""
        return {name: replace(shape.traits, splits=self.splits(name)) for name, shape in self._shapes.items()}

    def parallelism(self, function: str) -> int:
        """How many partitions it had; 0 if it is new."""
        return len(self._records.get(function, ()))

    def is_whole(self, function: str) -> bool:
        """Whether each partition is exactly what it was."""
        had, shape = self.parallelism(function), self._shapes[function]
        return had == shape.parallelism and (had == 1 or self.is_dealt_as_before(function))

    def is_dealt_as_before(self, function: str) -> bool:
        before = self._before.get(function)
        return before is not None and before.dealt_by == self._shapes[function].traits.dealt_by

    def follows(self, function: str, partition: int) -> dict[int, ActorRecord]:
        """The partitions whose snapshots an actor needs some of, with these."""
        had, shape = self.parallelism(function), self._shapes[function]
        if self.is_whole(function):
            chosen = [partition]
        elif shape.traits.splits:
            mine = range(partition, self.splits(function), shape.parallelism)
            chosen = sorted({split % had for split in mine} if had else set())
        elif shape.traits.dealt_by and shape.parallelism > 1:
            overlap = _overlaps(had, shape.parallelism)[partition] if self.is_dealt_as_before(function) else range(had)
            chosen = list(overlap)
        else:
            chosen = list(range(partition, had, shape.parallelism))
        return {former: self._records[function][former] for former in chosen}

    def leads(self, function: str, partition: int) -> frozenset[int]:
        """Of those that an actor follows, the ones that no actor before it does."""
        earlier = {former for before in range(partition) for former in self.follows(function, before)}
        return frozenset(self.follows(function, partition).keys() - earlier)

    def finished(self, function: str, partition: int) -> bool:
        """Whether an actor has nothing left to do, but for a sink to publish."""
        known = self._finished.get((function, partition))
        if known is None:
            known = self._finished[function, partition] = self._had_finished(function, partition)
        return known

    def _had_finished(self, function: str, partition: int) -> bool:
        if not self._records:
            return False
        followed = self.follows(function, partition).values()
        had_finished = all(record.finished for record in followed)
        if self.is_same:
            return had_finished
        if self._shapes[function].traits.splits:
            return partition >= self.splits(function) or (bool(followed) and had_finished)
        return had_finished and all(self.finished(*sender) for sender in self._senders(function, partition))

    def told(self, function: str, partition: int) -> tuple[int, bool]:
        """The watermark that an actor has sent to those below, and whether its end."""
        if self.finished(function, partition):
            return EVENT_TIME_MAX_US, True
        known = self._told.get((function, partition))
        if known is None:
            followed = self.follows(function, partition).values()
            own = [record.watermark_us for record in followed if not record.finished] or [EVENT_TIME_MIN_US]
            known = min([*own, *(self.told(*sender)[0] for sender in self._senders(function, partition))])
            self._told[function, partition] = known
        return known, False

    def _senders(self, function: str, partition: int) -> list[tuple[str, int]]:
        senders = []
        for feed in self._shapes[function].traits.feeds:
            every = range(self._shapes[feed.sender].parallelism)
            senders += [(feed.sender, each) for each in ([partition] if feed.forward else every)]
        return senders

    def channels(self, function: str, partition: int) -> dict[tuple[str, int], tuple[int, bool]]:
        """How far each actor that feeds one is."""
        return {sender: self.told(*sender) for sender in self._senders(function, partition)}


@cache
def _overlaps(had: int, has: int) -> list[list[int]]:
    """For each of so many partitions, those of so many others that had some of its shards."""
    shards = np.arange(SHARDS, dtype=np.uint64)
    pairs = {*zip(partition_of(shards, has).tolist(), partition_of(shards, had).tolist(), strict=True)}
    return [sorted(former for now, former in pairs if now == partition) for partition in range(has)]
