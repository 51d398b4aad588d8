"""The join of a stream with a table that changes slowly: its rows are read again from time to time.

A worker reads the table before it joins a batch, if its last read is as old as the interval of refreshing. So a row is
joined with the table as it was at most that long before, and a row that was joined is never revised. All instances in a
process share the rows and their index. What was read is not a part of checkpoints: rows that are replayed meet the
table of their new time.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.errors import SourceError
from stretto.operators.table_join import TableJoin


class TableReader(Protocol):
    """Reads a table. A SourceError is for what may have passed at the next read."""

    def read(self) -> pa.Table: ...


class Read(Enum):
    """How a read went; the value is the name of its counter."""

    DONE = "table_reads"
    FAILED = "table_reads_failed"


class RefreshedTableJoin(Function):
    """The rows of a stream with those of a table. `join` says how, with any table of the same columns."""

    def __init__(self, reader: TableReader, refresh_ns: int, join: TableJoin) -> None:
        self.latest = _Latest(reader, refresh_ns, join)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        read = self.latest.refresh(ctx.now_ns)
        if read is not None:
            ctx.count(read.value)
        for rows in self.latest.join(batch):
            ctx.send(rows)


class _Latest:
    """The rows of the last read, and when that was."""

    def __init__(self, reader: TableReader, refresh_ns: int, join: TableJoin) -> None:
        self._reader = reader
        self._refresh_ns = refresh_ns
        self._read_ns: int | None = None
        self.join = join

    def __deepcopy__(self, memo: Any) -> _Latest:
        return self

    def refresh(self, now_ns: int) -> Read | None:
        """Reads the table again if it is due, and returns how that went. If it cannot be read, the rows of the last
        read stay until the next one is due; the first read must not fail."""
        if self._read_ns is not None and now_ns - self._read_ns < self._refresh_ns:
            return None
        is_first, self._read_ns = self._read_ns is None, now_ns
        try:
            self.join = self.join.over(self._reader.read())
        except SourceError:
            if is_first:
                raise
            return Read.FAILED
        return Read.DONE
