"""A directory that is being written to: files are read as they appear, until `_SUCCESS` marks it as complete.

Files must appear complete (written elsewhere or under a name that begins with `_` or `.`, then renamed or linked), and
in the order of their names. So the order in which a partition reads them depends only on the names, and a replay reads
the same rows again. The last number in its name (modulo the number of partitions) assigns a file to a partition, so
that neighbours are read in parallel; a name without a number is assigned by its checksum.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import deque
from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.memory import as_schema
from stretto.errors import SourceError
from stretto.operators.windows import Duration, duration_us
from stretto.runtime.connectors.files import FORMATS
from stretto.runtime.connectors.formats import Format, Skip

LAST_FILE = "_SUCCESS"
"""The file that Spark and Hadoop write when a directory is complete."""

SETTLED_NS = 50_000_000
"""File systems have coarse timestamps: a directory whose change was seen more recently may change again with the same
timestamp."""

_NUMBER = re.compile(r"\d+")


class WatchedFiles(Source):
    """The files of a directory, present and future.

    The schema is that of the first file; an empty directory needs a given one. The directory is checked every `poll`,
    and only listed when it has changed."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        format: str = "parquet",
        schema: pa.Schema | str | None = None,
        poll: Duration = "2 ms",
    ) -> None:
        if format not in FORMATS:
            raise SourceError("unknown file format", repr(format), f"Use one of {', '.join(map(repr, FORMATS))}.")
        self.directory = os.path.abspath(os.fspath(directory).removeprefix("file://"))
        self.format = format
        self.poll_ns = duration_us(poll, "the poll interval of a watched directory") * 1000
        if self.poll_ns <= 0:
            raise SourceError("the poll interval of a watched directory must be positive", f"it is {poll!r}")
        self._given = as_schema(schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """The given schema, or that of the first file that has one."""
        if self._given is not None:
            return self._given
        for name in sorted(_visible(self.directory)):
            learned = FORMATS[self.format].learn(os.path.join(self.directory, name))
            if learned is not None:
                return learned
        raise SourceError(
            f"nothing to learn a schema from yet: {self.directory}",
            "the directory has no file with rows in it",
            "Give one with schema=...",
        )

    def check(self) -> None:
        _visible(self.directory)
        assert self.schema is not None  # Inferred here, so that every worker has the same.

    def reader(self, partition: int, partitions: int) -> WatchedReader:
        return WatchedReader(self, partition, partitions)

    def describe(self) -> str:
        return f"{FORMATS[self.format].name} files that appear in {self.directory}"


class WatchedReader(SourceReader):
    """Reads one partition's files in the order of their names; `position` counts rows."""

    def __init__(self, source: WatchedFiles, partition: int, partitions: int) -> None:
        self.position = 0
        self._source = source
        self._format: Format = FORMATS[source.format]
        self._listing = _Listing(source.directory, partition, partitions)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: pa.RecordBatch | None = None
        self._offset = 0
        self._skip = Skip()

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if not self._fetch(now_ns):
            done = self._listing.is_complete
            return Reading(None, now_ns, next_ns=None if done else now_ns + self._source.poll_ns, done=done)
        assert self._batch is not None
        part = self._batch.slice(self._offset, max_rows)
        self._offset += part.num_rows
        self.position += part.num_rows
        return Reading(part, now_ns)

    def seek(self, position: int) -> None:
        self.close()
        self._listing.restart()
        self.position = position
        self._skip = Skip(position)

    def close(self) -> None:
        batches, self._batches, self._batch, self._offset = self._batches, None, None, 0
        if batches is not None:
            batches.close()  # type: ignore[attr-defined]

    def _fetch(self, now_ns: int) -> bool:
        """Loads a batch with rows left, and returns whether there is one."""
        while self._batch is None or self._offset >= self._batch.num_rows:
            if self._batches is None:
                path = self._listing.next_file(now_ns)
                if path is None:
                    return False
                self._batches = self._format.batches(path, self._source.schema, self._skip)
            self._batch, self._offset = next(self._batches, None), 0
            if self._batch is None:
                self._batches = None
        return True


class _Listing:
    """The files of one partition that are still to be read."""

    def __init__(self, directory: str, partition: int, partitions: int) -> None:
        self._directory = directory
        self._partition = partition
        self._partitions = partitions
        self.restart()

    def restart(self) -> None:
        """Restarts with the first file."""
        self.is_complete = False
        self._waiting: deque[str] = deque()
        self._last = ""
        self._known = 0
        self._changed_ns = -1
        self._seen_ns = self._listed_ns = 0

    def next_file(self, now_ns: int) -> str | None:
        """Returns the next file, or None; `is_complete` says whether more can appear."""
        if not self._waiting and not self.is_complete:
            self._look(now_ns)
        return os.path.join(self._directory, self._waiting.popleft()) if self._waiting else None

    def _look(self, now_ns: int) -> None:
        try:
            changed_ns = os.stat(self._directory).st_mtime_ns
        except OSError as error:
            raise _unlisted(self._directory, error) from error
        if changed_ns != self._changed_ns:
            self._changed_ns, self._seen_ns = changed_ns, now_ns
        elif self._listed_ns > self._seen_ns + SETTLED_NS:
            return
        self._listed_ns = now_ns
        # Completeness is checked first: a listing after that has all files.
        complete = os.path.exists(os.path.join(self._directory, LAST_FILE))
        found = _visible(self._directory)
        new = sorted(name for name in found if name > self._last)
        self._refuse_late(len(found) - len(new))
        self._waiting.extend(name for name in new if self._is_own(name))
        self._known = len(found)
        self._last = new[-1] if new else self._last
        self.is_complete = complete

    def _refuse_late(self, earlier: int) -> None:
        if earlier > self._known:
            raise SourceError(
                f"a file appeared out of order in {self._directory}",
                f"{earlier - self._known} of its files sort before '{self._last}', which appeared before them",
                "Give files names that sort in the order in which they appear, such as a counter with leading zeros.",
            )

    def _is_own(self, name: str) -> bool:
        numbers = _NUMBER.findall(name)
        number = int(numbers[-1]) if numbers else zlib.crc32(name.encode())
        return number % self._partitions == self._partition


def _visible(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(("_", "."))]
    except OSError as error:
        raise _unlisted(directory, error) from error


def _unlisted(directory: str, error: OSError) -> SourceError:
    return SourceError(f"cannot list the directory {directory}", error.strerror, "Check the path and its permissions.")
