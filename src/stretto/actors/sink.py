"""Where results go out: a sink, and the writer that one partition of it has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.state import State


class SinkWriter:
    """Writes one partition's rows. `finish` is called once when the input has ended; `close` always."""

    def write(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """The input has ended: publish what is still held back."""

    def close(self) -> None:
        """Release files and the like; called also after a failure."""


class CheckpointedWriter(SinkWriter):
    """Writes one partition's rows in a job with checkpoints: rows may be seen only when a complete checkpoint has them.

    What is sealed and not yet published is a part of every checkpoint, so `publish` can be called after a failure, by
    another writer in another process; and a second time, after which nothing is to have changed."""

    past: State | None = None
    """What it has published so far, where a checkpoint must have that too because nobody else keeps it."""

    def seal(self, checkpoint: int) -> Any:
        """The rows since the last call belong to this checkpoint. Hold them back, and give as plain data or a table
        what `publish` will need; None when there is nothing."""
        raise NotImplementedError

    def publish(self, checkpoint: int, part: Any) -> None:
        """Let what `seal` gave of a checkpoint be seen. There may be several parts of one checkpoint, where a writer
        follows several others because the sink has fewer partitions than it had."""
        raise NotImplementedError

    def withdraw(self, checkpoint: int) -> None:
        """The job goes on from this checkpoint: nothing of later ones may be seen, now or later, be it of
        this partition or of one that is not there any more (partition p of n answers for p + n, p + 2n, and so on).
        What a later attempt of the job has written stays: this one was replaced then, and does not know it yet."""


class Sink:
    """A named output of an app; configuration only, like a source."""

    on_driver: bool = False
    """Whether it writes in the driver's process, as collecting and calling back do."""

    collects: bool = False
    """Whether its writer keeps the rows for the job's handle to read (`writer.table()`)."""

    def check(self, schema: pa.Schema) -> None:
        """Raise a UserError for what can be seen to be wrong before anything runs."""

    def check_fresh(self) -> None:
        """Raise a UserError where the results of an earlier job are in the way of one that begins anew; those that a
        checkpoint knows of are in nobody's way."""

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> CheckpointedWriter | None:
        """A writer for a job with checkpoints, in one run of it. Without one, rows wait in memory and are written by a
        plain writer when a complete checkpoint has them: once, but for a driver that dies in the middle of it."""
        return None

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        raise NotImplementedError

    def describe(self) -> str:
        return type(self).__name__
