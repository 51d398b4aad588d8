"""Feeds the same events to every system: Parquet files, written once, then linked into a directory when they are due.

Each system watches the directory with its own reader. Making a file appear costs one link, whatever its size, so the
feed costs all systems the same, and almost nothing. Events are due together with the last event of their file; a system
that falls behind finds more files waiting, and does not affect when the next ones appear.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from stretto.bench.nexmark.events import SCHEMAS, Kind, NexmarkConfig, event_time_us
from stretto.bench.nexmark.generator import generate
from stretto.runtime.connectors.watched import LAST_FILE

Int64s = npt.NDArray[np.int64]

BYTES_MAX = 3 << 30
"""Maximum size of the files of one run: a fast system reads this in a few seconds."""

INTERVAL_S = 0.05
"""Approximate interval between two files."""

_FILE_SIZES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
"""Events in a file: whole milliseconds of event time at the rates used here, so a file begins with a new time."""


def events_per_file(rate: float) -> int:
    """Returns the number of events per file, so that one appears about every interval."""
    return max((size for size in _FILE_SIZES if size <= rate * INTERVAL_S * 1.01), default=_FILE_SIZES[0])


@dataclass(frozen=True, slots=True)
class Rendered:
    """Files on disk: `files` of them for each kind, with `per_file` events of all kinds in each."""

    directory: Path
    config: NexmarkConfig
    kinds: tuple[str, ...]
    per_file: int
    files: int

    @property
    def events(self) -> int:
        return self.files * self.per_file

    @property
    def end_us(self) -> int:
        """The event time of the first event after these."""
        return event_time_us(self.config, self.events)

    def file_with(self, trigger_us: Int64s) -> Int64s:
        """Returns the number of the file with the first event at or after each of these event times."""
        since = np.maximum(trigger_us - self.config.base_time_us, 0)
        numbers = -(-since * self.config.event_rate // 1_000_000)
        found: Int64s = numbers // self.per_file
        return found


class Library:
    """Renders files on demand and keeps them for the other systems and rounds."""

    def __init__(self, directory: Path, columns: dict[str, tuple[str, ...]], on_render: Callable[[int], None]) -> None:
        self._directory = directory
        self._columns = columns
        self._on_render = on_render
        self._sets: dict[tuple[NexmarkConfig, int], int] = {}

    def rendered(self, config: NexmarkConfig, per_file: int, files: int) -> Rendered:
        """Write files until at least `files` are on disk; returns a set of exactly that many."""
        have = self._sets.get((config, per_file), 0)
        directory = self._directory / f"{config.event_rate}-{per_file}"
        if files > have:
            self._on_render((files - have) * per_file)
        for number in range(have, files):
            for kind, columns in self._columns.items():
                _write(config, kind, columns, number, per_file, directory / kind)
        if files > have:
            os.sync()  # so that no run shares its cores with the kernel writing these files back
        self._sets[config, per_file] = max(have, files)
        return Rendered(directory, config, tuple(self._columns), per_file, files)

    def events_max(self, config: NexmarkConfig, per_file: int) -> int:
        """Returns the maximum number of events of a run, so that its files stay in the page cache."""
        first = self.rendered(config, per_file, 1)
        size = sum((first.directory / kind / file_name(0)).stat().st_size for kind in first.kinds)
        return max(1, BYTES_MAX // max(1, size)) * per_file


def _write(
    config: NexmarkConfig, kind: str, columns: tuple[str, ...], number: int, per_file: int, directory: Path
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    batch = generate(config, kind, number * per_file, (number + 1) * per_file, columns)
    schema = pa.schema([SCHEMAS[Kind(kind)].field(name) for name in columns])
    pq.write_table(
        pa.Table.from_batches([batch], schema),
        directory / file_name(number),
        compression="none",
        use_dictionary=False,
        row_group_size=max(1, batch.num_rows),
    )


def file_name(number: int) -> str:
    return f"{number:06d}.parquet"


class Feed:
    """One run's directory, and the thread that makes files appear in it.

    With `laps` the files are linked repeatedly under new names, for queries that ignore event time."""

    def __init__(self, rendered: Rendered, directory: Path, rate: float | None, laps: int = 1) -> None:
        self.rendered = rendered
        self.directory = directory
        self.rate = rate
        self.files = rendered.files * laps
        self.interval_ns = 0 if rate is None else int(rendered.per_file / rate * 1e9)
        self.start_ns = 0
        self.lag_ns_max = 0
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        for kind in rendered.kinds:
            (directory / kind).mkdir(parents=True)

    @property
    def end_ns(self) -> int:
        """When the last file is due."""
        return self.start_ns + self.files * self.interval_ns

    def due_ns(self, files: Int64s) -> Int64s:
        """When each of these files was due."""
        due: Int64s = self.start_ns + (files + 1) * self.interval_ns
        return due

    def start(self) -> None:
        """Start the thread."""
        self.start_ns = time.time_ns()
        self._thread.start()

    def put_all(self) -> None:
        """Link all files at once, and write the mark that nothing follows."""
        self.start_ns = time.time_ns()
        for number in range(self.files):
            self._link(number)
        for kind in self.rendered.kinds:
            (self.directory / kind / LAST_FILE).touch()

    def remove(self) -> None:
        """Stop the thread and remove the directory."""
        self._cancelled.set()
        if self._thread.is_alive():
            self._thread.join()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self) -> None:
        for number in range(self.files):
            due_ns = self.start_ns + (number + 1) * self.interval_ns
            while (wait_ns := due_ns - time.time_ns()) > 0:
                if self._cancelled.wait(wait_ns / 1e9):
                    return
            self._link(number)
            self.lag_ns_max = max(self.lag_ns_max, time.time_ns() - due_ns)

    def _link(self, number: int) -> None:
        original = file_name(number % self.rendered.files)
        for kind in self.rendered.kinds:
            os.link(self.rendered.directory / kind / original, self.directory / kind / file_name(number))
