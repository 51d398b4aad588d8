"""How a dataflow resumes from a checkpoint of another: which actor follows which, which had finished, how far time is.

The coordinator and every worker compute this on their own, from the manifest and the shape of the dataflow alone, and
so agree. Where nothing has changed, each actor follows itself.

- A partition of a keyed function follows the former partitions that had some of its keys. A partition of a source
  follows those that read some of its splits, which stay the same. Partition p of n of any other function follows p,
  p + n, p + 2n and so on.
- An actor had finished if all actors that it follows had, and all that feed it have.
- The watermark that an actor has sent downstream is the least one of all actors that it follows, but not more than it
  gets itself: where the dataflow has changed, its senders may be behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec.structs import replace

from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.shape import FunctionShape, Shapes
from stretto.actors.shards import ShardMap
from stretto.checkpoints.manifest import ActorRecord, Manifest


def succession(before: Shapes, shapes: Shapes, records: Mapping[str, list[ActorRecord]] | None = None) -> Resumption:
    """Returns how a dataflow takes over from a running one with the shapes `before`. Without the `records` of its
    actors, only who follows whom is known."""
    functions = {name: [ActorRecord()] * shape.parallelism for name, shape in before.items()}
    return Resumption(Manifest("", 0, dict(records or functions), shapes=before), shapes)


class Resumption:
    """How a dataflow resumes from `manifest`, or starts from the beginning if that is None."""

    def __init__(self, manifest: Manifest | None, shapes: Mapping[str, FunctionShape]) -> None:
        self._records = manifest.functions if manifest is not None else {}
        self._before = manifest.shapes if manifest is not None else {}
        self._shapes = shapes
        self._sent: dict[tuple[str, int], int] = {}
        self._finished: dict[tuple[str, int], bool] = {}

    @cached_property
    def is_same(self) -> bool:
        """Whether the dataflow has not changed."""
        counts = {name: shape.parallelism for name, shape in self._shapes.items()}
        if counts != {name: len(records) for name, records in self._records.items()}:
            return False
        return self._before.keys() == counts.keys() and all(
            shape.feeds == self._before[name].feeds and self._owns_as_before(name)
            for name, shape in self._shapes.items()
        )

    def splits(self, function: str) -> int:
        """Returns the number of splits of a source's input: as many as it had at first."""
        before = self._before.get(function)
        return before.splits if before is not None and before.splits else self._shapes[function].splits

    def shapes(self) -> Shapes:
        """What the next manifest says of the functions."""
        return {name: replace(shape, splits=self.splits(name)) for name, shape in self._shapes.items()}

    def former_shards(self, function: str) -> ShardMap | None:
        """Which partition owned which shard, if rows were partitioned by the same columns and there were several."""
        before = self._before.get(function)
        same = before is not None and before.parallelism > 1 and self.is_partitioned_as_before(function)
        return before.shards if before is not None and same else None

    def parallelism(self, function: str) -> int:
        """Returns how many partitions a function had; 0 if it is new."""
        return len(self._records.get(function, ()))

    def is_whole(self, function: str) -> bool:
        """Whether each partition resumes exactly from its own snapshot."""
        had, shape = self.parallelism(function), self._shapes[function]
        return had == shape.parallelism and (had == 1 or self._owns_as_before(function))

    def _owns_as_before(self, function: str) -> bool:
        before, shape = self._before.get(function), self._shapes[function]
        if before is None or not self.is_partitioned_as_before(function):
            return False
        return before.shards is None or shape.shards is None or before.shards.is_same(shape.shards)

    def is_partitioned_as_before(self, function: str) -> bool:
        before = self._before.get(function)
        return before is not None and before.partitioned_by == self._shapes[function].partitioned_by

    def follows(self, function: str, partition: int) -> dict[int, ActorRecord]:
        """Returns the former partitions whose snapshots an actor reads, with their records."""
        had, shape = self.parallelism(function), self._shapes[function]
        if self.is_whole(function):
            chosen = [partition]
        elif shape.splits:
            mine = range(partition, self.splits(function), shape.parallelism)
            chosen = sorted({split % had for split in mine} if had else set())
        elif shape.partitioned_by and shape.parallelism > 1:
            before = self._before[function].shards if self.is_partitioned_as_before(function) else None
            if before is None or shape.shards is None:
                chosen = list(range(had))
            else:
                chosen = shape.shards.overlaps(partition, before)
        else:
            chosen = list(range(partition, had, shape.parallelism))
        return {former: self._records[function][former] for former in chosen}

    def leads(self, function: str, partition: int) -> frozenset[int]:
        """Returns the former partitions that an actor follows and no actor before it does."""
        earlier = {former for before in range(partition) for former in self.follows(function, before)}
        return frozenset(self.follows(function, partition).keys() - earlier)

    def finished(self, function: str, partition: int) -> bool:
        """Whether an actor has nothing left to do, except for a sink to publish."""
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
        if self._shapes[function].splits:
            return partition >= self.splits(function) or (bool(followed) and had_finished)
        return had_finished and all(self.finished(*sender) for sender in self._senders(function, partition))

    def sent_downstream(self, function: str, partition: int) -> tuple[int, bool]:
        """Returns the watermark that an actor has sent downstream, and whether it has sent its end."""
        if self.finished(function, partition):
            return EVENT_TIME_MAX_US, True
        known = self._sent.get((function, partition))
        if known is None:
            followed = self.follows(function, partition).values()
            own = [record.watermark_us for record in followed if not record.finished] or [EVENT_TIME_MIN_US]
            known = min([*own, *(self.sent_downstream(*sender)[0] for sender in self._senders(function, partition))])
            self._sent[function, partition] = known
        return known, False

    def _senders(self, function: str, partition: int) -> list[tuple[str, int]]:
        senders = []
        for feed in self._shapes[function].feeds:
            every = range(self._shapes[feed.sender].parallelism)
            senders += [(feed.sender, each) for each in ([partition] if feed.forward else every)]
        return senders

    def channels(self, function: str, partition: int) -> dict[tuple[str, int], tuple[int, bool]]:
        """How far each actor that feeds one is."""
        return {sender: self.sent_downstream(*sender) for sender in self._senders(function, partition)}
