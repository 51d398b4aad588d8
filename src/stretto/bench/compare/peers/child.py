"""Runs a query in a child process, for systems that run as a library in the calling process until their input ends.

The parent (the script that talks to the bench) starts a new process for each `prepare`, reads a few numbers in a shared
file for `progress`, and kills the process for `finish`. The child writes its output to files continuously, so that
killing it loses nothing. Both environments that use this module have pyarrow.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from talk import Peer, Task, Unsupported

START_TIMEOUT_S = 900

INPUT: dict[str, dict[str, tuple[str, ...]]] = {
    "q1": {"bid": ("auction", "bidder", "price", "dateTime", "extra")},
    "q2": {"bid": ("auction", "price", "dateTime")},
    "q4": {"auction": ("id", "category", "reserve", "dateTime", "expires"), "bid": ("auction", "price", "dateTime")},
    "q5": {"bid": ("auction", "dateTime")},
    "q7": {"bid": ("auction", "bidder", "price", "dateTime")},
    "q8": {"person": ("id", "name", "dateTime"), "auction": ("seller", "dateTime")},
    "q11": {"bid": ("bidder", "dateTime")},
    "q12": {"bid": ("bidder", "dateTime")},
}
"""The columns that a query reads of each kind of event."""

OUTPUT: dict[str, tuple[str, ...]] = {
    "q1": ("auction", "bidder", "price", "dateTime", "extra"),
    "q2": ("auction", "price", "dateTime"),
    "q4": ("category", "avg_price", "trigger"),
    "q5": ("window_start", "window_end", "auction", "num"),
    "q7": ("window_start", "window_end", "auction", "bidder", "price", "dateTime"),
    "q8": ("id", "name", "window_start", "window_end"),
    "q11": ("bidder", "window_start", "window_end", "bids"),
    "q12": ("bidder", "window_start", "window_end", "bids"),
}
"""The fields of an output row. Times are microseconds since 1970."""

TRIGGER = {"q1": "dateTime", "q2": "dateTime", "q4": "trigger"}
"""The field with the event time that an output row waited for, if not `window_end`."""

NOT_IN_ANSWER = {"q2": "dateTime", "q4": "trigger"}
TIMES = ("dateTime", "window_start", "window_end")

OUT, ANSWER = "out", "answer.parquet"
# Indexes in the shared file.
_STATE, _ROWS, _TRIGGER = 0, 1, 2
_STARTING, _READY, _ENDED = 0, 1, 2


def columns_of(batch: pa.RecordBatch | pa.Table, names: Sequence[str]) -> list[list[Any]]:
    """Returns columns as lists of Python values, with times as integers. (Fast from pyarrow 25 on.)"""
    columns = (batch.column(name) for name in names)
    return [(c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c).to_pylist() for c in columns]


class Files:
    """The files of some kinds of events, in order of their numbers."""

    def __init__(self, task: Task, kinds: Sequence[str]) -> None:
        self._directories = [Path(task.directory) / kind for kind in kinds]
        self._ends = task.mode == "check"
        self._next: int | None = None

    def next(self) -> list[str] | None:
        """Returns the next file of each kind, or None if there is none yet; raises StopIteration after the last."""
        if self._next is None:
            numbers = [int(path.stem) for path in self._directories[0].glob("[0-9]*.parquet")]
            self._next = min(numbers, default=None)
        if self._next is not None:
            paths = [f"{directory}/{self._next:06d}.parquet" for directory in self._directories]
            if all(map(os.path.exists, paths)):
                self._next += 1
                return paths
        if self._ends:
            raise StopIteration
        return None


class Report:
    """The child's side: records the output and its times."""

    def __init__(self) -> None:
        order = json.loads(sys.argv[2])
        self.task = Task(**order["task"])
        self._check = self.task.mode == "check"
        self._fields = OUTPUT[self.task.query]
        self._trigger = self._fields.index(TRIGGER.get(self.task.query, "window_end"))
        self._step = self.task.sample_ms * 1000 if self.task.query in ("q1", "q2") else 1
        self._bids = self.task.query == "q12"
        self._scratch = Path(order["scratch"])
        self._shared = _shared(self._scratch)
        self._kept: list[tuple[Any, ...]] = []
        self._file = os.open(self._scratch / OUT, os.O_WRONLY | os.O_CREAT)
        threading.Thread(target=_die_with_parent, daemon=True).start()

    def ready(self) -> None:
        """Report that the query runs and waits for files."""
        self._shared[_STATE] = _READY

    def out(self, rows: Sequence[tuple[Any, ...]], received_ns: Iterable[int] | None = None) -> None:
        """Report rows that the query emitted, now or at the given times."""
        if not rows:
            return
        times = received_ns or repeat(time.time_ns())
        trigger, step = self._trigger, self._step
        if self._check:
            self._kept.extend(rows)
            latest = rows[-1][trigger]
        else:
            stamps = [(row[trigger], at, row[-1]) for row, at in zip(rows, times) if row[trigger] % step == 0]  # noqa: B905
            latest = max(rows[-1][trigger], max(stamps)[0] if stamps else 0)
            width = 3 if self._bids else 2
            os.write(self._file, array("q", (value for stamp in stamps for value in stamp[:width])).tobytes())
        self._shared[_ROWS] += len(rows)
        self._shared[_TRIGGER] = max(self._shared[_TRIGGER], latest)

    def end(self) -> None:
        """Report that the input has ended and everything was emitted."""
        if self._check:
            pq.write_table(self._answer(), self._scratch / ANSWER)
        self._shared[_STATE] = _ENDED

    def _answer(self) -> pa.Table:
        rows = self._kept
        if self.task.query == "q4":  # updates: the last one of each category is the answer
            rows = list({row[0]: row for row in rows}.values())
        columns = zip(*rows, strict=True) if rows else [()] * len(self._fields)
        table = pa.table(dict(zip(self._fields, map(list, columns), strict=True)))
        for index, name in enumerate(self._fields):
            if name in TIMES:
                times = table.column(name).cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
                table = table.set_column(index, name, times)
        extra = NOT_IN_ANSWER.get(self.task.query)
        return table.drop_columns(extra) if extra else table


class Child:
    """The parent's side: the running query."""

    def __init__(self, script: str, task: Task, env: Mapping[str, str]) -> None:
        self._task = task
        self._scratch = Path(tempfile.mkdtemp(prefix="peer-"))
        self._shared = _shared(self._scratch)
        order = json.dumps({"task": asdict(task), "scratch": str(self._scratch)})
        self._process = subprocess.Popen(
            [sys.executable, script, "--child", order], stdin=subprocess.PIPE, env={**os.environ, **env}
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._shared[_STATE] == _STARTING:
            self._raise_if_dead()
            if time.monotonic() > deadline:
                raise TimeoutError("the query did not start")
            time.sleep(0.005)

    def _raise_if_dead(self) -> None:
        if self._process.poll() is not None and self._shared[_STATE] != _ENDED:
            raise RuntimeError(f"the query's process ended with {self._process.returncode}")

    def progress(self) -> dict[str, Any]:
        self._raise_if_dead()
        return {
            "rows": self._shared[_ROWS],
            "trigger_us": self._shared[_TRIGGER] or None,
            "ended": self._shared[_STATE] == _ENDED,
        }

    def finish(self) -> dict[str, Any]:
        """Stop, and write the output."""
        try:
            if self._task.mode != "check":
                self._stop()
                table = self._stamps()
            elif self.progress()["ended"]:
                table = pq.read_table(self._scratch / ANSWER)
            else:
                raise RuntimeError("finish was requested before the query ended")
            pq.write_table(table, self._task.output)
            return {"rows": table.num_rows}
        finally:
            self.kill()

    def _stamps(self) -> pa.Table:
        names = ["trigger_us", "received_ns", *(["bids"] if self._task.query == "q12" else [])]
        data = (self._scratch / OUT).read_bytes()
        width = len(names)
        values = array("q", data[: len(data) // (8 * width) * (8 * width)])  # the last write may be incomplete
        return pa.table({name: pa.array(values[index::width], pa.int64()) for index, name in enumerate(names)})

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def kill(self) -> None:
        """End the process and remove its files."""
        self._stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


class ChildPeer(Peer):
    """A system whose script runs one query in its process if called with `--child`."""

    script = ""
    queries: Collection[str] = ()

    def __init__(self) -> None:
        self._child: Child | None = None

    def environment(self, task: Task) -> dict[str, str]:
        """Returns additional environment variables for the child's process."""
        return {}

    def prepare(self, task: Task) -> None:
        self.close()
        if task.query not in self.queries:
            raise Unsupported(f"{task.query} is not written for this system")
        self._child = Child(self.script, task, self.environment(task))

    def progress(self) -> dict[str, Any]:
        return self._running().progress()

    def finish(self) -> dict[str, Any]:
        child, self._child = self._running(), None
        return child.finish()

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("no query runs")
        return self._child


def _shared(scratch: Path) -> memoryview:
    """Returns three numbers in memory that parent and child share."""
    path = scratch / "shared"
    if not path.exists():
        path.write_bytes(bytes(24))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 24)).cast("q")


def _die_with_parent() -> None:
    """Exit when stdin ends: the parent holds the other end and never writes, so it ends when the parent is gone."""
    os.read(0, 1)
    os._exit(1)
