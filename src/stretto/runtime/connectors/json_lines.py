"""JSON-lines files, read in blocks of whole lines with Arrow's parser.

Arrow reports that a block is wrong, not where. So a block that fails is parsed again, line by line, to name the line,
the column and the value; a correct block is parsed once. A row is a line that is not blank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.types as pat

from stretto.api.memory import canonical_schema, conform
from stretto.errors import SourceError
from stretto.runtime.connectors.formats import Format, Skip, unreadable

BLOCK_BYTES = 512 << 10
LINE_BYTES_MAX = 64 << 20
SHOWN_CHARACTERS = 60

_NEWLINE, _SPACE = ord("\n"), ord(" ")
_CHANGED = re.compile(r"Column\(/(.*)\) changed from (\w+) to (\w+) in row (\d+)")


class Block:
    """Whole lines; the numbers of its first line and of its first row in the file count from 1."""

    __slots__ = ("data", "first_line", "first_row", "lines", "rows")

    def __init__(self, data: bytes, first_line: int, first_row: int) -> None:
        self.data = data
        self.first_line = first_line
        self.first_row = first_row
        text = np.frombuffer(data, np.uint8)
        starts = np.concatenate(([0], np.flatnonzero(text == _NEWLINE) + 1))
        starts = starts[starts < len(data)]
        self.lines = len(starts)
        # Only a line that begins with white space can be blank: then lines are checked one by one.
        self.rows = self.lines if text[starts].min() > _SPACE else sum(1 for _ in self.each_row())

    def each_row(self) -> Iterator[tuple[str, bytes]]:
        """Yields the place and the text of each row."""
        row = self.first_row
        for number, line in enumerate(self.data.split(b"\n"), self.first_line):
            if line.strip():
                yield f"row {row} (line {number})", line
                row += 1


class JsonLinesFormat(Format):
    name = "JSON-lines"
    suffixes = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")

    def learn(self, path: str) -> pa.Schema | None:
        """Returns the schema of the first block. A column without any value there is text."""
        for block in _blocks(path):
            if block.rows:
                return pa.schema([pa.field(field.name, _valued(field.type)) for field in _infer(path, block)])
        return None

    def check(self, path: str, schema: pa.Schema, reference: str, *, exact: bool) -> None:
        """Raises unless the first block parses; columns may be missing, since JSON omits nulls."""
        for field in schema:
            if not can_read(field.type):
                raise SourceError(
                    f"JSON-lines cannot be read as {field.type}",
                    f"column '{field.name}' of {path}",
                    "Read it as string, and convert it with select(...).",
                )
        next(self.batches(path, schema, Skip()), None)

    def batches(
        self, path: str, schema: pa.Schema, skip: Skip, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        for block in _blocks(path):
            if not skip.whole(block.rows):
                yield skip.part(_parsed(path, block, schema))


def _blocks(path: str) -> Iterator[Block]:
    """Yields the file in blocks that end at a line end."""
    line, row = 1, 1
    for data in _whole_lines(path):
        block = Block(data, line, row)
        yield block
        line += block.lines
        row += block.rows


def _whole_lines(path: str) -> Iterator[bytes]:
    rest = b""
    try:
        with pa.input_stream(path) as stream:
            while chunk := stream.read(BLOCK_BYTES):
                end = chunk.rfind(b"\n") + 1
                if end:
                    yield rest + chunk[:end]
                    rest = chunk[end:]
                else:
                    rest += chunk
                if len(rest) > LINE_BYTES_MAX:
                    break
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, str(error)) from error
    if len(rest) > LINE_BYTES_MAX:
        raise unreadable(path, f"a line is longer than {LINE_BYTES_MAX} bytes")
    if rest:
        yield rest


def _parsed(path: str, block: Block, schema: pa.Schema) -> pa.RecordBatch:
    try:
        if not block.data.isascii():
            block.data.decode("utf-8")  # Arrow would accept broken text.
        batch = parse_lines(block.data, schema)
    except (pa.ArrowException, ValueError) as error:
        raise _found(path, block, schema, error) from error
    if batch.num_rows != block.rows:
        raise _found(path, block, schema, ValueError("a row is not one line, or a line not one row"))
    return batch


def parse_lines(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a row for each object; raises an Arrow error or a ValueError that does not say where it is."""
    asked = pa.schema([pa.field(field.name, _parsed_as(field.type)) for field in schema])
    options = pa.json.ParseOptions(explicit_schema=asked, unexpected_field_behavior="ignore")
    return conform(_batch(pa.json.read_json(pa.BufferReader(data), _whole(data), options)), schema)


def _whole(data: bytes) -> pa.json.ReadOptions:
    return pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _infer(path: str, block: Block) -> pa.Schema:
    try:
        found = pa.json.read_json(pa.BufferReader(block.data), _whole(block.data)).schema
        return canonical_schema(found)
    except (pa.ArrowException, ValueError) as error:
        if changed := _CHANGED.search(str(error)):
            column, before, after, row = changed.groups()
            raise SourceError(
                f"no schema fits {path}",
                f"row {block.first_row + int(row)}, column '{column}' is a {after}, but was a {before} before",
                "Correct the value, or give the column's type with schema=...",
            ) from error
        raise _found(path, block, None, error) from error


def _found(path: str, block: Block, schema: pa.Schema | None, error: Exception) -> SourceError:
    """Returns the error of a block that did not parse, as precise as possible."""
    for place, line in block.each_row():
        fault = fault_of(path, place, line, schema)
        if fault:
            return fault
    lines = f"lines {block.first_line} to {block.first_line + block.lines - 1}"
    return unreadable(path, f"{lines}: {error}")


def fault_of(path: str, place: str, line: bytes, schema: pa.Schema | None) -> SourceError | None:
    """Returns what is wrong with one object, if anything is."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except ValueError as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"is not JSON ({error})"
        return SourceError(
            f"corrupt JSON in {path}",
            f"{place} {reason}: {_shown(line)}",
            "Correct or remove the line: one object per line.",
        )
    if not isinstance(value, dict):
        return SourceError(
            f"corrupt JSON in {path}", f"{place} is not an object: {_shown(line)}", "One object per line."
        )
    for field in schema or ():
        try:
            parse_lines(line, pa.schema([field]))
        except (pa.ArrowException, ValueError) as error:
            shown = _shown(json.dumps(value.get(field.name), ensure_ascii=False).encode())
            return SourceError(
                f"wrong type in {path}",
                f"{place}, column '{field.name}' should be {field.type}, but is {shown} ({error})",
                "Correct the value, or give the column's type with schema=...",
            )
    return None


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace").strip()
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _valued(kind: pa.DataType) -> pa.DataType:
    """Returns the type, or text for a column without values."""
    if pat.is_null(kind):
        return pa.string()
    if pat.is_list(kind):
        return pa.list_(_valued(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([pa.field(field.name, _valued(field.type)) for field in kind])
    return kind


def _parsed_as(kind: pa.DataType) -> pa.DataType:
    """Returns the type to parse as: Arrow's parser reads dates only as timestamps."""
    if pat.is_date(kind):
        return pa.timestamp("s")
    if pat.is_list(kind):
        return pa.list_(_parsed_as(kind.value_type))
    if pat.is_struct(kind):
        return pa.struct([pa.field(field.name, _parsed_as(field.type)) for field in kind])
    return kind


def can_read(kind: pa.DataType) -> bool:
    """Whether JSON can be read as a type."""
    if pat.is_list(kind):
        return can_read(kind.value_type)
    if pat.is_struct(kind):
        return all(can_read(field.type) for field in kind)
    tests = (
        pat.is_boolean,
        pat.is_integer,
        pat.is_floating,
        pat.is_decimal,
        pat.is_string,
        pat.is_date,
        pat.is_timestamp,
    )
    return any(test(kind) for test in tests)
