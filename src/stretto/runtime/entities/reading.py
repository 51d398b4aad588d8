"""The entities of a snapshot as a DataFrame, read by Spark's tasks, one for each place.

A running app removes its old snapshots, so the rows are read at once and kept by Spark. A column whose values do not
fit its type is shown as text, which is known when all are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from stretto.checkpoints.manifest import EntitiesRecord, Manifest
from stretto.errors import DamagedError, StorageError
from stretto.operators.shown import fitted, settled, together
from stretto.protocol.transactions import Piece
from stretto.runtime.entities.classes import kept_classes
from stretto.runtime.entities.log_files import AppendableFiles, local_directory
from stretto.transactions.place_log import PlaceLog
from stretto.transactions.snapshots import restored
from stretto.transactions.tables import Described, table_of

BATCH_ROWS = 8_192

_READ = pa.schema(
    [
        ("rows", pa.binary()),
        ("types", pa.binary()),
        ("fact", pa.string()),
        ("detail", pa.string()),
        ("damaged", pa.bool_()),
    ]
)
"""Rows of entities as an Arrow stream, with their types; or why those of a place cannot be read."""


@dataclass(frozen=True)
class _Wanted:
    """What tasks are to read; sent inside Spark's closure. `places` has the pieces of each place."""

    directory: str
    kind: str
    described: Described
    places: tuple[tuple[Piece, ...], ...]


def read_entities(spark: SparkSession, uri: str, manifest: Manifest, kind: str) -> DataFrame:
    """Returns a row for each entity of a class: its key, and its fields."""
    assert manifest.entities is not None
    wanted = _wanted(local_directory(uri), manifest.app, manifest.entities, kind)
    tasks = len(wanted.places)
    places = spark.range(0, tasks, 1, tasks)
    read = places.mapInArrow(partial(_read, wanted), from_arrow_schema(_READ)).localCheckpoint(eager=True)
    schema = _schema(read)
    return read.select("rows").mapInArrow(partial(_rows, schema), from_arrow_schema(schema))


def _wanted(directory: str, app: str, record: EntitiesRecord, kind: str) -> _Wanted:
    classes = kept_classes(directory)
    if kind not in classes:
        raise StorageError(f"app '{app}' has no entities of a class '{kind}'", f"it has {', '.join(sorted(classes))}")
    places = tuple(tuple(Piece(*piece) for piece in pieces) for pieces in record.workers)
    return _Wanted(directory, kind, classes[kind], places)


def _schema(read: DataFrame) -> pa.Schema:
    """Returns a schema for all rows."""
    found = read.drop("rows").collect()
    for row in found:
        if row.fact is not None:
            raise (DamagedError if row.damaged else StorageError)(row.fact, row.detail)
    schemas = [pa.ipc.read_schema(pa.py_buffer(bytes(row.types))) for row in found]
    names = schemas[0].names
    return pa.schema(
        [(name, settled(reduce(together, (schema.field(name).type for schema in schemas)))) for name in names]
    )


# In Spark's tasks.


def _read(wanted: _Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of each place, which may be none."""
    for batch in batches:
        for place in batch.column("id").to_pylist():
            try:
                for table in _tables(wanted, place):
                    found = {"rows": _stream(table), "types": table.schema.serialize().to_pybytes()}
                    yield pa.RecordBatch.from_pylist([found], _READ)
            except StorageError as error:
                wrong = {"fact": error.fact, "detail": error.detail, "damaged": isinstance(error, DamagedError)}
                yield pa.RecordBatch.from_pylist([wrong], _READ)


def _tables(wanted: _Wanted, place: int) -> Iterator[pa.Table]:
    log = PlaceLog(AppendableFiles(wanted.directory), place + 1)
    _, entities = restored([log.fetch(piece) for piece in wanted.places[place]])
    states = [(name.key, state) for name, state in entities.items() if name.kind == wanted.kind]
    for begin in range(0, max(1, len(states)), BATCH_ROWS):
        yield table_of(wanted.described, dict(states[begin : begin + BATCH_ROWS]))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for content in batch.column("rows"):
            table = pa.ipc.open_stream(content.as_buffer()).read_all()
            columns = [fitted(table.column(field.name).combine_chunks(), field.type) for field in schema]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()
