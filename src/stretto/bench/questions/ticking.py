"""A table that grows: each partition gets a row every few milliseconds, with its number and when it came."""

from __future__ import annotations

import time

import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.bench.questions.rows import BEGIN

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")),
        ("part", pa.int32()),
        ("place", pa.int64()),
        ("arrived_us", pa.int64()),
    ]
)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000


class Ticks(Source):
    """Row n of a partition has the event time `n * every_ms` after the beginning, and comes that long after the first
    read. A reader that begins in the middle goes on from there at once. Rows that were not read in time come in one
    batch."""

    schema = SCHEMA

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms

    def reader(self, partition: int, partitions: int) -> SourceReader:
        return _TickReader(partition, self._every_ms)

    def describe(self) -> str:
        return f"a row every {self._every_ms} ms"


class _TickReader(SourceReader):
    def __init__(self, partition: int, every_ms: int) -> None:
        self._partition = partition
        self._every_ns = every_ms * 1_000_000
        self._began_ns: int | None = None

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._began_ns is None:
            self._began_ns = now_ns - self.position * self._every_ns
        due_ns = self._began_ns + self.position * self._every_ns
        if now_ns < due_ns:
            return Reading(None, now_ns, next_ns=due_ns)
        places = range(self.position, self.position + min(max_rows, (now_ns - due_ns) // self._every_ns + 1))
        self.position = places.stop
        arrived_us = time.time_ns() // 1_000
        at = [BEGIN_US + place * self._every_ns // 1_000 for place in places]
        count = len(places)
        batch = pa.record_batch([at, [self._partition] * count, list(places), [arrived_us] * count], SCHEMA)
        return Reading(batch, now_ns, next_ns=self._began_ns + self.position * self._every_ns)

    def seek(self, position: int) -> None:
        self.position = position
        self._began_ns = None
