"""A NEXMark stream whose length is decided while it runs.

How long workers take to come and go depends on the machine, and the input must not end, nor wait, meanwhile. So the
stream has no length at first: a tap in front of the sources allows events up to some number, and `Flowing` raises it
ahead of what the slowest partition has read, so that no partition is far ahead of another in event time. When the
measurement is over, the last number that was allowed is the end. Whatever the speed of the machine, all partitions end
there, and the events are those of a stream of that length.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stretto.actors.source import Reading, Source, SourceReader
from stretto.bench.nexmark.events import Kind
from stretto.bench.nexmark.source import NexmarkSource
from stretto.errors import SourceError

POLL_NS = 10_000_000
BLOCK = 250
"""Events in a row that one partition reads. Results wait for the slowest partition, so blocks are short here."""
LOOK_S = 0.05
AHEAD_LOOKS = 10
"""Events are allowed so many looks ahead, by the highest speed so far."""
AHEAD_MIN = 10_000
PARTITIONS_MAX = 64
_NUMBER = struct.Struct("<q")
_UNREAD = -1


class Tap:
    """Allows the events below a number, more with `allow`; `end` makes that number the end of the stream.

    It is a file, so readers in any process on this machine see it; in another one they write how far they are."""

    def __init__(self, path: Path, events: int = AHEAD_MIN) -> None:
        self._path = path
        self.allowed = 0
        progress_of(path).write_bytes(_NUMBER.pack(_UNREAD) * PARTITIONS_MAX * len(Kind))
        self.allow(events)

    @property
    def read(self) -> int:
        """How far the slowest partition of any kind has come in the stream, in events of all kinds."""
        content = progress_of(self._path).read_bytes()
        numbers: list[int] = [number for (number,) in _NUMBER.iter_unpack(content) if number != _UNREAD]
        return min(numbers, default=0)

    def allow(self, events: int) -> None:
        """Allows the first events; never fewer than before."""
        self._write(max(self.allowed, events), "more")

    def end(self) -> int:
        """Ends the stream at what was allowed last, and returns its length."""
        self._write(self.allowed, "end")
        return self.allowed

    def _write(self, events: int, follows: str) -> None:
        self.allowed = events
        written = self._path.with_suffix(".new")
        written.write_text(f"{events} {follows}")
        os.replace(written, self._path)

    def before(self, source: Source) -> TappedSource:
        """Returns the source of NEXMark events behind this tap."""
        if not isinstance(source, NexmarkSource) or source.config.events is not None:
            raise SourceError("a tap needs NEXMark events without end", source.describe())
        short = NexmarkSource(source.kind, source.config, source.rate, source.columns, BLOCK)
        return TappedSource(short, self._path)


def progress_of(path: Path) -> Path:
    """Returns the file in which readers write how far they are."""
    return path.with_suffix(".progress")


class TappedSource(Source):
    """Endless NEXMark events behind the tap in the file `path`."""

    def __init__(self, source: NexmarkSource, path: Path) -> None:
        self.source = source
        self.path = path
        self.schema: pa.Schema = source.schema

    def reader(self, partition: int, partitions: int) -> TappedReader:
        return TappedReader(self, partition, partitions)

    def end_of(self, events: int, partition: int, partitions: int) -> int:
        """Returns the end position of a partition of a stream with so many events."""
        bounded = NexmarkSource(self.source.kind, replace(self.source.config, events=events), block=self.source.block)
        length = bounded.length(partition, partitions)
        assert length is not None
        return length

    def describe(self) -> str:
        return f"{self.source.describe()}, behind a tap"


class TappedReader(SourceReader):
    """Reads what is allowed; looks at the tap again when it is there."""

    def __init__(self, source: TappedSource, partition: int, partitions: int) -> None:
        self._source = source
        self._place = (partition, partitions)
        self._reader = source.source.reader(partition, partitions)
        self._limit = 0
        self._is_end = False
        self._progress = os.open(progress_of(source.path), os.O_WRONLY)
        kind = list(Kind).index(Kind(source.source.kind))
        self._offset = _NUMBER.size * (kind * PARTITIONS_MAX + partition)

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self.position >= self._limit and not self._is_end:
            self._note()
            self._look()
        if self.position >= self._limit:
            if self._is_end:
                return Reading(None, now_ns, done=True)
            return Reading(None, now_ns, next_ns=now_ns + POLL_NS)
        reading = self._reader.read(now_ns, min(max_rows, self._limit - self.position))
        self.position = self._reader.position
        self._note()
        return reading

    def _note(self) -> None:
        os.pwrite(self._progress, _NUMBER.pack(self._reader.number), self._offset)

    def _look(self) -> None:
        events, follows = self._source.path.read_text().split()
        self._limit = self._source.end_of(int(events), *self._place)
        self._is_end = follows == "end"

    def seek(self, position: int) -> None:
        self._reader.seek(position)
        self.position = position
        self._note()

    def close(self) -> None:
        self._reader.close()
        os.close(self._progress)


class Flowing:
    """Keeps a tap ahead of what is read, in a thread, and notes how far it was when: `with Flowing(tap) as flowing:`.
    The block's end is the end of the stream."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stretto-tap", daemon=True)
        self.samples: list[tuple[float, int]] = []
        """Pairs of a time in seconds and the events read by then."""

    def __enter__(self) -> Flowing:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._tap.end()

    def _run(self) -> None:
        fastest = before = 0
        while not self._stopped.is_set():
            read = self._tap.read
            self.samples.append((time.monotonic(), read))
            fastest, before = max(fastest, read - before), read
            self._tap.allow(read + max(AHEAD_MIN, AHEAD_LOOKS * fastest))
            self._stopped.wait(LOOK_S)
