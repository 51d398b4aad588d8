"""A source and two sinks in memory, for tests and experiments.

`MemorySource` takes faults inline, as data: a `Pause` delays the items after it, a `Fail` raises when it is reached.
Nothing here reads a clock; each read gets the time as an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stretto.actors.address import Attempt
from stretto.actors.sink import CheckpointedWriter, Sink, SinkWriter
from stretto.actors.source import Reading, Source, SourceReader
from stretto.errors import SourceError
from stretto.expressions.ddl import parse_schema
from stretto.expressions.types import canonical, loses_fraction
from stretto.rendering import shown
from stretto.state import Fragment, State
from stretto.state.schemas import check_rows

BATCH_ROWS = 1024
"""The default number of rows per batch, for rows and tables."""

_MISFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""The errors that pyarrow raises for a value that does not fit."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The next item is read `ms` milliseconds after the previous one, or after the first read."""

    ms: float


@dataclass(frozen=True, slots=True)
class Fail:
    """The source breaks here: the read that reaches it raises a SourceError with this message, each time."""

    message: str


Item: TypeAlias = pa.RecordBatch | Pause | Fail


class MemorySource(Source):
    """Rows that are already in memory: record batches, a table, or dicts.

    Batch number i goes to partition i modulo the number of partitions, so all partitions advance through the input
    together. Rows and tables are cut into batches of `batch_rows`; record batches are cut only if it is given.
    A pause or a failure belongs to the batch that follows it. Types become those of the dataflow (`canonical_schema`).
    """

    Pause: ClassVar[type[Pause]] = Pause
    Fail: ClassVar[type[Fail]] = Fail

    def __init__(
        self,
        rows: pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any] | Item],
        schema: pa.Schema | str | None = None,
        batch_rows: int | None = None,
    ) -> None:
        if batch_rows is not None and batch_rows < 1:
            raise SourceError("batch_rows of a memory source must be at least 1", f"it is {batch_rows}")
        self._batch_rows = batch_rows
        if isinstance(rows, pa.Table):
            self._batch_rows = batch_rows or BATCH_ROWS
            rows = rows.combine_chunks().to_batches() or [_empty(rows.schema)]
        elif isinstance(rows, pa.RecordBatch):
            rows = [rows]
        given = list(rows)
        self.schema = as_schema(schema) or canonical_schema(_inferred(given))
        self._uncut: tuple[Item, ...] = tuple(_items(given, self.schema, batch_rows or BATCH_ROWS))

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The items, with batches cut to size."""
        return tuple(_cut(self._uncut, self._batch_rows))

    def __getstate__(self) -> dict[str, Any]:
        # Each of the cut batches would carry the buffers of the whole.
        return {name: value for name, value in vars(self).items() if name != "items"}

    def table(self) -> pa.Table:
        """Returns all rows, in the order given."""
        return pa.Table.from_batches([item for item in self.items if isinstance(item, pa.RecordBatch)], self.schema)

    def length(self, partition: int, partitions: int) -> int:
        items = self._part(partition, partitions)
        return sum(item.num_rows for item in items if isinstance(item, pa.RecordBatch))

    def reader(self, partition: int, partitions: int) -> MemoryReader:
        return MemoryReader(self._part(partition, partitions))

    def describe(self) -> str:
        batches = [item for item in self.items if isinstance(item, pa.RecordBatch)]
        return f"memory, {sum(batch.num_rows for batch in batches)} rows in {len(batches)} batches"

    def _part(self, partition: int, partitions: int) -> tuple[Item, ...]:
        part: list[Item] = []
        number = 0
        for item in self.items:
            if number % partitions == partition:
                part.append(item)
            if isinstance(item, pa.RecordBatch):
                number += 1
        return tuple(part)


class MemoryReader(SourceReader):
    """Reads its items in order, at most one batch at a time."""

    def __init__(self, items: tuple[Item, ...]) -> None:
        self._items = items
        self._index = 0
        self._offset = 0
        self._previous_ns: int | None = None
        self.position = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._previous_ns is None:
            self._previous_ns = now_ns
        while self._index < len(self._items):
            item = self._items[self._index]
            if isinstance(item, Fail):
                raise SourceError(item.message)
            if not isinstance(item, Pause):
                return self._take(item, now_ns, max_rows)
            due_ns = self._previous_ns + round(item.ms * 1_000_000)
            if now_ns < due_ns:
                return Reading(None, now_ns, next_ns=due_ns)
            self._previous_ns = due_ns
            self._index += 1
        return Reading(None, now_ns, done=True)

    def available(self, now_ns: int) -> int | None:
        """Returns the position of the next pause or failure; None at one, where only a read can tell."""
        end = self.position - self._offset
        for number, item in enumerate(self._items[self._index :]):
            if not isinstance(item, pa.RecordBatch):
                return end if number else None
            end += item.num_rows
        return end

    def seek(self, position: int) -> None:
        """Go to a position. Pauses and failures before it are skipped; those right at it are still ahead."""
        self._index, self._offset, self._previous_ns, self.position = 0, 0, None, position
        for item in self._items:
            rows = item.num_rows if isinstance(item, pa.RecordBatch) else 0
            if position == 0 or position < rows:
                self._offset = position
                return
            position -= rows
            self._index += 1
        if position:
            raise SourceError(
                "a memory source cannot seek past its end", f"position {self.position}, {self.position - position} rows"
            )

    def _take(self, batch: pa.RecordBatch, now_ns: int, max_rows: int) -> Reading:
        part = batch.slice(self._offset, max_rows)
        self._offset += part.num_rows
        self.position += part.num_rows
        self._previous_ns = now_ns
        if self._offset >= batch.num_rows:
            self._index, self._offset = self._index + 1, 0
        return Reading(part if part.num_rows else None, now_ns, done=self._index >= len(self._items))


class CollectSink(Sink):
    """Keeps every row in the driver's memory, for results that fit there."""

    on_driver = True
    collects = True
    takes_updates = True
    takes_removals = True

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> CollectWriter:
        return CollectWriter(schema)

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> CollectCheckpointed:
        return CollectCheckpointed(schema)

    def describe(self) -> str:
        return "collect"


class CollectWriter(SinkWriter):
    """Holds the batches in order of arrival."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.schema)


class CollectCheckpointed(CheckpointedWriter):
    """The writer in a job with checkpoints. It holds the rows of complete checkpoints, by checkpoint."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._held: list[pa.RecordBatch] = []
        self.past: Collected = Collected(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)

    def check_part(self, part: Any) -> None:
        check_rows(part, self.schema)

    def seal(self, checkpoint: int) -> pa.Table | None:
        held, self._held = self._held, []
        return pa.Table.from_batches(held, self.schema) if held else None

    def publish(self, checkpoint: int, part: pa.Table) -> None:
        self.past.checkpoints[checkpoint] = part

    def table(self) -> pa.Table:
        checkpoints = dict(self.past.checkpoints)
        return pa.concat_tables(
            [self.schema.empty_table(), *(checkpoints[checkpoint] for checkpoint in sorted(checkpoints))]
        )


class Collected(State):
    """The rows that a collecting sink has published, by checkpoint; the rows of each are written once."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.checkpoints: dict[int, pa.Table] = {}

    def fresh(self) -> Collected:
        return Collected(self.schema)

    def export(self) -> list[tuple[int, pa.Table]]:
        return list(self.checkpoints.items())

    def restore(self, content: list[tuple[int, pa.Table]]) -> None:
        self.checkpoints = dict(content)

    def fragments(self) -> list[Fragment]:
        return [Fragment(checkpoint, rows) for checkpoint, rows in self.checkpoints.items()]

    def rebuild(self, fragments: list[Fragment]) -> None:
        for fragment in fragments:
            check_rows(fragment.content, self.schema)
        self.checkpoints = {fragment.number: fragment.content for fragment in fragments}

    def describe(self) -> dict[str, Any]:
        return {"kind": "rows", "keys": []}


class NullSink(Sink):
    """Counts rows and discards them. It runs on the workers, so it measures the dataflow and nothing else."""

    takes_updates = True
    takes_removals = True

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> NullWriter:
        return NullWriter()

    def checkpointed_writer(self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt) -> NullWriter:
        return NullWriter()

    def describe(self) -> str:
        return "null"


class NullWriter(CheckpointedWriter):
    def __init__(self) -> None:
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    def seal(self, checkpoint: int) -> None:
        """Nothing is held back."""


def as_schema(schema: pa.Schema | str | None) -> pa.Schema | None:
    """Returns an Arrow schema or DDL like 'id long, name string' as a schema with the types of the dataflow."""
    if schema is None:
        return None
    return canonical_schema(parse_schema(schema) if isinstance(schema, str) else schema)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the same columns with types that Spark has: timestamps in microseconds and UTC, plain strings."""
    return pa.schema([pa.field(field.name, canonical(field.type)) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the batch with exactly the columns of `schema`; times are truncated to microseconds.

    Raises pa.ArrowException when a value does not fit its column, KeyError when a column is missing.
    """
    if batch.schema.equals(schema):
        return batch
    columns = [
        pc.cast(batch.column(field.name), options=pc.CastOptions(field.type, allow_time_truncate=True))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _inferred(given: list[Mapping[str, Any] | Item]) -> pa.Schema:
    """Returns the schema of the first batch, or one that fits all dicts."""
    for item in given:
        if isinstance(item, pa.RecordBatch):
            return item.schema
    dicts = [item for item in given if isinstance(item, Mapping)]
    if not dicts:
        raise SourceError("an empty memory source has no schema", None, "Give one with schema=...")
    names = dict.fromkeys(name for row in dicts for name in row)
    fields = []
    for name in names:
        try:
            fields.append((name, pa.array([row.get(name) for row in dicts]).type))
        except _MISFIT as error:
            raise SourceError(
                f"no type fits all values of column '{name}' of a memory source", str(error), "Give one with schema=..."
            ) from error
    return pa.schema(fields)


def _items(given: list[Mapping[str, Any] | Item], schema: pa.Schema, dict_rows: int) -> Iterator[Item]:
    """Yields dicts gathered into batches, batches as they are, and faults in their places."""
    dicts: list[Mapping[str, Any]] = []
    for number, item in enumerate(given):
        if isinstance(item, Mapping):
            dicts.append(item)
            if len(dicts) == dict_rows:
                yield _from_dicts(dicts, number, schema)
                dicts = []
            continue
        if dicts:
            yield _from_dicts(dicts, number - 1, schema)
            dicts = []
        if isinstance(item, pa.RecordBatch):
            yield _fitted(item, number, schema)
        elif isinstance(item, Pause | Fail):
            yield item
        else:
            raise SourceError(
                "a memory source cannot take this item",
                f"item {number} is a {type(item).__name__}",
                "Give a pyarrow Table, record batches or dicts, with MemorySource.Pause and .Fail between them.",
            )
    if dicts:
        yield _from_dicts(dicts, len(given) - 1, schema)


def _cut(items: tuple[Item, ...], batch_rows: int | None) -> Iterator[Item]:
    for item in items:
        if not isinstance(item, pa.RecordBatch) or batch_rows is None or item.num_rows <= batch_rows:
            yield item
        else:
            yield from (item.slice(start, batch_rows) for start in range(0, item.num_rows, batch_rows))


def _fitted(batch: pa.RecordBatch, number: int, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.names == schema.names and canonical_schema(batch.schema).types == schema.types:
        return conform(batch, schema)
    raise SourceError(
        "the batches of a memory source differ in schema",
        f"item {number} has ({_columns(batch.schema)}), expected ({_columns(schema)})",
        "Cast them to one schema.",
    )


def _from_dicts(rows: list[Mapping[str, Any]], last: int, schema: pa.Schema) -> pa.RecordBatch:
    try:
        for field in schema:
            if any(loses_fraction(row.get(field.name), field.type) for row in rows):
                raise ValueError("a fraction in a column of whole numbers")
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except _MISFIT as error:
        raise SourceError(
            "a row of a memory source does not fit its schema", _misfit(rows, last, schema) or str(error)
        ) from error


def _misfit(rows: list[Mapping[str, Any]], last: int, schema: pa.Schema) -> str | None:
    """Returns which value does not fit; `last` is the number of the last row."""
    for number, row in enumerate(rows, last + 1 - len(rows)):
        for field in schema:
            value = row.get(field.name)
            if loses_fraction(value, field.type) or not _fits(value, field.type):
                return f"row {number}, column '{field.name}' should be {field.type}, but is {shown(value)}"
    return None


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except _MISFIT:
        return False
    return True


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
