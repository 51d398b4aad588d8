"""A gate in front of a source: its rows are read as far as the gate allows, and the source waits there.

What interferes with a running job (a savepoint, a fault) must find it running, however slow the machine is. A pace does
not promise that; a gate does. It is a file, so readers in any process on this machine see it. With a pace, rows that
became due at a closed gate are read at full speed when it opens.
"""

from __future__ import annotations

import os
from pathlib import Path

from stretto.actors.source import Reading, Source, SourceReader
from stretto.errors import SourceError

POLL_NS = 10_000_000


class Gate:
    """Allows a share of each partition's rows at first, more with `allow`, everything with `open`."""

    def __init__(self, path: Path, share: float = 0.0) -> None:
        self._path = path
        self.allow(share)

    def allow(self, share: float) -> None:
        """Allows the first rows of each partition, up to this share of them. Less than one: the end stays closed."""
        written = self._path.with_suffix(".new")
        written.write_text(str(share))
        os.replace(written, self._path)

    def open(self) -> None:
        """Allows all rows and the end."""
        self._path.unlink(missing_ok=True)

    def before(self, source: Source) -> GatedSource:
        """Returns the source behind this gate."""
        return GatedSource(source, self._path)


class GatedSource(Source):
    """A source of known length behind the gate in the file `path`; no file is an open gate."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source = source
        self.path = path
        self.schema = source.schema
        self.on_driver = source.on_driver
        self.parallelism = source.parallelism

    def check(self) -> None:
        self.source.check()

    def length(self, partition: int, partitions: int) -> int | None:
        return self.source.length(partition, partitions)

    def reader(self, partition: int, partitions: int) -> GatedReader:
        length = self.length(partition, partitions)
        if length is None:
            raise SourceError("a gate needs a source of known length", self.source.describe())
        return GatedReader(self.source.reader(partition, partitions), length, self.path)

    def describe(self) -> str:
        return f"{self.source.describe()}, behind a gate"


class GatedReader(SourceReader):
    """Reads up to the limit; looks at the gate again when it is there."""

    def __init__(self, reader: SourceReader, length: int, path: Path) -> None:
        self._reader = reader
        self._length = length
        self._path = path
        self._limit: int | None = 0

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._limit is not None and self.position >= self._limit:
            self._limit = self._allowed()
        if self._limit is None:
            reading = self._reader.read(now_ns, max_rows)
        elif self.position >= self._limit:
            return Reading(None, now_ns, next_ns=now_ns + POLL_NS)
        else:
            reading = self._reader.read(now_ns, min(max_rows, self._limit - self.position))
        self.position = self._reader.position
        return reading

    def seek(self, position: int) -> None:
        self._reader.seek(position)
        self.position = position

    def close(self) -> None:
        self._reader.close()

    def _allowed(self) -> int | None:
        """Returns the position that the gate allows now, or None if it is open."""
        try:
            return round(float(self._path.read_text()) * self._length)
        except FileNotFoundError:
            return None
