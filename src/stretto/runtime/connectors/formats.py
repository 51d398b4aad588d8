"""How files of each format are read: their schema, their groups, and their rows from any position.

A format reads one file at a time and knows nothing of partitions or pacing, which are in `files.py`. Rows are streamed:
no more than a row group's slice, a record batch or a block of lines is in memory. JSON-lines are in `json_lines.py`,
because many things can be wrong with them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from stretto.api.memory import canonical_schema, conform
from stretto.errors import ExpressionError, SourceError

BATCH_ROWS = 65_536
"""The number of rows of a Parquet row group that are decoded at once."""

BUFFER_BYTES = 1 << 18
"""The number of bytes of a Parquet column that are read at once. Reading a whole column chunk allocates a large piece
of fresh memory each time, which costs more than decoding it. Memory maps are faster still, but a file that is truncated
while it is read raises SIGBUS."""

_ARROW_MAGIC = b"ARROW1"


@dataclass(slots=True)
class Skip:
    """The number of rows still to skip."""

    rows: int = 0

    def whole(self, rows: int) -> bool:
        """Whether the next `rows` rows are all to be skipped; if so, they are."""
        if rows > self.rows:
            return False
        self.rows -= rows
        return True

    def part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the part of a batch that is not to be skipped."""
        passed = min(self.rows, batch.num_rows)
        self.rows -= passed
        return batch.slice(passed) if passed else batch


class Format:
    """A file format."""

    name: str
    suffixes: tuple[str, ...]

    def learn(self, path: str) -> pa.Schema | None:
        """Returns the schema of a file, or None if the file has no content to infer one from."""
        raise NotImplementedError

    def check(self, path: str, schema: pa.Schema, reference: str, *, exact: bool) -> None:
        """Raises a SourceError unless the file can be read as `schema`, which comes from `reference`."""
        learned = self.learn(path)
        if learned is not None:
            _compare(path, learned, schema, reference, exact=exact)

    def groups(self, path: str) -> tuple[int | None, ...] | None:
        """Returns the number of rows of each group that can be read alone (None: unknown), or None if the file has no
        groups."""
        return None

    def batches(
        self, path: str, schema: pa.Schema, skip: Skip, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file, or of some of its groups, after those to `skip`."""
        raise NotImplementedError


class ParquetFormat(Format):
    name = "Parquet"
    suffixes = (".parquet", ".pq", ".parq")

    def learn(self, path: str) -> pa.Schema:
        with reading(path, "its footer"), pq.ParquetFile(path) as file:
            return _canonical(path, file.schema_arrow)

    def groups(self, path: str) -> tuple[int, ...]:
        with reading(path, "its footer"), pq.ParquetFile(path) as file:
            return tuple(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))

    def batches(
        self, path: str, schema: pa.Schema, skip: Skip, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        with reading(path, "its footer"):
            file = pq.ParquetFile(path, buffer_size=BUFFER_BYTES)
        with file:
            for group in range(file.num_row_groups) if groups is None else groups:
                with reading(path, f"row group {group}"):
                    if skip.whole(file.metadata.row_group(group).num_rows):
                        continue
                    decoded = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=schema.names, use_threads=False)
                while (batch := _next(decoded, path, f"row group {group}", schema)) is not None:
                    yield skip.part(batch)


class ArrowFormat(Format):
    """Arrow IPC, both as a file (its record batches can be read alone) and as a stream (they cannot)."""

    name = "Arrow"
    suffixes = (".arrow", ".arrows", ".ipc", ".feather")

    def learn(self, path: str) -> pa.Schema:
        with reading(path, "its schema"), pa.OSFile(path) as file:
            return _canonical(path, _opened(file).schema)

    def groups(self, path: str) -> tuple[None, ...] | None:
        with reading(path, "its footer"), pa.OSFile(path) as file:
            reader = _opened(file)
            return (None,) * reader.num_record_batches if isinstance(reader, pa.RecordBatchFileReader) else None

    def batches(
        self, path: str, schema: pa.Schema, skip: Skip, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        with reading(path, "its schema"):
            file = pa.OSFile(path)
        with file:
            with reading(path, "its schema"):
                reader = _opened(file)
            numbers = groups
            if numbers is None and isinstance(reader, pa.RecordBatchFileReader):
                numbers = range(reader.num_record_batches)
            found = iter(reader) if numbers is None else (reader.get_batch(number) for number in numbers)
            for place in _count_up() if numbers is None else numbers:
                batch = _next(found, path, f"record batch {place}", schema)
                if batch is None:
                    return
                yield skip.part(batch)


def _count_up() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _opened(file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    magic = file.read(len(_ARROW_MAGIC))
    file.seek(0)
    return pa.ipc.open_file(file) if magic == _ARROW_MAGIC else pa.ipc.open_stream(file)


def _next(batches: Iterator[pa.RecordBatch], path: str, place: str, schema: pa.Schema) -> pa.RecordBatch | None:
    with reading(path, place):
        batch = next(batches, None)
        return None if batch is None else conform(batch, schema)


def _canonical(path: str, schema: pa.Schema) -> pa.Schema:
    try:
        return canonical_schema(schema)
    except ExpressionError as error:
        raise SourceError(f"a column of {path} has a type that Spark does not have", str(error)) from error


def _compare(path: str, found: pa.Schema, schema: pa.Schema, reference: str, *, exact: bool) -> None:
    for field in schema:
        if field.name not in found.names:
            raise _differs(path, reference, f"column '{field.name}' is missing in {path}")
        if found.field(field.name).type != field.type:
            kinds = f"{found.field(field.name).type} in {path}, {field.type} in {reference}"
            raise _differs(path, reference, f"column '{field.name}' is {kinds}")
    extra = [name for name in found.names if name not in schema.names]
    if extra and exact:
        raise _differs(path, reference, f"column '{extra[0]}' is only in {path}")


def _differs(path: str, reference: str, detail: str) -> SourceError:
    return SourceError(
        f"the schema of {path} differs from that of {reference}",
        detail,
        "Read such files as separate sources, or name the columns they share with schema=...",
    )


@contextmanager
def reading(path: str, place: str) -> Iterator[None]:
    """Turns any error in the block into a SourceError that names the file and the place in it."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError, ValueError, ExpressionError) as error:
        raise unreadable(path, f"{place}: {_first_line(error)}") from error


def unreadable(path: str, detail: str) -> SourceError:
    if not os.path.exists(path):
        return SourceError(f"no such file: {path}", detail, "It must be at this path on every worker.")
    return SourceError(
        f"cannot read {path}", detail, "The file is damaged, cut short, or not of this format: write it again."
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
