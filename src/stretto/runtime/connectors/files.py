"""Replay of files: Parquet, JSON-lines, CSV and Arrow, as fast as they can be read or at the pace of their timestamps.

Files are assigned to partitions round-robin in sorted order, so that partitions advance through time together. With
fewer files than partitions, row groups are assigned instead, where the format has them. A partition's position is its
number of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.memory import as_schema
from stretto.errors import SourceError
from stretto.runtime.connectors.csv_files import CsvFormat
from stretto.runtime.connectors.formats import ArrowFormat, Format, ParquetFormat, Skip
from stretto.runtime.connectors.json_lines import JsonLinesFormat

FORMATS: dict[str, Format] = {
    "parquet": ParquetFormat(),
    "jsonl": JsonLinesFormat(),
    "csv": CsvFormat(),
    "arrow": ArrowFormat(),
}
TIMESTAMP = pa.timestamp("us", tz="UTC")
DUE_NS_MAX = 1 << 62


@dataclass(frozen=True, slots=True)
class Piece:
    """What a partition reads of one file: the whole file, or some groups."""

    path: str
    groups: tuple[int, ...] | None
    rows: int | None


class FileSource(Source):
    """A file, or a directory of files of one format and schema.

    Without `speed` rows are read as fast as possible. With it, a row is emitted when it is due by its `time` column,
    `speed` times faster than real time; rows out of order are emitted with the latest before them. Files are listed
    when the schema is first read, and must not change after that. Names that begin with `_` or `.` are skipped.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        schema: pa.Schema | str | None = None,
        time: str | None = None,
        speed: float | None = None,
    ) -> None:
        if format is not None and format not in FORMATS:
            raise SourceError("unknown file format", repr(format), f"Use one of {', '.join(map(repr, FORMATS))}.")
        if speed is not None and not (speed > 0 and math.isfinite(speed)):
            raise SourceError(
                "the speed of a replay must be positive", f"it is {speed}", "None is as fast as possible."
            )
        if speed is not None and time is None:
            raise SourceError(
                "a replay with a speed needs a time column", f"speed={speed} for {path}", "Name it with time=..."
            )
        self.path = os.path.abspath(os.fspath(path).removeprefix("file://"))
        self.time = time
        self.speed = speed
        self._asked = format
        self._given = as_schema(schema)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """All files, sorted by name."""
        if not os.path.exists(self.path):
            raise SourceError(f"no such file or directory: {self.path}", None, "Check the path; it must be local.")
        if os.path.isfile(self.path):
            return (self.path,)
        found = tuple(sorted(_listed(self.path)))
        if not found:
            raise SourceError(f"the directory has no files: {self.path}", None, "Check the path.")
        return found

    @cached_property
    def format(self) -> str:
        """The given format, or that of the files' suffix."""
        if self._asked:
            return self._asked
        formats = {path: _format_of(path) for path in self.files}
        first, name = next(iter(formats.items()))
        for path, other in formats.items():
            if other != name:
                raise SourceError(
                    f"the directory has files of two formats: {self.path}",
                    f"{first} is {name}, {path} is {other}",
                    "Say which to read with format=..., and move the others away.",
                )
        return name

    @cached_property
    def schema(self) -> pa.Schema:
        """The given schema, or that of the first file that has one."""
        schema = self._given or self._learned[1]
        if self.time is None:
            return schema
        if self.time not in schema.names:
            raise SourceError(
                f"the time column '{self.time}' is not in {self.files[0]}", f"columns: {', '.join(schema.names)}"
            )
        place = schema.get_field_index(self.time)
        if self.format == "jsonl" and not self._given and pat.is_string(schema.field(place).type):
            return schema.set(place, pa.field(self.time, TIMESTAMP))
        if not pat.is_timestamp(schema.field(place).type):
            raise SourceError(
                f"the time column '{self.time}' of {self.files[0]} is not a timestamp",
                f"it is {schema.field(place).type}",
                "Name a timestamp column.",
            )
        return schema

    @cached_property
    def _learned(self) -> tuple[str, pa.Schema]:
        for path in self.files:
            schema = FORMATS[self.format].learn(path)
            if schema is not None:
                return path, schema
        raise SourceError(f"nothing to learn a schema from: {self.path}", "no rows", "Give one with schema=...")

    @cached_property
    def _groups(self) -> dict[str, tuple[int | None, ...] | None]:
        return {path: FORMATS[self.format].groups(path) for path in self.files}

    @cached_property
    def _first_us(self) -> int:
        """The origin of time for all partitions: the earliest time in the first batch of any file."""
        assert self.time is not None
        column = pa.schema([self.schema.field(self.time)])
        firsts = []
        for path in self.files:
            batch = next(FORMATS[self.format].batches(path, column, Skip()), None)
            earliest = pc.min(batch.column(0)).cast(pa.int64()).as_py() if batch is not None else None
            firsts += [earliest] if earliest is not None else []
        return min(firsts, default=0)

    def check(self) -> None:
        reference = "the schema given" if self._given else self._learned[0]
        for path in self.files:
            if path != reference or self.format == "jsonl":
                FORMATS[self.format].check(path, self.schema, reference, exact=not self._given)
        assert self._groups is not None  # Counted here, so that the workers need not.
        if self.speed is not None:
            assert self._first_us is not None

    def length(self, partition: int, partitions: int) -> int | None:
        rows = [piece.rows for piece in self._pieces(partition, partitions)]
        return None if None in rows else sum(row for row in rows if row is not None)

    def reader(self, partition: int, partitions: int) -> FileReader:
        pace = None
        if self.speed is not None:
            assert self.time is not None
            pace = Pace(self.time, self._first_us, self.speed)
        pieces = self._pieces(partition, partitions)
        return FileReader(FORMATS[self.format], pieces, self.schema, pace, self.length(partition, partitions))

    def describe(self) -> str:
        count = f", {len(self.files)} files" if len(self.files) > 1 else ""
        pace = f", {self.speed:g} times as fast as '{self.time}'" if self.speed is not None else ""
        return f"{FORMATS[self.format].name} {self.path}{count}{pace}"

    def _pieces(self, partition: int, partitions: int) -> tuple[Piece, ...]:
        if len(self.files) >= partitions:
            return tuple(Piece(path, None, _total(self._groups[path])) for path in self.files[partition::partitions])
        cards: list[Piece] = []
        for path, groups in self._groups.items():
            if groups is None:
                cards.append(Piece(path, None, None))
            else:
                cards += [Piece(path, (number,), rows) for number, rows in enumerate(groups)]
        return tuple(_joined(cards[partition::partitions]))


def _total(rows: tuple[int | None, ...] | None) -> int | None:
    return None if rows is None or None in rows else sum(row for row in rows if row is not None)


def _joined(cards: list[Piece]) -> Iterator[Piece]:
    """Yields one piece for each file, so that it is opened once."""
    for path, same in groupby(cards, key=lambda card: card.path):
        pieces = list(same)
        groups = [group for piece in pieces for group in piece.groups or ()]
        whole = pieces[0].groups is None
        yield Piece(path, None if whole else tuple(groups), _total(tuple(piece.rows for piece in pieces)))


def _listed(directory: str) -> Iterator[str]:
    for parent, directories, names in os.walk(directory, onerror=_unlisted):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        partitioned = [name for name in directories if "=" in name]
        if partitioned:
            raise SourceError(
                f"the directory is partitioned by a column: {parent}",
                f"'{partitioned[0]}' would be lost",
                "Read it with spark.read and sources.dataframe(...), or name one of its directories.",
            )
        yield from (os.path.join(parent, name) for name in names if not name.startswith(("_", ".")))


def _unlisted(error: OSError) -> None:
    raise SourceError(
        f"cannot list the directory {error.filename}", error.strerror, "Change its permissions."
    ) from error


def _format_of(path: str) -> str:
    for name, format in FORMATS.items():
        if path.lower().endswith(format.suffixes):
            return name
    known = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise SourceError(f"unknown suffix of a file: {path}", f"known: {known}", "Say what it is with format=...")


class Pace:
    """When rows are due: as long after the start as their time is after the first time, divided by the speed.

    A row out of order is due with the latest row before it, and so is one without a time.
    """

    def __init__(self, time: str, first_us: int, speed: float) -> None:
        self._time = time
        self._first_us = first_us
        self._speed = speed
        self._latest_us = first_us

    def due_ns(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Returns the nanoseconds after the start at which each row is due, never decreasing."""
        times = batch.column(self._time).cast(pa.int64()).fill_null(self._latest_us).to_numpy(zero_copy_only=False)
        times = np.maximum.accumulate(np.maximum(times, self._latest_us))
        self._latest_us = int(times[-1]) if len(times) else self._latest_us
        due = (times - self._first_us).astype(np.float64) * (1000 / self._speed)
        return np.rint(np.minimum(due, DUE_NS_MAX)).astype(np.int64)

    def restart(self) -> None:
        self._latest_us = self._first_us


class FileReader(SourceReader):
    """Streams one partition's pieces, one after the other.

    The replay starts with the first read. A reader that first seeks to a position, as after a failure, starts the
    replay there: the row at the position is due at once.
    """

    def __init__(
        self, format: Format, pieces: tuple[Piece, ...], schema: pa.Schema, pace: Pace | None, length: int | None
    ) -> None:
        self._format = format
        self._pieces = pieces
        self._schema = schema
        self._pace = pace
        self._length = length
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: pa.RecordBatch | None = None
        self._due_ns: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._offset = 0
        self._start_ns: int | None = None
        self.position = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if not self._fetch():
            return Reading(None, now_ns, done=True)
        if self._pace is None:
            return Reading(self._take(max_rows), now_ns)
        if self._start_ns is None:
            self._start_ns = now_ns - (int(self._due_ns[0]) if self.position else 0)
        start_ns, due_ns = self._start_ns, self._due_ns[self._offset :]
        rows = min(int(np.searchsorted(due_ns, now_ns - start_ns, side="right")), max_rows)
        if rows == 0:
            return Reading(None, now_ns, next_ns=start_ns + int(due_ns[0]))
        next_ns = start_ns + int(due_ns[rows]) if rows < len(due_ns) else None
        return Reading(self._take(rows), start_ns + int(due_ns[rows - 1]), next_ns=next_ns)

    def available(self, now_ns: int) -> int | None:
        return self._length if self._pace is None else None

    def seek(self, position: int) -> None:
        self.close()
        self.position = position

    def close(self) -> None:
        """Closes the open file. A later read opens it again at the same position."""
        batches, self._batches, self._batch, self._offset = self._batches, None, None, 0
        if batches is not None:
            batches.close()  # type: ignore[attr-defined]

    def _fetch(self) -> bool:
        """Loads a batch with rows left, and returns whether there is one."""
        if self._batches is None:
            self._batches = self._streamed(Skip(self.position))
            if self._pace is not None:
                self._pace.restart()
        while self._batch is None or self._offset >= self._batch.num_rows:
            self._batch, self._offset = next(self._batches, None), 0
            if self._batch is None:
                return False
            if self._pace is not None:
                self._due_ns = self._pace.due_ns(self._batch)
        return True

    def _take(self, rows: int) -> pa.RecordBatch:
        assert self._batch is not None
        part = self._batch.slice(self._offset, rows)
        self._offset += part.num_rows
        self.position += part.num_rows
        return part

    def _streamed(self, skip: Skip) -> Iterator[pa.RecordBatch]:
        for piece in self._pieces:
            if piece.rows is None or not skip.whole(piece.rows):
                yield from self._format.batches(piece.path, self._schema, skip, piece.groups)
        if skip.rows:
            raise SourceError(
                "a file is shorter than when it was first read",
                f"{self.position - skip.rows} rows, asked to resume from row {self.position}",
                f"Files must not change while they are replayed: {', '.join(piece.path for piece in self._pieces)}",
            )
