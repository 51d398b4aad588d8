"""One run of one system: feed it, watch it, stop it, and read its output."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stretto.bench.compare.feed import Feed, Library, Rendered, events_per_file
from stretto.bench.compare.measure import Figures, Outputs, by_arrival, drained, paced
from stretto.bench.compare.peers.talk import Task
from stretto.bench.compare.queries import PROCESSING_TIME_WINDOW_S, Compared
from stretto.bench.compare.systems import System, SystemFailed
from stretto.bench.nexmark.events import EVENTS_PER_EPOCH, PER_EPOCH, Kind, NexmarkConfig

BID_SHARE = PER_EPOCH[Kind.BID] / EVENTS_PER_EPOCH

POLL_S = 0.2
IDLE_S = 1.5
"""After the last event, a run ends when there was no output for this long ..."""
GRACE_S = 5.0
"""... and at the latest after this long. Output that is missing by then only shows that the system was behind."""
START_S = 20.0
"""A system without any output has this long, because it may still be starting."""
DRAIN_TIMEOUT_S = 180.0
BY_ARRIVAL_GUESS = 2_000_000.0
"""Windows of arrival time emit nothing before the clock passes them, so draining a backlog measures no rate. The search
begins so high that a slow system is overloaded: the throughput it then reaches is close to what it sustains."""
SAMPLE_MS = 200
"""For queries that emit every event, the rows of one millisecond in this many are timed."""

EVENTS_MIN = 600_000
"""Minimum number of events: a minute of event time at 10,000 events per second, so that windows close."""
SECONDS_MAX = 40.0


@dataclass(frozen=True, slots=True)
class Length:
    """The length of paced runs: longer if windows have to close first."""

    seconds: float
    seconds_by_arrival: float = 26.0

    def events(self, rate: float, event_rate: int, query: Compared) -> int:
        if query.by_arrival:
            return math.ceil(rate * self.seconds_by_arrival)
        least = 0 if query.by_row else min(EVENTS_MIN * event_rate / 10_000, rate * SECONDS_MAX)
        return math.ceil(max(rate * self.seconds, least))


class Trials:
    """Runs a query on systems, one at a time."""

    def __init__(self, name: str, query: Compared, library: Library, scratch: Path, cores: int) -> None:
        self.name = name
        self.query = query
        self._library = library
        self._scratch = scratch
        self._cores = cores
        self._count = 0

    def check(self, system: System, rendered: Rendered) -> pa.Table:
        """Returns the whole answer over events that are all present."""
        with self._fed(rendered, None) as feed:
            feed.put_all()
            task = self._task(feed, "check", sample_ms=1)
            system.prepare(task)
            _wait_until_ended(system)
            return _output(system, task)

    def drain(self, system: System, config: NexmarkConfig, events: int) -> float:
        """Returns roughly how many events per second it processes from a backlog: the start of the search."""
        per_file = events_per_file(events / 10)
        rendered = self._library.rendered(config, per_file, max(1, events // per_file))
        with self._fed(rendered, None) as feed:
            task = self._task(feed, "paced", SAMPLE_MS)
            system.prepare(task)
            feed.put_all()
            _wait_while_moving(system, DRAIN_TIMEOUT_S)
            table = _output(system, task)
        received_s = (table.column("received_ns").to_numpy() - feed.start_ns) / 1e9
        if self.query.by_arrival:
            return BY_ARRIVAL_GUESS
        numbers = (rendered.file_with(table.column("trigger_us").to_numpy()) + 1) * per_file
        return drained(np.minimum(numbers, rendered.events), received_s)

    def paced(self, system: System, config: NexmarkConfig, rate: float, length: Length, low_latency: bool) -> Figures:
        """Run at a rate, and return figures that include whether it was sustained."""
        per_file = events_per_file(rate)
        events = length.events(rate, config.event_rate, self.query)
        most = self._library.events_max(config, per_file)
        # Windows of arrival time need long runs; event time is ignored, so the same files can be used again.
        laps = math.ceil(events / most) if self.query.by_arrival else 1
        files = max(1, round(min(events / laps, most) / per_file))
        rendered = self._library.rendered(config, per_file, files)
        with self._fed(rendered, rate, laps) as feed:
            # At a low rate there are few enough rows to time all of them.
            task = self._task(feed, "paced", 1 if low_latency else SAMPLE_MS, low_latency)
            system.prepare(task)
            feed.start()
            _wait_for_the_end(system, feed)
            table = _output(system, task)
        return self._judged(feed, table, rate)

    def _judged(self, feed: Feed, table: pa.Table, rate: float) -> Figures:
        seconds = (feed.end_ns - feed.start_ns) / 1e9
        trigger_us, received_ns = (table.column(name).to_numpy() for name in ("trigger_us", "received_ns"))
        if self.query.by_arrival:
            return self._judged_by_arrival(feed, table, rate)
        # Outputs that wait for events after the last one are emitted only at the end of the input.
        within = trigger_us <= feed.rendered.end_us - 1
        due_ns = feed.due_ns(feed.rendered.file_with(trigger_us[within]))
        outputs = Outputs((due_ns - feed.start_ns) / 1e9, (received_ns[within] - feed.start_ns) / 1e9)
        return paced(outputs, rate, seconds)

    def _judged_by_arrival(self, feed: Feed, table: pa.Table, rate: float) -> Figures:
        ends_us, received_ns = table.column("trigger_us").to_numpy(), table.column("received_ns").to_numpy()
        run = (feed.start_ns / 1e9, feed.end_ns / 1e9)
        found = by_arrival(
            ends_us // 1_000_000, table.column("bids").to_numpy(), rate * BID_SHARE, PROCESSING_TIME_WINDOW_S, run
        )
        latencies_ms = (received_ns - ends_us * 1000) / 1e6
        return Figures(rate, found.sustained, found.events_per_s / BID_SHARE, latencies_ms)

    def _task(self, feed: Feed, mode: str, sample_ms: int, low_latency: bool = False) -> Task:
        output = str(feed.directory / "output.parquet")
        return Task(self.name, str(feed.directory), output, mode, self._cores, sample_ms, low_latency)

    @contextmanager
    def _fed(self, rendered: Rendered, rate: float | None, laps: int = 1) -> Iterator[Feed]:
        self._count += 1
        directory = self._scratch / f"run-{self._count}"
        shutil.rmtree(directory, ignore_errors=True)
        feed = Feed(rendered, directory, rate, laps)
        try:
            yield feed
        finally:
            feed.remove()


def _output(system: System, task: Task) -> pa.Table:
    rows = system.finish()
    if not Path(task.output).exists():
        raise SystemFailed(f"{system.name} wrote no output", f"it reported {rows} rows")
    return pq.read_table(task.output)


def _wait_until_ended(system: System) -> None:
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while not system.progress()["ended"]:
        if time.monotonic() > deadline:
            raise SystemFailed(f"{system.name} did not end", f"within {DRAIN_TIMEOUT_S:g} s")
        time.sleep(POLL_S)


def _wait_while_moving(system: System, timeout_s: float) -> None:
    """Wait until everything has been read and there was no output for a while."""
    deadline = time.monotonic() + timeout_s
    rows, moved = 0, time.monotonic()
    while time.monotonic() < deadline:
        progress = system.progress()
        if progress["ended"]:
            return
        if progress["rows"] != rows:
            rows, moved = progress["rows"], time.monotonic()
        # Before the first row it may still be starting up.
        if time.monotonic() - moved > (IDLE_S * 2 if rows else timeout_s / 4):
            return
        time.sleep(POLL_S)


def _wait_for_the_end(system: System, feed: Feed) -> None:
    rows, moved_ns = 0, 0
    while True:
        progress = system.progress()
        now_ns = time.time_ns()
        if progress["rows"] != rows:
            rows, moved_ns = progress["rows"], now_ns
        over_ns, idle_ns = now_ns - feed.end_ns, now_ns - max(moved_ns, feed.end_ns)
        # Before the first row it may still be starting up.
        if over_ns > (GRACE_S if rows else START_S) * 1e9 or (rows and idle_ns > IDLE_S * 1e9):
            return
        time.sleep(POLL_S)
