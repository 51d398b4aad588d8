"""Where results go out: a sink, and the writer that one partition of it has."""

from __future__ import annotations

import pyarrow as pa


class SinkWriter:
    """Writes one partition's rows. `finish` is called once when the input has ended; `close` always."""

    def write(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """The input has ended: publish what is still held back."""

    def close(self) -> None:
        """Release files and the like; called also after a failure."""


class Sink:
    """A named output of an app; configuration only, like a source."""

    on_driver: bool = False
    """Whether it writes in the driver's process, as collecting and calling back do."""

    collects: bool = False
    """Whether its writer keeps the rows for the job's handle to read (`writer.table()`)."""

    def check(self, schema: pa.Schema) -> None:
        """Raise a UserError for what can be seen to be wrong before anything runs."""

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        raise NotImplementedError

    def describe(self) -> str:
        return type(self).__name__
