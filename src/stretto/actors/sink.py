"""Outputs of an app: a sink, and the writer of one of its partitions."""

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
        """Publishes what is still held back; the input has ended."""

    def close(self) -> None:
        """Releases files and the like; also called after a failure."""


class CheckpointedWriter(SinkWriter):
    """Writes one partition's rows in a job with checkpoints: rows become visible only when a complete checkpoint has
    them.

    Sealed and unpublished rows are a part of every checkpoint, so `publish` can be called after a failure, by another
    writer in another process. It must be idempotent."""

    past: State | None = None
    """What it has published so far, if only the checkpoint stores that."""

    def seal(self, checkpoint: int) -> Any:
        """Assigns the rows since the last call to this checkpoint, without publishing them. Returns what `publish` will
        need, as plain data or a table; None if there is nothing."""
        raise NotImplementedError

    def check_part(self, part: Any) -> None:
        """Raises an error if something that was read from a checkpoint is not what `seal` returns. Called before
        anything is published or withdrawn."""

    def publish(self, checkpoint: int, part: Any) -> None:
        """Makes what `seal` returned for a checkpoint visible. One checkpoint may have several parts, if the sink has
        fewer partitions than before and a writer follows several others."""
        raise NotImplementedError

    def withdraw(self, checkpoint: int) -> None:
        """Removes what later checkpoints than this one have written, since the job resumes from this one. That includes
        partitions that no longer exist (partition p of n is responsible for p + n, p + 2n, and so on). What a later
        attempt of the job has written stays: it has replaced this one."""

    def discard_leftovers(self) -> None:
        """Removes what earlier attempts of the job have written and not published, since the job starts from the
        beginning."""


class BackgroundWriter(CheckpointedWriter):
    """Publishes in the background, because it may have to wait for a system outside."""

    def publishes(self, checkpoint: int, part: Any) -> bool:
        """Begins to publish what `seal` returned, or goes on with it, and returns whether it is visible. It is called
        until it is, for one part after the other, and does not wait."""
        raise NotImplementedError


class Sink:
    """A named output of an app; configuration only, like a source."""

    on_driver: bool = False
    """Whether it writes in the driver's process, as collecting and calling back do."""

    collects: bool = False
    """Whether its writer keeps the rows for the job's handle to read (`writer.table()`)."""

    takes_updates: bool = False
    """Whether it can write rows that replace earlier rows with the same key, such as those of a running aggregate. The
    rows of one key are written in order, by one writer."""

    takes_removals: bool = False
    """Whether it can also remove rows. The last column of such a stream is `__change`, a bigint: how many rows like
    this one are added, or removed if it is negative. A removal may come before the row that it removes, if the two come
    from different partitions: add up."""

    irrevocable: bool = False
    """Whether what it has published cannot be withdrawn, so that its job cannot go back to an earlier checkpoint."""

    def check(self, schema: pa.Schema) -> None:
        """Raises a UserError for what is known to be wrong before anything runs."""

    def within(self, function: str) -> Sink:
        """Returns the sink as that of a function of a job. For sinks whose traces outside need a name of their own."""
        return self

    def check_fresh(self) -> None:
        """Raises a UserError if results of an earlier job are in the way of one that starts from scratch. Results in a
        checkpoint are not in the way."""

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> CheckpointedWriter | None:
        """Returns a writer for one run of a job with checkpoints. If it is None, rows wait in memory and a plain writer
        writes them when a complete checkpoint has them: exactly once, unless the driver dies during the write."""
        return None

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        raise NotImplementedError

    def describe(self) -> str:
        return type(self).__name__
