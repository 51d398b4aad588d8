"""A directory of epochs: the rows of each checkpoint, in one file per partition that had some, for Spark to stream on.

    _schema.arrow                                the columns
    00001-1c291ca3-000000007.parquet             what partition 1 sealed for checkpoint 7

A line is all that one partition has ever written in one lineage of checkpoints; its epochs only grow. Names tell the
line and the epoch, so publishing twice changes nothing, and a reader needs no other memory than the last epoch of each
line (`runtime/epoch_stream.py`). The rows are a part of the checkpoint until then. What a query has read cannot be
withdrawn, so the job never goes back to an earlier checkpoint.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stretto.actors.address import Attempt
from stretto.actors.sink import Sink, SinkWriter
from stretto.errors import SourceError, UserError
from stretto.rendering import message_of
from stretto.runtime.connectors.file_kinds import PARQUET
from stretto.runtime.connectors.part_files import writing_in
from stretto.runtime.connectors.sealed_rows import SealedPart, SealedRows

SCHEMA_FILE = "_schema.arrow"
_EPOCH = re.compile(r"(?P<line>\d{5,}-[0-9a-f]{8})-(?P<epoch>\d{9,})\.parquet")


class EpochSink(Sink):
    """Writes the rows of each checkpoint for Spark queries that continue from them."""

    irrevocable = True

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()

    def check(self, schema: pa.Schema) -> None:
        PARQUET.check(schema)
        if self.directory.exists() and not self.directory.is_dir():
            raise UserError(f"the output directory cannot be made: {self.directory}", "it is a file")

    def check_fresh(self) -> None:
        found = sorted(epochs_in(self.directory)) if self.directory.exists() else []
        if found:
            raise UserError(
                f"the output directory is not empty: {self.directory}",
                f"it has epochs of another run, such as {found[0][1]} of {found[0][0]}",
                "Choose another directory, or resume from the checkpoint that they are of.",
            )

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        raise UserError("a sink of epochs needs checkpoints", str(self.directory), "Submit the app with checkpoint=.")

    def checkpointed_writer(self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt) -> EpochWriter:
        self.prepare(schema)
        return EpochWriter(self.directory, schema, partition, attempt.lineage)

    def prepare(self, schema: pa.Schema) -> None:
        """Makes the directory, with its schema."""
        with writing_in(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            if not (self.directory / SCHEMA_FILE).exists():
                _put(self.directory, SCHEMA_FILE, schema.serialize().to_pybytes())

    def describe(self) -> str:
        return f"epochs in {self.directory}"


class EpochWriter(SealedRows):
    """Writes one partition's epochs."""

    def __init__(self, directory: Path, schema: pa.Schema, partition: int, lineage: str) -> None:
        super().__init__(schema, partition)
        self._directory = directory
        self._lineage = lineage

    def publish(self, checkpoint: int, part: SealedPart) -> None:
        partition, rows = part
        name = f"{partition:05d}-{self._lineage}-{checkpoint:09d}.parquet"
        with writing_in(self._directory):
            if not (self._directory / name).exists():
                data = pa.BufferOutputStream()
                pq.write_table(rows, data)
                _put(self._directory, name, data.getvalue().to_pybytes())


def _put(directory: Path, name: str, content: bytes) -> None:
    """Makes a file appear whole."""
    hidden = directory / f"_open-{uuid.uuid4().hex}"
    hidden.write_bytes(content)
    os.replace(hidden, directory / name)


def epochs_in(directory: Path) -> list[tuple[str, int, str]]:
    """Returns the line, the epoch and the name of each file of a directory of epochs."""
    try:
        found = [(_EPOCH.fullmatch(name), name) for name in os.listdir(directory)]
    except OSError as error:
        raise SourceError(f"cannot list the directory {directory}", error.strerror, "Check the path.") from error
    return [(epoch["line"], int(epoch["epoch"]), name) for epoch, name in found if epoch is not None]


def schema_of(directory: Path) -> pa.Schema:
    """Returns the columns of a directory of epochs."""
    try:
        return pa.ipc.read_schema(pa.py_buffer((directory / SCHEMA_FILE).read_bytes()))
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"there are no epochs in {directory}",
            message_of(error),
            "Name the directory of sinks.stream(...) of a job that has begun.",
        ) from error
