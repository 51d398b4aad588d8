"""Rows that transactions emit: numbered at the end of their epoch, and kept until their stream has them for good.

A row exists when its epoch is over. Then the cuts of that epoch are durable in all logs, so every later attempt replays
it as it was, and numbers the same rows alike: they are counted per stream and place, in the order in which the
transactions have committed there. In the midst of an epoch that would not be so: if a handler runs out of time, the
replay aborts its transaction, and those that have waited for it end earlier.

The source of a stream asks for rows by their numbers, and says which ones a complete checkpoint of it has. Those are
dropped. That is not logged: a replay has them again, until it is said again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from stretto.protocol.transactions import Row
from stretto.transactions.changes import Changes

KEPT_MAX = 1_000_000
KEPT_BYTES_MAX = 256 << 20
"""So many rows and bytes of rows wait at a place. Transactions that emit more are aborted, from the next epoch on."""
SENT_MAX = 4_096
SENT_BYTES_MAX = 1 << 20
"""The most rows that are given at once; and their bytes, but for the first row."""


class Emission(NamedTuple):
    """A row that a handler has emitted, if its transaction commits."""

    stream: str
    data: bytes


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """The rows of a stream that a place has: from the first that is kept, to the one before the next."""

    stream: str
    first: int
    next: int


@dataclass
class _Stream:
    first: int = 0
    next: int = 0
    rows: dict[int, Row] = field(default_factory=dict)


Name = tuple[str, int]
"""Of a row: its stream, and its number."""


class EmittedRows:
    """Those of one place."""

    def __init__(self, bounds: Iterable[Bounds] = (), rows: Iterable[tuple[Name, Row]] = ()) -> None:
        self._streams: dict[str, _Stream] = {}
        self._staged: list[Emission] = []
        self._rows = self._bytes = 0
        self.changes: Changes[Name] = Changes()
        for name, row in rows:
            self.put(name, row)
        self.bound(bounds)

    def stage(self, emissions: Iterable[Emission]) -> None:
        """A transaction has committed that emits these rows."""
        self._staged += emissions

    def seal(self, at_us: int) -> None:
        """The epoch of this time is over: what it has emitted is there."""
        staged, self._staged = self._staged, []
        for each in staged:
            stream = self._of(each.stream)
            name, stream.next = (each.stream, stream.next), stream.next + 1
            self._keep(stream, name[1], Row(at_us, each.data))
            self.changes.add(name)

    def settle(self, stream: str, number: int) -> None:
        """A complete checkpoint of the stream has the rows before this one."""
        found = self._of(stream)
        for each in range(found.first, min(number, found.next)):
            self._drop(found, each)
        found.first = max(found.first, min(number, found.next))

    def since(self, stream: str, number: int) -> list[Row]:
        """Returns rows that follow each other, from this number on: as many as are given at once."""
        found = self._of(stream)
        rows: list[Row] = []
        size = 0
        for each in range(number, min(found.next, number + SENT_MAX)):
            row = found.rows[each]
            size += len(row.data)
            if rows and size > SENT_BYTES_MAX:
                break
            rows.append(row)
        return rows

    def kept_of(self, stream: str, since: int = 0) -> list[Row]:
        """Returns all rows of a stream that are kept, from this number on."""
        found = self._of(stream)
        return [found.rows[number] for number in range(max(since, found.first), found.next)]

    def bounds_of(self, stream: str) -> Bounds:
        found = self._of(stream)
        return Bounds(stream, found.first, found.next)

    @property
    def is_full(self) -> bool:
        return self._rows >= KEPT_MAX or self._bytes >= KEPT_BYTES_MAX

    def _of(self, stream: str) -> _Stream:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = _Stream()
        return found

    def _keep(self, stream: _Stream, number: int, row: Row) -> None:
        stream.rows[number] = row
        self._rows += 1
        self._bytes += len(row.data)

    def _drop(self, stream: _Stream, number: int) -> None:
        row = stream.rows.pop(number, None)
        if row is not None:
            self._rows -= 1
            self._bytes -= len(row.data)

    # Snapshots.

    def bounds(self) -> list[Bounds]:
        return [self.bounds_of(stream) for stream in sorted(self._streams)]

    def kept(self, is_whole: bool) -> list[tuple[Name, Row]]:
        """Returns what a snapshot keeps besides the bounds: all rows, or those since the last one."""
        names = self.names() if is_whole else sorted(self.changes.unsaved)
        self.changes.saved()
        return [(name, row) for name in names if (row := self.get(name)) is not None]

    # Copies (see moving.py).

    def names(self) -> list[Name]:
        return [(name, number) for name, stream in sorted(self._streams.items()) for number in stream.rows]

    def get(self, name: Name) -> Row | None:
        return self._of(name[0]).rows.get(name[1])

    def put(self, name: Name, row: Row | None) -> None:
        """Takes a row from a copy or a snapshot; None: it was dropped since."""
        stream = self._of(name[0])
        self._drop(stream, name[1])
        if row is not None:
            self._keep(stream, name[1], row)

    def bound(self, bounds: Iterable[Bounds]) -> None:
        """Takes the bounds of all streams. What was dropped before they were noted is dropped here too."""
        for each in bounds:
            stream = self._of(each.stream)
            stream.first, stream.next = each.first, each.next
            for number in [number for number in stream.rows if number < each.first]:
                self._drop(stream, number)


def missing_rows(place: int, since: int, bounds: Bounds) -> str:
    """Returns what the source of a stream hears that wants rows from a number on, and they cannot come."""
    has = f"it has none before {bounds.first}" if since < bounds.first else f"its next one is {bounds.next}"
    return f"row {since} of place {place} of the entities is wanted, and {has}"
