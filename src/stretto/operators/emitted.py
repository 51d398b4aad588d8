"""The source of a stream whose rows are emitted by the entities of the app. A split is a place of the entities.

A place numbers the rows that it has of a stream, alike in every replay (`transactions/emitted.py`), so the position of
a split is the number of its next row. When a checkpoint is complete, the place may drop the rows before the positions
in it. docs/design/transactions.md ("Entities feed streams") says why each row is read exactly once.

Of rows with a time of their own, those of all places count together for the watermark: a place where nobody emits must
not hold it back. The time of epochs (`stamp`) advances in all places alike, so there the least counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.emitted import EmittedRow, RowsEmitted, Wanted
from stretto.actors.source import SPLITS_MAX, Reading, Source, SourceReader
from stretto.errors import SourceError, StorageError
from stretto.operators.ends import Positions, SourceFunction, Split
from stretto.operators.row_codec import RowCodec

POLL_NS = 2_000_000
"""How long a source waits that has no rows."""
BUFFERED_MAX = 10_000
"""A source that has so many rows of a place asks for no more."""
UNKNOWN = -1
"""The position in a place of which nothing has come: at the first row that it keeps."""
STAMP = pa.timestamp("us", tz="UTC")


class EmittedSource(Source):
    """The rows that entities emit into the stream with this name. `stamp` is a column with the time of the epoch in
    which the row was emitted; `by_stamp`, whether that is the time of the stream."""

    parallelism = 1

    def __init__(self, stream: str, columns: pa.Schema, stamp: str | None, by_stamp: bool) -> None:
        self.stream = stream
        self.columns = columns
        self.stamp = stamp
        self.by_stamp = by_stamp
        self.schema = columns if stamp is None else columns.append(pa.field(stamp, STAMP))

    def check(self) -> None:
        RowCodec(self.stream, self.columns)

    def reader(self, partition: int, partitions: int) -> EmittedReader:
        return EmittedReader(self)

    def describe(self) -> str:
        return "rows that entities emit"


class EmittedReader(SourceReader):
    """Reads what has come of one place."""

    def __init__(self, source: EmittedSource) -> None:
        self.position = UNKNOWN
        self.asked: Wanted | None = None
        """What was asked for, if no answer has come since."""
        self._source = source
        self._codec = RowCodec(source.stream, source.columns)
        self._rows: deque[EmittedRow] = deque()
        self._arrived_ns = 0
        self.reached_us: int | None = None
        """How far the time of the place has come, as far as is known."""

    @property
    def next(self) -> int | None:
        """The number of the row that is to come next; None if any may come."""
        return None if self.position == UNKNOWN else self.position + len(self._rows)

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= BUFFERED_MAX

    def take(self, first: int, rows: Sequence[EmittedRow], reached_us: int, now_ns: int) -> None:
        """Takes rows that have come, unless they have come before."""
        self.asked = None  # This may answer an earlier question, of which the answer had seemed lost.
        if self.next not in (None, first):
            return
        if self.position == UNKNOWN:
            self.position = first
        self._rows += rows
        self.reached_us = max(reached_us, self.reached_us or reached_us)
        if rows:
            self._arrived_ns = now_ns

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if not self._rows:
            return Reading(None, now_ns, self._watermark_us(None), now_ns + POLL_NS)
        rows = list(islice(self._rows, max_rows))
        for _ in rows:
            self._rows.popleft()
        self.position += len(rows)
        return Reading(self._batch(rows), self._arrived_ns, self._watermark_us(rows[-1]))

    def _watermark_us(self, last: EmittedRow | None) -> int | None:
        if not self._source.by_stamp:
            return None
        return last.at_us if last is not None and self._rows else self.reached_us

    def _batch(self, rows: Sequence[EmittedRow]) -> pa.RecordBatch:
        batch = self._codec.batch([row.data for row in rows])
        if self._source.stamp is None:
            return batch
        stamps = pa.array(np.array([row.at_us for row in rows], np.int64)).cast(STAMP)
        return pa.RecordBatch.from_arrays([*batch.columns, stamps], schema=self._source.schema)

    def seek(self, position: int) -> None:
        self.position = position
        self._rows.clear()


class EmittedFunction(SourceFunction):
    """Reads the places p, p + n, p + 2n and so on as partition p of n. To checkpoints there are `SPLITS_MAX` splits, as
    how many places there are is known only while it runs, and never changes."""

    splits = SPLITS_MAX
    reads_emitted = True
    irrevocable = True
    source: EmittedSource

    def open(self, ctx: Context) -> None:
        self.begin(ctx)
        self._own = range(ctx.partition, SPLITS_MAX, ctx.parallelism)
        self._durable = ctx.durable
        self._missing: str | None = None
        self._at_marks: dict[int, dict[int, int]] = {}
        """The positions at marks, by split."""
        self._settled: dict[int, int] = {}

    # What comes.

    def read_places(self, count: int) -> None:
        """The entities are in so many places."""
        if self._own.start >= count:
            raise SourceError(
                f"stream '{self.source.stream}' cannot be read by {self._own.step} partitions",
                f"its rows are emitted in {count} places, and a partition without one would hold back the others",
                f"Use a parallelism of at most {count}, or leave it out.",
            )
        known = {split.number for split in self._splits}
        self.read_from({number: self._reader() for number in self._own if number < count and number not in known})

    def _reader(self) -> EmittedReader:
        return self.source.reader(0, SPLITS_MAX)

    def take(self, emitted: RowsEmitted, now_ns: int) -> None:
        """Takes rows of a place, or the reason why none can come."""
        for split in self._splits:
            if split.number == emitted.place - 1:
                reader = _reader_of(split)
                if reader.next == emitted.first:
                    self._missing = self._missing or emitted.missing
                if emitted.missing is None:
                    reader.take(emitted.first, emitted.rows, emitted.reached_us, now_ns)
                else:
                    reader.asked = None  # Perhaps an earlier question came later, when its rows had been dropped.

    def take_wanted(self, again: bool) -> list[Wanted]:
        """Returns what is wanted of places, where that has changed; all of it if whoever asks for it is another one
        now."""
        if not self._durable:
            self._settled = self._positions()
        found = []
        for split in self._splits:
            reader = _reader_of(split)
            wanted = Wanted(
                self.source.stream,
                split.number + 1,
                reader.next,
                self._settled.get(split.number, 0),
                self._wanted_time(reader),
            )
            if (again or wanted != reader.asked) and not reader.is_full:
                reader.asked = wanted
                found.append(wanted)
        return found

    def _wanted_time(self, reader: EmittedReader) -> int | None:
        """Returns when the time of a place matters next."""
        step_us = self.watermark_step_us
        if step_us is None or not self.source.by_stamp:
            return None
        return 0 if reader.reached_us is None else (reader.reached_us // step_us + 1) * step_us

    # Reading.

    def read(self, now_ns: int) -> Reading:
        if self._missing is not None:
            raise StorageError(
                f"rows that entities have emitted into stream '{self.source.stream}' are missing",
                self._missing,
                "Start the streams and the entities from directories that belong together.",
            )
        if not self._splits:
            return Reading(None, now_ns, next_ns=now_ns + POLL_NS)  # It is not known yet where the entities are.
        return super().read(now_ns)

    def _observe(self, split: Split, reading: Reading, now_ns: int) -> None:
        super()._observe(split, reading, now_ns)
        if not self.source.by_stamp and split.progress_us is not None:
            for each in self._alive:
                each.advance(split.watermark_us, max(split.progress_us, each.progress_us or split.progress_us))

    # Checkpoints.

    def _positions(self) -> dict[int, int]:
        return {split.number: split.reader.position for split in self._splits if split.reader.position != UNKNOWN}

    def seal(self, checkpoint: int) -> None:
        self._at_marks[checkpoint] = self._positions()

    def publish(self, checkpoint: int) -> None:
        self._settled = self._at_marks.get(checkpoint, self._settled)
        self._at_marks = {mark: each for mark, each in self._at_marks.items() if mark > checkpoint}

    def remember(self) -> Any:
        return [self._last_step, [split.remember() for split in self._alive if split.reader.position != UNKNOWN]]

    def recall(self, remembered: Any) -> None:
        self._last_step, positions = msgspec.convert(remembered, type=Positions)
        known = {position[0]: position for position in positions if position[0] in self._own}
        self.forget_splits()
        self.read_from({number: self._reader() for number in sorted(known)})
        for split in self._splits:
            split.recall(known[split.number])


def _reader_of(split: Split) -> EmittedReader:
    assert isinstance(split.reader, EmittedReader)
    return split.reader
