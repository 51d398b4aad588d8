"""Where data comes in: a source, and the reader that one partition of it has.

A reader's position is a number of rows (or events) from its start; a reader that is put at a position reads from
there exactly what it read before, which is what replay, checkpoints and the micro-batch engine stand on.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class Reading:
    """What one read gave. `arrived_ns` is when the last event of the batch arrived, or was due in a paced source.

    `watermark_us` is the source's own promise, if it makes one: no event before it will follow. `next_ns` says when to
    ask again: None means at once. `done` means that nothing follows.
    """

    batch: pa.RecordBatch | None
    arrived_ns: int
    watermark_us: int | None = None
    next_ns: int | None = None
    done: bool = False


class SourceReader:
    """Reads one partition. Subclasses keep `position`, and no read moves it by more than `max_rows`."""

    position: int = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        raise NotImplementedError

    def available(self, now_ns: int) -> int | None:
        """The position up to which rows can be read now; None when only a read can tell."""
        return None

    def seek(self, position: int) -> None:
        """Continue from an earlier position."""
        raise NotImplementedError

    def close(self) -> None:
        """Release files and the like."""


class Source:
    """A named input of an app. It is shipped to the workers, so it holds configuration, not open files."""

    schema: pa.Schema
    on_driver: bool = False
    """Whether it can only be read in the driver's process, as an in-memory DataFrame's rows can."""

    parallelism: int | None = None
    """How many partitions it has when nobody says; None leaves it to the app."""

    def check(self) -> None:
        """Raise a SourceError for what can be seen to be wrong before anything runs."""

    def length(self, partition: int, partitions: int) -> int | None:
        """The end position of a partition, or None when the source is endless or only reading can tell."""
        return None

    def reader(self, partition: int, partitions: int) -> SourceReader:
        raise NotImplementedError

    def describe(self) -> str:
        """One line for `explain()`."""
        return type(self).__name__
