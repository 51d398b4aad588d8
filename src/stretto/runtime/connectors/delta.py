"""Rows to a Delta table: those of each checkpoint and partition in one atomic commit, when the checkpoint is complete.

A commit carries the number of the checkpoint under the name of its line, all that one partition ever writes: Delta's
application transactions. Whoever comes after a failure reads that number from the table, and skips what is in. Two
commits under one name that start from the same version of the table conflict, and the later one fails; so a process
that does not know that it was replaced cannot write rows a second time either.

deltalake is optional (the extra `delta`), so it is imported when a table is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.sink import Sink, SinkWriter
from stretto.errors import StorageError, UserError
from stretto.rendering import message_of
from stretto.runtime.connectors.sealed_rows import PublishedOutside

RETRY_S = 0.2
EXTRA = 'Install the extra: pip install "stretto[delta]".'


def library() -> Any:
    """Returns the module deltalake; raises a UserError that names the extra if it is not installed."""
    try:
        import deltalake
    except ImportError as error:
        raise UserError("Delta tables need the package deltalake", str(error), EXTRA) from error
    return deltalake


class DeltaSink(Sink):
    """Adds rows to a Delta table, which is made if there is none."""

    irrevocable = True

    def __init__(
        self,
        table: str | os.PathLike[str],
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        function: str = "",
    ) -> None:
        path = os.fspath(table)
        self.table = path if "://" in path else os.path.abspath(path)
        self.partition_by = tuple(partition_by)
        self.options = dict(options or {})
        self.function = function

    def check(self, schema: pa.Schema) -> None:
        unknown = [name for name in self.partition_by if name not in schema.names]
        if unknown:
            raise UserError(
                f"there is no column '{unknown[0]}' to partition by", f"there are {', '.join(schema.names)}"
            )
        delta, options = library(), self.options or None
        if not delta.DeltaTable.is_deltatable(self.table, options):
            return
        known = [each.name for each in delta.DeltaTable(self.table, storage_options=options).schema().fields]
        if sorted(known) != sorted(schema.names):
            raise UserError(
                f"the Delta table {self.table} has other columns",
                f"it has {', '.join(known)}, and the stream {', '.join(schema.names)}",
                "Choose its columns with select(...), or name another table.",
            )

    def within(self, function: str) -> DeltaSink:
        return DeltaSink(self.table, self.partition_by, self.options, function)

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        raise UserError("a Delta sink needs checkpoints", self.table, "Submit the app with checkpoint=.")

    def checkpointed_writer(self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt) -> DeltaWriter:
        return DeltaWriter(self, schema, partition, f"stretto-{attempt.lineage}-{self.function}")

    def describe(self) -> str:
        return f"Delta table {self.table}"


class DeltaWriter(PublishedOutside):
    """Writes one partition's rows."""

    def __init__(self, sink: DeltaSink, schema: pa.Schema, partition: int, name: str) -> None:
        super().__init__(schema, partition, f"the Delta table {sink.table}")
        self._sink = sink
        self._name = name

    def publish_outside(self, partition: int, checkpoint: int, rows: pa.Table) -> None:
        delta = library()
        while not self.closed.is_set():
            try:
                self._commit(delta, f"{self._name}-{partition}", checkpoint, rows)
                return
            except delta.exceptions.SchemaMismatchError as error:
                raise StorageError(
                    f"the Delta table {self._sink.table} does not take the rows of checkpoint {checkpoint}",
                    message_of(error),
                    "Correct the table, or name another one.",
                ) from error
            except (delta.exceptions.DeltaError, OSError) as error:
                # Somebody else has committed, or the storage does not answer; whether this commit is in is not known.
                self.trouble = message_of(error)
                self.closed.wait(RETRY_S)

    def _commit(self, delta: Any, line: str, checkpoint: int, rows: pa.Table) -> None:
        sink = self._sink
        options = sink.options or None
        by = list(sink.partition_by) or None
        if not delta.DeltaTable.is_deltatable(sink.table, options):
            delta.DeltaTable.create(sink.table, rows.schema, mode="ignore", partition_by=by, storage_options=options)
        table = delta.DeltaTable(sink.table, storage_options=options)
        if (table.transaction_version(line) or 0) < checkpoint:
            stamp = delta.CommitProperties(app_transactions=[delta.Transaction(line, checkpoint)])
            delta.write_deltalake(table, rows, mode="append", partition_by=by, commit_properties=stamp)
