"""Inputs of an app: a source, and the reader of one of its partitions.

A reader's position is a number of rows (or events) from its start. After a seek, it reads exactly what it read before
from that position; replay, checkpoints and the micro-batch engine rely on that.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stretto.actors.sink import Sink

SPLITS_MAX = 1 << 12
"""The maximum number of splits of a source whose splits appear."""


@dataclass(slots=True)
class Reading:
    """The result of one read. `arrived_ns` is when the last event of the batch arrived, or was due in a paced source.

    `watermark_us` is the source's own watermark, if it has one: no event before it will follow. `next_ns` is when to
    read again: None means at once. `done` means that nothing follows.
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
        """Returns the position up to which rows can be read now; None if that is unknown before a read."""
        return None

    def seek(self, position: int) -> None:
        """Resumes from an earlier position."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases files and the like."""


class Source:
    """A named input of an app. It is shipped to the workers, so it holds configuration, not open files."""

    schema: pa.Schema
    on_driver: bool = False
    """Whether it can only be read in the driver's process, as an in-memory DataFrame's rows can."""

    parallelism: int | None = None
    """The default number of partitions; None for the app's default."""

    dead_letters: Sink | None = None
    """Where what could not be read as a row goes. The last columns of its schema are then those of `MALFORMED`, which
    are null in a row that could be read."""

    def check(self) -> None:
        """Raises a SourceError for what is known to be wrong before anything runs."""

    def length(self, partition: int, partitions: int) -> int | None:
        """Returns the end position of a partition, or None if the source is endless or its end is unknown before it is
        read."""
        return None

    def reader(self, partition: int, partitions: int) -> SourceReader:
        raise NotImplementedError

    def describe(self) -> str:
        """Returns one line for `explain()`."""
        return type(self).__name__


class GrowingSource(Source):
    """A source whose splits are numbered outside, as the partitions of a topic are. More may appear while it is read.

    `reader(number, ...)` reads one of the splits that were there when the source was checked."""

    is_endless: bool = True
    """Whether it is read for ever, with the splits that appear; if not, it has an end, and the splits of its check."""

    def splits(self) -> int:
        """Returns how many splits there were when the source was checked."""
        raise NotImplementedError

    def lookout(self) -> Lookout:
        """Returns a lookout for splits that appear."""
        raise NotImplementedError

    def newcomer(self, number: int) -> SourceReader:
        """Returns a reader of a split that was not there before, from its beginning."""
        raise NotImplementedError


class Lookout:
    """Looks for splits that appear; asking it never waits."""

    def splits(self) -> int:
        """Returns how many splits are known now."""
        raise NotImplementedError

    def close(self) -> None:
        """Stops looking."""


MALFORMED = pa.schema(
    [
        ("__error", pa.string()),
        ("__topic", pa.string()),
        ("__partition", pa.int32()),
        ("__offset", pa.int64()),
        ("__timestamp", pa.timestamp("us", tz="UTC")),
        ("__key", pa.binary()),
        ("__value", pa.binary()),
    ]
)
"""What is known of a record that could not be read as a row: what is wrong with it, where it is, and what it holds."""
