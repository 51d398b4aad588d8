"""Rows of a stream that become a table: segments by time, in the memory of the worker that publishes them.

A partition has its rows by segment. In a job with checkpoints, the rows of a segment that one checkpoint has are a
**piece**: they are in Parquet files and never change. All other rows are **live**: nobody else has them. The `version`
counts the checkpoints that were published, so that whoever knows the pieces of a version can ask for the rows after it,
and gets each row once, whatever is published meanwhile.

Without checkpoints all rows are live, in memory only.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.sink import CheckpointedWriter, Sink
from stretto.errors import InvariantError, PlanError
from stretto.operators.grouping import fixed_values
from stretto.state import State
from stretto.state.schemas import check_rows

SEGMENT = "segment"
"""The name of the directories that a table is divided into, one for each segment."""
TIMELESS_US = -(2**63)
"""The start of the segment of rows without a time."""
_TIMELESS = "none"
_EPOCH = datetime.datetime(1970, 1, 1)
_FORMAT = "%Y-%m-%dT%H-%M-%S"
_INT64 = np.dtype(np.int64)

Live = dict[int, list[pa.RecordBatch]]
"""Rows by the start of their segment."""


@dataclass(frozen=True)
class Cut:
    """A piece: its name, the start of its segment, its files and its size in bytes."""

    name: str
    start_us: int
    files: tuple[str, ...]
    size: int


class SegmentFiles(Protocol):
    """What writes a table's files: a sink of rows with a column for their segment, whose files can be listed."""

    directory: Any

    def check(self, schema: pa.Schema) -> None: ...

    def check_fresh(self) -> None: ...

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> CheckpointedWriter: ...

    def published(self, partition: int, partitions: int) -> list[tuple[str, int]]:
        """Returns the files of a partition with their sizes."""
        ...

    def remove(self, files: Sequence[str]) -> None:
        """Removes files that are older than what is kept; those that are gone already do not matter."""
        ...


class PublishSink(Sink):
    """A table that rows are published in. `files` is set when the app is submitted with a checkpoint directory."""

    def __init__(self, table: str, time: str, segment_us: int, keep_us: int | None) -> None:
        self.table = table
        self.time = time
        self.segment_us = segment_us
        self.keep_us = keep_us
        self.files: SegmentFiles | None = None

    def check(self, schema: pa.Schema) -> None:
        index = schema.get_field_index(self.time)
        if index < 0:
            known = ", ".join(schema.names)
            raise PlanError(f"table '{self.table}' has no column '{self.time}'", f"columns: {known}", "Name its time.")
        if not pa.types.is_timestamp(schema.field(index).type):
            raise PlanError(
                f"the time of table '{self.table}' is no timestamp", f"'{self.time}' is {schema.field(index).type}"
            )
        if SEGMENT in map(str.lower, schema.names):
            raise PlanError(
                f"table '{self.table}' has a column '{SEGMENT}'", "its directories have that name", "Rename the column."
            )
        if self.files is not None:
            self.files.check(with_segment(schema))

    def check_fresh(self) -> None:
        if self.files is not None:
            self.files.check_fresh()

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> PublishWriter:
        return PublishWriter(PublishedRows(self, schema))

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> PublishCheckpointed:
        if self.files is None:
            raise InvariantError("a table was opened without its directory", self.table)
        files = self.files.checkpointed_writer(with_segment(schema), partition, partitions, attempt)
        return PublishCheckpointed(PublishedRows(self, schema), files, self.files, partition, partitions)

    def describe(self) -> str:
        kept = "" if self.keep_us is None else f", kept for {datetime.timedelta(microseconds=self.keep_us)}"
        return f"table {self.table} by {self.time}, {datetime.timedelta(microseconds=self.segment_us)} each{kept}"


class PublishedRows:
    """The rows of one partition of a table."""

    def __init__(self, sink: PublishSink, schema: pa.Schema) -> None:
        self.sink = sink
        self.schema = schema
        self.version = 0
        self.unread = 0
        """Parts of a checkpoint that are to be published, and of which the rows are not here: until then, nobody can
        say what the partition has."""
        self.pieces: dict[str, Cut] = {}
        self._cut_at: dict[str, int] = {}
        self._rows: dict[str, list[pa.RecordBatch]] = {}
        self._live: Live = {}
        self._sealed: dict[int, Live] = {}
        self._news: list[Cut] = []
        self._gone: list[str] = []
        self._latest_us = TIMELESS_US
        self._time = schema.get_field_index(sink.time)

    def add(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """Adds rows; returns them by the start of their segment."""
        parts = self._divided(batch)
        for start_us, rows in parts:
            self._live.setdefault(start_us, []).append(rows)
            self._latest_us = max(self._latest_us, start_us)
        if self.sink.files is None and self.sink.keep_us is not None:
            self._forget_old_live()
        return parts

    def _divided(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        if not batch.num_rows:
            return []
        starts = segment_starts(batch.column(self._time), self.sink.segment_us)
        if (starts == starts[0]).all():
            return [(int(starts[0]), batch)]
        order = np.argsort(starts, kind="stable")
        values, firsts = np.unique(starts[order], return_index=True)
        ends = [*firsts[1:].tolist(), len(order)]
        rows = batch.take(pa.array(order))
        parts = zip(values.tolist(), firsts.tolist(), ends, strict=True)
        return [(start_us, rows.slice(first, end - first)) for start_us, first, end in parts]

    # Checkpoints.

    def seal(self, checkpoint: int) -> None:
        """The rows so far belong to this checkpoint."""
        self._sealed[checkpoint], self._live = self._live, {}

    def publish(self, checkpoint: int, cuts: Sequence[Cut]) -> None:
        """The rows of a checkpoint are pieces now."""
        rows = self._sealed.pop(checkpoint, {})
        self.version += 1
        for cut in cuts:
            held = rows.get(cut.start_us)
            size = cut.size if held is None else sum(batch.nbytes for batch in held)
            self._put(Cut(cut.name, cut.start_us, cut.files, size), self.version)
            if held is not None:
                self._rows[cut.name] = held

    def resume(self, cuts: Sequence[Cut]) -> None:
        """The table has these pieces, published by earlier attempts of the job."""
        self.version, self._live, self._sealed = 0, {}, {}
        self.pieces, self._cut_at, self._rows, self._news = {}, {}, {}, []
        for cut in cuts:
            self._put(cut, 0)

    def _put(self, cut: Cut, version: int) -> None:
        self.pieces[cut.name] = cut
        self._cut_at[cut.name] = version
        self._latest_us = max(self._latest_us, cut.start_us)
        self._news.append(cut)

    # What is kept.

    @property
    def _horizon_us(self) -> int:
        """The start of the first segment that is kept."""
        if self.sink.keep_us is None or self._latest_us == TIMELESS_US:
            return TIMELESS_US
        return max(self._latest_us - self.sink.keep_us, TIMELESS_US + 1)

    def _is_old(self, start_us: int) -> bool:
        return start_us != TIMELESS_US and start_us + self.sink.segment_us <= self._horizon_us

    def _forget_old_live(self) -> None:
        for start_us in [each for each in self._live if self._is_old(each)]:
            del self._live[start_us]

    def expired(self) -> list[Cut]:
        """Forgets the pieces of segments that are older than what is kept, and returns them."""
        found = [cut for cut in self.pieces.values() if self._is_old(cut.start_us)]
        for cut in found:
            del self.pieces[cut.name], self._cut_at[cut.name]
            self._rows.pop(cut.name, None)
            self._gone.append(cut.name)
        return found

    def news(self) -> tuple[list[Cut], list[str]]:
        """Returns the pieces that were published and forgotten since the last call."""
        (new, self._news), (gone, self._gone) = (self._news, []), (self._gone, [])
        return [cut for cut in new if cut.name in self.pieces], gone

    # Reading.

    def after(self, version: int) -> Live | None:
        """Returns the rows that are in no piece of this version; None if some of them are not in memory."""
        found: Live = {start_us: list(rows) for start_us, rows in self._live.items()}
        for sealed in self._sealed.values():
            for start_us, rows in sealed.items():
                found.setdefault(start_us, []).extend(rows)
        for name, cut_at in self._cut_at.items():
            if cut_at > version:
                if name not in self._rows:
                    return None
                found.setdefault(self.pieces[name].start_us, []).extend(self._rows[name])
        return found

    def rows_of(self, piece: str) -> list[pa.RecordBatch] | None:
        """Returns the rows of a piece, if they are in memory here."""
        return self._rows.get(piece)

    def drop(self, piece: str) -> None:
        """The rows of a piece need not be in memory here."""
        self._rows.pop(piece, None)


class PublishWriter(CheckpointedWriter):
    """Holds the rows of a partition in memory only. They go along when the job is handed over to its next attempt."""

    def __init__(self, rows: PublishedRows) -> None:
        self.rows = rows
        self.past = PublishedState(rows)

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows.add(batch)

    def seal(self, checkpoint: int) -> None:
        """Nothing is written: the rows are a state."""


class PublishedState(State):
    """All rows of a partition that has no files."""

    def __init__(self, rows: PublishedRows) -> None:
        self._rows = rows

    def fresh(self) -> PublishedState:
        return PublishedState(PublishedRows(self._rows.sink, self._rows.schema))

    def export(self) -> pa.Table:
        batches = [batch for rows in (self._rows.after(0) or {}).values() for batch in rows]
        return pa.Table.from_batches(batches, self._rows.schema)

    def restore(self, content: pa.Table) -> None:
        check_rows(content, self._rows.schema)
        self._rows.resume([])
        for batch in content.to_batches():
            self._rows.add(batch)

    def take_in(self, other: PublishedState) -> None:
        for batch in other.export().to_batches():
            self._rows.add(batch)

    def describe(self) -> dict[str, Any]:
        return {"kind": "rows", "keys": []}


@dataclass
class PublishCheckpointed(CheckpointedWriter):
    """Holds the rows of a partition, and writes those of each checkpoint to files."""

    rows: PublishedRows
    _files: CheckpointedWriter
    _directory: SegmentFiles
    _partition: int
    _partitions: int
    _awaited: dict[int, int] = field(default_factory=dict)

    def write(self, batch: pa.RecordBatch) -> None:
        for start_us, rows in self.rows.add(batch):
            named = pa.array([segment_text(start_us)]).take(pa.array(np.zeros(rows.num_rows, np.int8)))
            self._files.write(pa.RecordBatch.from_arrays([*rows.columns, named], schema=with_segment(rows.schema)))

    def seal(self, checkpoint: int) -> Any:
        self.rows.seal(checkpoint)
        part = self._files.seal(checkpoint)
        if part is None:
            self.rows.publish(checkpoint, [])  # There is nothing to wait for.
        return part

    def check_part(self, part: Any) -> None:
        self._files.check_part(part)
        self.rows.unread += 1

    def publish(self, checkpoint: int, part: Any) -> None:
        self._files.publish(checkpoint, part)
        self.rows.publish(checkpoint, cuts_of([(name, 0) for _, name in part]))
        self.rows.unread = max(0, self.rows.unread - 1)
        old = self.rows.expired()
        if old:
            self._directory.remove([file for cut in old for file in cut.files])

    def withdraw(self, checkpoint: int) -> None:
        self._files.withdraw(checkpoint)
        self.rows.resume(cuts_of(self._directory.published(self._partition, self._partitions)))

    def discard_leftovers(self) -> None:
        self._files.discard_leftovers()

    def close(self) -> None:
        self._files.close()


def with_segment(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of rows with that of their segment."""
    return schema.append(pa.field(SEGMENT, pa.string()))


def segment_starts(times: pa.Array, segment_us: int) -> npt.NDArray[np.int64]:
    """Returns the start of each row's segment."""
    values = fixed_values(times.cast(pa.timestamp("us", times.type.tz)), _INT64)
    starts: npt.NDArray[np.int64] = values - values % segment_us
    if times.null_count:
        starts = np.where(np.asarray(times.is_null()), TIMELESS_US, starts)
    return starts


def segment_text(start_us: int) -> str:
    """Returns the name of a segment's directory: a time that needs no escapes, or a number where there is no date."""
    if start_us == TIMELESS_US:
        return _TIMELESS
    try:
        start = _EPOCH + datetime.timedelta(microseconds=start_us)
    except OverflowError:
        return str(start_us)
    return str(start_us) if start.microsecond or start.year < 1000 else start.strftime(_FORMAT)


def segment_start(text: str) -> int:
    """Returns the start of the segment of a directory; raises a ValueError if it is no name of one."""
    if text == _TIMELESS:
        return TIMELESS_US
    if text.lstrip("-").isdecimal():
        return int(text)
    since: datetime.timedelta = datetime.datetime.strptime(text, _FORMAT) - _EPOCH
    return since // datetime.timedelta(microseconds=1)


def cuts_of(files: Sequence[tuple[str, int]]) -> list[Cut]:
    """Returns the pieces of files, given as paths below the directory of a table, with their sizes. The files of one
    segment, partition and checkpoint are one piece; they differ in the number at the end of their names."""
    found: dict[str, list[tuple[str, int]]] = {}
    for path, size in sorted(files):
        found.setdefault(path.rpartition("-")[0], []).append((path, size))
    return [
        Cut(
            name,
            segment_start(name.partition("/")[0].partition("=")[2]),
            tuple(path for path, _ in each),
            sum(size for _, size in each),
        )
        for name, each in found.items()
    ]
