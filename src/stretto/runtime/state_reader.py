"""The state of a function in a checkpoint as a DataFrame, read by Spark's tasks, one for each partition. Entities are
read by `entities/reading.py`.

A first job reads and checks everything and finds the types, since a map may hold any values; damage is reported then,
before the rows are used. The rows themselves are read lazily.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from stretto.actors.address import Address
from stretto.actors.snapshot import Content
from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import DamagedError, StorageError, StrettoError, UserError
from stretto.operators.described import rows_of
from stretto.operators.shown import fitted, settled, together
from stretto.runtime.entities.reading import read_entities
from stretto.runtime.own_python import use_own_python
from stretto.runtime.slots import require_free_slot
from stretto.runtime.storage import absolute, store_at

log = logging.getLogger("stretto.checkpoints")

BATCH_ROWS = 8_192

_LOOKED = pa.schema([("types", pa.binary()), ("fact", pa.string()), ("detail", pa.string()), ("damaged", pa.bool_())])


@dataclass(frozen=True)
class _Wanted:
    """What tasks are to read; sent inside Spark's closure. `states` are the requested states of the function, and
    `several` says that rows need the name of their state."""

    uri: str
    function: str
    records: tuple[ActorRecord, ...]
    partitions: tuple[int, ...]
    states: tuple[str, ...]
    several: bool


def read_state(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    function: str,
    *,
    checkpoint: int | None = None,
    savepoint: str | None = None,
    state: str | None = None,
) -> DataFrame:
    """See `stretto.state.read`."""
    uri = absolute(os.fspath(directory))
    store = store_at(uri)
    require_free_slot(spark, f"reading the state of '{function}'")
    use_own_python(spark)
    manifest = _manifest(store, uri, checkpoint, savepoint)
    while True:
        try:
            if manifest.entities is not None:
                _check_no_state(manifest, state)
                return read_entities(spark, uri, manifest, function)
            wanted = _wanted(uri, manifest, function, state)
            schema = _schema(spark, wanted)
            break
        except DamagedError:
            # A running app removes its old checkpoints, and may have removed this one.
            found, manifest = manifest, _manifest(store, uri, checkpoint, savepoint)
            if manifest.checkpoint == found.checkpoint:
                raise
    return _on_partitions(spark, wanted).mapInArrow(partial(_read, wanted, schema), from_arrow_schema(schema))


def _manifest(store: CheckpointStore, uri: str, checkpoint: int | None, savepoint: str | None) -> Manifest:
    if savepoint is not None:
        if checkpoint is not None:
            raise UserError(
                "a state is read from a checkpoint or a savepoint, not both",
                f"checkpoint={checkpoint}, savepoint='{savepoint}'",
            )
        return store.savepoint(savepoint)
    manifests, wrong = store.manifests()
    if checkpoint is not None:
        for manifest in manifests:
            if manifest.checkpoint == checkpoint:
                return manifest
        known = ", ".join(str(manifest.checkpoint) for manifest in manifests) or "none"
        detail = "; ".join([f"there are {known}", *wrong])
        raise StorageError(f"there is no checkpoint {checkpoint} in {uri} that can be read", detail)
    if not manifests:
        if wrong:
            raise DamagedError(f"no checkpoint in {uri} can be read", wrong[-1])
        raise StorageError(f"there is no checkpoint in {uri}", None, "Check the path.")
    for reason in wrong:
        log.warning("%s; another checkpoint is read", reason)
    return manifests[-1]


def _check_no_state(manifest: Manifest, state: str | None) -> None:
    if state is not None:
        raise UserError(f"app '{manifest.app}' has entities, which have no states to choose from", f"state='{state}'")


def _wanted(uri: str, manifest: Manifest, function: str, state: str | None) -> _Wanted:
    if function not in manifest.functions:
        known = ", ".join(manifest.functions)
        fact = f"app '{manifest.app}' has no function '{function}'"
        fix = "Entities of an app that has streams too are in the directory 'entities' below this one."
        raise StorageError(fact, f"the checkpoint has {known}", fix)
    records = manifest.functions[function]
    found = [(p, part) for p, record in enumerate(records) if record.plain for part in (record, *record.parts)]
    if not found:
        raise StorageError(
            f"function '{function}' had finished at checkpoint {manifest.checkpoint}",
            "it has no state left",
            "Read another checkpoint.",
        )
    states = tuple(dict.fromkeys(name for _, record in found for name in record.states))
    if not states:
        raise StorageError(f"function '{function}' keeps no state")
    if state is not None and state not in states:
        raise StorageError(f"function '{function}' has no state '{state}'", f"it has {', '.join(states)}")
    asked = states if state is None else (state,)
    partitions, kept = zip(*found, strict=True)
    return _Wanted(uri, function, kept, partitions, asked, len(asked) > 1)


def _on_partitions(spark: SparkSession, wanted: _Wanted) -> DataFrame:
    """Returns one row for each partition, with its number, each in its own task."""
    tasks = len(wanted.partitions)
    return spark.range(0, tasks, 1, tasks)


def _schema(spark: SparkSession, wanted: _Wanted) -> pa.Schema:
    """Returns a schema for the rows of all partitions."""
    looked = _on_partitions(spark, wanted).mapInArrow(partial(_look, wanted), from_arrow_schema(_LOOKED)).collect()
    for row in looked:
        if row.fact is not None and row.damaged:
            raise DamagedError(row.fact, row.detail, "Read another checkpoint, or a savepoint.")
        if row.fact is not None:
            raise StorageError(row.fact, row.detail)
    schemas = [pa.ipc.read_schema(pa.py_buffer(bytes(row.types))) for row in looked]
    kinds = {
        name: settled(reduce(together, (schema.field(name).type for schema in schemas))) for name in ("key", "value")
    }
    named = [("state", pa.string())] if wanted.several else []
    return pa.schema([*kinds.items(), ("partition_id", pa.int32()), *named])


# In Spark's tasks.


def _tables(wanted: _Wanted, numbers: Iterable[int]) -> Iterator[tuple[int, str, pa.Table]]:
    """Yields the rows of each requested state, with their partition."""
    store = store_at(wanted.uri)
    for number in numbers:
        record, partition = wanted.records[number], wanted.partitions[number]
        content = store.fetch(Address("", wanted.function, partition), record)
        for name in wanted.states:
            if name in content.fragments:
                yield partition, name, _rows(wanted, content, name)


def _rows(wanted: _Wanted, content: Content, state: str) -> pa.Table:
    try:
        return rows_of(content.plain.described[state], content.fragments[state])
    except Exception as error:
        reason = error.fact if isinstance(error, StrettoError) else f"{type(error).__name__}: {error}"
        files = content.paths[state] or content.path
        fact = f"state '{state}' of function '{wanted.function}' cannot be read from {files}"
        raise StorageError(fact, reason, error.fix if isinstance(error, StrettoError) else None) from error


def _numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column("id").to_pylist()


def _look(wanted: _Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    looked: list[dict[str, Any]] = []
    try:
        for _, _, table in _tables(wanted, _numbers(batches)):
            looked.append({"types": table.schema.serialize().to_pybytes()})
    except StorageError as error:
        looked.append({"fact": error.fact, "detail": error.detail, "damaged": isinstance(error, DamagedError)})
    yield pa.RecordBatch.from_pylist(looked, _LOOKED)


def _read(wanted: _Wanted, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for partition, name, table in _tables(wanted, _numbers(batches)):
        rows = table.num_rows
        columns = [fitted(table.column(field).combine_chunks(), schema.field(field).type) for field in ("key", "value")]
        columns.append(pa.array([partition] * rows, pa.int32()))
        if wanted.several:
            columns.append(pa.array([name] * rows, pa.string()))
        yield from pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)
