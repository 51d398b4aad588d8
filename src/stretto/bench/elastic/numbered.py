"""Sources of numbered events: each split reads the events of its own keys, in the order of their numbers.

An event is a function of its number, and its key decides its split. So the events are the same for any number of splits
and the events of one key have one order. The position of a split is an event number: the same in all splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.bench.draws import Int64s, UInt64s, hashed, stream
from stretto.errors import UserError

EPOCH_US = 1_750_000_000_000_000
TIME = pa.timestamp("us", tz="UTC")
BLOCK = 4096
"""Keys are drawn for this many events at once."""


@dataclass(frozen=True)
class Numbered:
    """Events 0, 1, 2, ... of which `rate` occur in a second of event time. `events` is None if there is no end."""

    seed: int = 1
    events: int | None = 100_000
    rate: float = 10_000.0

    schema: ClassVar[pa.Schema]

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1e9:
            raise UserError("the rate must be above 0 and at most 1e9 events per second", f"it is {self.rate:g}")
        if self.events is not None and self.events < 0:
            raise UserError("the number of events must not be negative", f"it is {self.events}")

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.rate)

    def times_us(self, numbers: Int64s) -> Int64s:
        times: Int64s = EPOCH_US + numbers * self.period_ns // 1_000
        return times

    def draw(self, field: str, numbers: Int64s) -> UInt64s:
        return hashed(stream(self.seed, f"{type(self).__name__}.{field}"), numbers)

    def keys(self, numbers: Int64s) -> Int64s:
        """Returns the keys of these events; one of them decides the event's split."""
        raise NotImplementedError

    def rows(self, numbers: Int64s) -> pa.RecordBatch:
        """Returns these events as rows of the schema."""
        raise NotImplementedError

    def table(self) -> pa.Table:
        """Returns all events in the order of their numbers."""
        if self.events is None:
            raise UserError("the events have no end", None, "Set the number of events.")
        return pa.Table.from_batches([self.rows(np.arange(self.events, dtype=np.int64))], self.schema)

    def describe(self) -> str:
        return "endless" if self.events is None else f"{self.events} events"


class NumberedSource(Source):
    """Numbered events as a source. Paced, an event is due at its event time, counted from the first read; otherwise
    events are read as fast as the app takes them."""

    def __init__(self, events: Numbered, paced: bool = False) -> None:
        self.events = events
        self.paced = paced
        self.schema = events.schema

    def length(self, partition: int, partitions: int) -> int | None:
        return self.events.events

    def reader(self, partition: int, partitions: int) -> NumberedReader:
        return NumberedReader(self, partition, partitions)

    def describe(self) -> str:
        pace = f"{self.events.rate:g} events/s" if self.paced else "full speed"
        return f"{type(self.events).__name__} ({self.events.describe()}, seed {self.events.seed}, {pace})"


class NumberedReader(SourceReader):
    """Reads one split; `position` is the number of the next event that has not been looked at."""

    def __init__(self, source: NumberedSource, split: int, splits: int) -> None:
        self.position = 0
        self._events = source.events
        self._paced = source.paced
        self._split = split
        self._splits = splits
        self._began_ns: int | None = None
        self._began_at = 0
        self._looked = 0
        self._own: Int64s = np.zeros(0, np.int64)
        """This split's events from the position on, up to `_looked`."""

    def seek(self, position: int) -> None:
        self.position = self._began_at = self._looked = position
        self._began_ns = None
        self._own = self._own[:0]

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._began_ns is None:
            self._began_ns = now_ns
        own, reach = self._ahead(max_rows)
        if self._paced:
            reach = min(reach, max(self.position, self._due_at(now_ns) + 1))
            own = own[: np.searchsorted(own, reach)]
        return self._reading(own, reach, now_ns, max_rows)

    def _reading(self, own: Int64s, reach: int, now_ns: int, max_rows: int) -> Reading:
        """Returns the reading that advances to `reach`, with the rows of `own`."""
        self.position = reach
        done = reach == self._events.events
        batch = self._events.rows(own) if len(own) else None
        arrived_ns = self._due_ns(int(own[-1])) if self._paced and len(own) else now_ns
        next_ns = None
        if self._paced and not done:
            ahead, end = self._ahead(max_rows)
            due_ns = self._due_ns(int(ahead[0]) if len(ahead) else end - 1)
            next_ns = due_ns if due_ns > now_ns else None
        watermark_us = int(self._events.times_us(np.array([reach]))[0])
        return Reading(batch, arrived_ns, watermark_us, next_ns, done)

    def _ahead(self, max_rows: int) -> tuple[Int64s, int]:
        """Returns this split's events among the next `max_rows` events of all splits, and the number after those."""
        reach = self.position + max_rows
        if self._events.events is not None:
            reach = min(reach, self._events.events)
        self._own = self._own[np.searchsorted(self._own, self.position) :]
        while self._looked < reach:
            numbers = np.arange(self._looked, self._looked + BLOCK, dtype=np.int64)
            own = numbers[self._events.keys(numbers) % self._splits == self._split]
            self._own = np.concatenate([self._own, own])
            self._looked += BLOCK
        return self._own[: np.searchsorted(self._own, reach)], reach

    def _due_at(self, now_ns: int) -> int:
        """Returns the last event number that is due."""
        assert self._began_ns is not None
        return self._began_at + (now_ns - self._began_ns) // self._events.period_ns

    def _due_ns(self, number: int) -> int:
        assert self._began_ns is not None
        return self._began_ns + (number - self._began_at) * self._events.period_ns
