"""The NEXMark generator as a source: any partition produces any slice, at a given rate or at full speed.

A read covers a range of event numbers and returns the rows of one kind in it, so the sources of persons, auctions and
bids advance through event time together. Blocks of `block` events are assigned to the partitions round robin.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.bench.nexmark.events import SCHEMAS, Kind, NexmarkConfig, watermark_us
from stretto.bench.nexmark.generator import generate


class NexmarkSource(Source):
    """Events of one kind. `rate` is events per second of all kinds, over all partitions; None means at full speed. With
    a rate, the first event comes at `begins_ns`, or when a partition is first read; one that resumes then begins
    again, with the event that it resumes at."""

    def __init__(
        self,
        kind: str,
        config: NexmarkConfig,
        rate: float | None = None,
        columns: Sequence[str] | None = None,
        block: int = 4096,
        begins_ns: int | None = None,
    ) -> None:
        whole = SCHEMAS[Kind(kind)]
        self.kind = kind
        self.config = config
        self.rate = rate
        self.columns = None if columns is None else tuple(columns)
        self.block = block
        self.begins_ns = begins_ns
        self.schema: pa.Schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])

    def length(self, partition: int, partitions: int) -> int | None:
        if self.config.events is None:
            return None
        blocks, rest = divmod(self.config.events, self.block)
        own = (blocks - partition + partitions - 1) // partitions * self.block
        return own + (rest if blocks % partitions == partition else 0)

    def reader(self, partition: int, partitions: int) -> NexmarkReader:
        return NexmarkReader(self, partition, partitions)

    def describe(self) -> str:
        events = "endless" if self.config.events is None else f"{self.config.events} events"
        pace = "full speed" if self.rate is None else f"{self.rate:g} events/s"
        return f"nexmark {self.kind} ({events}, seed {self.config.seed}, {pace})"


class NexmarkReader(SourceReader):
    """Reads one partition; `position` counts its event numbers, of all kinds."""

    def __init__(self, source: NexmarkSource, partition: int, partitions: int) -> None:
        self.position = 0
        self._source = source
        self._partition = partition
        self._partitions = partitions
        self._length = source.length(partition, partitions)
        self._surge = source.config.surge
        self._began_ns: int | None = source.begins_ns
        self._began_at = 0

    @property
    def number(self) -> int:
        """The number of the next event, among those of all partitions."""
        return self._global(self.position)

    def seek(self, position: int) -> None:
        self.position = position
        if self._source.begins_ns is None:
            self._began_at = self._global(position)
            self._began_ns = None

    def available(self, now_ns: int) -> int | None:
        if self._source.rate is None:
            return self._length
        position = self.position
        while self._due_ns(self._global(position), now_ns) <= now_ns:
            position += self._source.block - position % self._source.block
            if self._length is not None and position >= self._length:
                return self._length
        return position

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._length is not None and self.position >= self._length:
            return Reading(None, now_ns, done=True)
        start = self._global(self.position)
        count = min(max_rows, self._source.block - self.position % self._source.block)
        if self._length is not None:
            count = min(count, self._length - self.position)
        arrived_ns, next_ns = now_ns, None
        if self._source.rate is not None:
            first_due_ns = self._due_ns(start, now_ns)
            if now_ns < first_due_ns:
                return Reading(None, now_ns, next_ns=first_due_ns)
            count = min(count, self._due_by(now_ns, start, count))
            arrived_ns = self._due_ns(start + count - 1, now_ns)
        config, kind = self._source.config, self._source.kind
        batch = generate(config, kind, start, start + count, self._source.columns)
        self.position += count
        done = self._length is not None and self.position >= self._length
        upcoming = self._global(self.position)
        if self._source.rate is not None and not done:
            due_ns = self._due_ns(upcoming, now_ns)
            next_ns = due_ns if due_ns > now_ns else None
        return Reading(batch, arrived_ns, watermark_us(config, upcoming), next_ns, done)

    def _global(self, position: int) -> int:
        """Returns the event number at a position of this partition."""
        block, offset = divmod(position, self._source.block)
        return (block * self._partitions + self._partition) * self._source.block + offset

    def _due_ns(self, number: int, now_ns: int) -> int:
        assert self._source.rate is not None
        if self._began_ns is None:
            self._began_ns = now_ns
        if self._surge is None:
            return self._began_ns + int((number - self._began_at) * 1e9 / self._source.rate)
        ticks = self._surge.ticks(number) - self._surge.ticks(self._began_at)
        return self._began_ns + int(ticks * 1e9 / (self._source.rate * self._surge.times))

    def _due_by(self, now_ns: int, start: int, most: int) -> int:
        """Returns how many of the next `most` events have come, the first of which has."""
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._due_ns(start + middle - 1, now_ns) <= now_ns else (low, middle - 1)
        return low
