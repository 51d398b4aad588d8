"""The Parquet files of a published table: a directory for each segment, written with the job's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stretto.actors.address import Attempt
from stretto.api.plan import Plan
from stretto.api.publishing import published_tables
from stretto.errors import UserError
from stretto.operators.publishing import SEGMENT
from stretto.runtime.confined import confined
from stretto.runtime.connectors.files_checkpointed import FilesCheckpointed, is_of_checkpoint
from stretto.runtime.connectors.part_files import files_in, is_visible, writing_in
from stretto.runtime.connectors.sinks import ParquetSink

TABLES = "tables"
"""The directory of tables below that of a checkpoint."""


class PublishedFiles(ParquetSink):
    """The files of one table. Only jobs with checkpoints write them."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__(directory, partition_by=(SEGMENT,))

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> FilesCheckpointed:
        self._stale = ()
        return super().checkpointed_writer(schema, partition, partitions, attempt)

    def published(self, partition: int, partitions: int) -> list[tuple[str, int]]:
        """Returns the visible files of a partition, and of those that it follows, with their sizes."""
        found = []
        with writing_in(self.directory):
            for path in files_in(self.directory):
                name = path.rpartition("/")[2]
                if is_visible(path) and is_of_checkpoint(path) and int(name.split("-")[1]) % partitions == partition:
                    found.append((path, (self.directory / path).stat().st_size))
        return found

    def remove(self, files: Sequence[str]) -> None:
        with writing_in(self.directory):
            for file in files:
                path = confined(self.directory, file)
                path.unlink(missing_ok=True)
                with suppress(OSError):
                    path.parent.rmdir()  # Only if it was the last one.


def place_tables(plan: Plan, uri: str | None) -> None:
    """Says where the tables of a plan have their files: below the checkpoint directory, if there is one."""
    for node, sink in published_tables(plan):
        sink.files = None
        if uri is not None:
            sink.files = PublishedFiles(_local(uri, sink.table) / TABLES / sink.table)
            sink.check(plan.nodes[node.inputs[0]].schema)


def _local(uri: str, table: str) -> Path:
    """Returns the checkpoint directory as a path."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return Path(uri)
    if scheme == "file":
        return Path("/" + rest.lstrip("/"))
    raise UserError(
        f"table '{table}' cannot be kept in {uri}",
        "the files of published tables need a file system that all workers see",
        "Use a directory as the checkpoint, or write the stream with a sink as well and publish it without one.",
    )


def read_piece(directory: str, files: Sequence[str]) -> list[pa.RecordBatch]:
    """Returns the rows of a piece's files; raises an OSError if one is not there."""
    found: list[pa.RecordBatch] = []
    for file in files:
        with pq.ParquetFile(confined(Path(directory), file)) as opened:
            found += opened.read().to_batches()
    return found
