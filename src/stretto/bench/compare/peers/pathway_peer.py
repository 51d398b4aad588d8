"""NEXMark on Pathway 0.33: tables described in Python, computed incrementally by a Rust engine.

What a fair reader should know:

- Pathway has no connector that reads Parquet files as they appear, so a Python connector does, which is how its users
  bring in what it does not know. Rows go in by the thousands as one message and are taken apart by `flatten` inside the
  engine, which takes less than half of the time that a message for each row does.
- Times are integers, which Pathway's windows accept.
- Windows are grouped as rows come, and `buffer` keeps a window's result back until a row of a later window has come, so
  each comes out once. The documented `exactly_once_behavior` keeps back all rows of a window instead, and takes three to
  nine times as long.
- Query 5 counts in panes of two seconds, of which five make a window. Query 11 puts the bids of a bidder into panes
  shorter than the gap (they are of one session in any case) before it looks for sessions: Pathway finds sessions by
  sorting all rows, and took twenty times as long on single bids.
- Query 7 forgets bids after their window. The other groups keep what they have counted, a row for each group.
- Query 12 stamps rows with the wall clock as they enter the connector.
- The number of threads is that of cores; Python code (the connector) holds Python's lock.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from typing import Any

import pathway as pw
import pyarrow.parquet as pq
from child import INPUT, OUTPUT, ChildPeer, Files, Report, columns_of
from talk import Task, serve

# Rows in one message to the engine, at most.
BATCH_ROWS = 10_000
# Messages that wait for the engine, at most.
BACKLOG = 100
# How often the engine is given what was read.
COMMIT_MS = 100
COMMIT_MS_LOW_LATENCY = 10
POLL_S = 0.001

SECOND = 1_000_000
TEN_SECONDS = 10 * SECOND


class Reader(pw.io.python.ConnectorSubject):
    """Reads the files of one kind of event as they appear."""

    def __init__(self, report: Report, kind: str) -> None:
        super().__init__()
        self._report = report
        self._names = INPUT[report.task.query][kind]
        self._files = Files(report.task, [kind])

    def run(self) -> None:
        while True:
            try:
                paths = self._files.next()
            except StopIteration:
                return
            self._report.ready()
            if paths is None:
                time.sleep(POLL_S)
                continue
            file = pq.ParquetFile(paths[0], memory_map=True)
            for batch in file.iter_batches(BATCH_ROWS, columns=list(self._names), use_threads=False):
                rows = list(zip(*columns_of(batch, self._names), strict=True))
                self.next(rows=rows, arrived=time.time_ns() // 1000)
            if self._report.task.low_latency:
                self.commit()


def events(report: Report, kind: str) -> pw.Table:
    """The rows of one kind. (`id` is taken: a column of that name is called after its kind.)"""
    names = INPUT[report.task.query][kind]
    types = tuple(str if name in ("name", "extra") else int for name in names)
    low_latency = report.task.low_latency
    messages = pw.io.python.read(
        Reader(report, kind),
        schema=pw.schema_from_types(rows=list[tuple[types]], arrived=int),
        autocommit_duration_ms=COMMIT_MS_LOW_LATENCY if low_latency else COMMIT_MS,
        max_backlog_size=BACKLOG,
    )
    flat = messages.flatten(pw.this.rows)
    columns = {kind if name == "id" else name: pw.this.rows[index] for index, name in enumerate(names)}
    return flat.select(pw.this.arrived, **columns)


def q1(report: Report) -> pw.Table:
    return events(report, "bid").with_columns(price=0.908 * pw.this.price)


def q2(report: Report) -> pw.Table:
    return events(report, "bid").filter(pw.this.auction % 123 == 0)


def q4(report: Report) -> pw.Table:
    auctions, bids = events(report, "auction"), events(report, "bid")
    good = (
        auctions.join(bids, auctions.auction == bids.auction)
        .select(
            auctions.auction,
            auctions.category,
            bids.price,
            bids.dateTime,
            good=(bids.dateTime >= auctions.dateTime)
            & (bids.dateTime < auctions.expires)
            & (bids.price >= auctions.reserve),
        )
        .filter(pw.this.good)
    )
    winning = good.groupby(good.auction, good.category).reduce(
        good.category, price=pw.reducers.max(good.price), latest=pw.reducers.max(good.dateTime)
    )
    return winning.groupby(winning.category).reduce(
        winning.category, avg_price=pw.reducers.avg(winning.price), trigger=pw.reducers.max(winning.latest)
    )


def q5(report: Report) -> pw.Table:
    bids = events(report, "bid").with_columns(pane=pw.this.dateTime // (2 * SECOND) * (2 * SECOND))
    panes = (
        bids.groupby(bids.pane, bids.auction)
        .reduce(bids.pane, bids.auction, num=pw.reducers.count())
        .buffer(pw.this.pane, 2 * SECOND)
    )
    # The last pane of a window begins 8 s after it, and all its rows come at once.
    counts = (
        panes.windowby(panes.pane, window=pw.temporal.sliding(2 * SECOND, TEN_SECONDS), instance=panes.auction)
        .reduce(
            window_start=pw.this._pw_window_start,
            window_end=pw.this._pw_window_end,
            auction=pw.this._pw_instance,
            num=pw.reducers.sum(pw.this.num),
        )
        .buffer(pw.this.window_start, 8 * SECOND)
    )
    most = counts.groupby(counts.window_end).reduce(counts.window_end, num=pw.reducers.max(counts.num))
    return counts.join(most, counts.window_end == most.window_end, counts.num == most.num).select(*pw.left)


def tumbling(table: pw.Table, time_of: pw.ColumnExpression) -> pw.Table:
    """With the tumbling window that each row is in."""
    start = time_of // TEN_SECONDS * TEN_SECONDS
    return table.with_columns(window_start=start, window_end=start + TEN_SECONDS)


def q7(report: Report) -> pw.Table:
    bids = tumbling(events(report, "bid"), pw.this.dateTime)
    highest = (
        bids.groupby(bids.window_start)
        .reduce(bids.window_start, price=pw.reducers.max(bids.price))
        .buffer(pw.this.window_start, TEN_SECONDS)
    )
    # When the first bid of the next window comes, those of this one are still needed.
    recent = bids.forget(pw.this.window_start, 2 * TEN_SECONDS, mark_forgetting_records=True)
    joined = highest.join(recent, highest.window_start == recent.window_start, highest.price == recent.price)
    return joined.select(*pw.right).filter_out_results_of_forgetting()


def q8(report: Report) -> pw.Table:
    persons = tumbling(events(report, "person"), pw.this.dateTime)
    registered = (
        persons.groupby(persons.window_start, persons.window_end, persons.person)
        .reduce(persons.person, persons.window_start, persons.window_end, name=pw.reducers.any(persons.name))
        .buffer(pw.this.window_start, TEN_SECONDS)
    )
    auctions = tumbling(events(report, "auction"), pw.this.dateTime)
    sellers = (
        auctions.groupby(auctions.window_start, auctions.seller)
        .reduce(auctions.window_start, auctions.seller)
        .buffer(pw.this.window_start, TEN_SECONDS)
    )
    return registered.join(
        sellers, registered.person == sellers.seller, registered.window_start == sellers.window_start
    ).select(*pw.left)


def q11(report: Report) -> pw.Table:
    # A longer pane takes less time; sessions come out when a later pane does.
    pane = SECOND // 10 if report.task.low_latency else SECOND
    bids = events(report, "bid").with_columns(pane=pw.this.dateTime // pane * pane)
    panes = (
        bids.groupby(bids.pane, bids.bidder)
        .reduce(
            bids.pane,
            bids.bidder,
            first=pw.reducers.min(bids.dateTime),
            last=pw.reducers.max(bids.dateTime),
            bids=pw.reducers.count(),
        )
        .buffer(pw.this.pane, pane)
        .with_columns(span=pw.make_tuple(pw.this.first, pw.this.last))
    )
    touching = pw.temporal.session(predicate=lambda one, other: other[0] - one[1] <= TEN_SECONDS)
    sessions = panes.windowby(panes.span, window=touching, instance=panes.bidder).reduce(
        bidder=pw.this._pw_instance,
        window_start=pw.reducers.min(pw.this.first),
        window_end=pw.reducers.max(pw.this.last) + TEN_SECONDS,
        bids=pw.reducers.sum(pw.this.bids),
    )
    # The latest end of all is ten seconds after the latest bid. A bid at the very end of a session still continues it.
    return sessions.buffer(pw.this.window_end, TEN_SECONDS + 1)


def q12(report: Report) -> pw.Table:
    bids = tumbling(events(report, "bid"), pw.this.arrived)
    return (
        bids.groupby(bids.bidder, bids.window_start, bids.window_end)
        .reduce(bids.bidder, bids.window_start, bids.window_end, bids=pw.reducers.count())
        .buffer(pw.this.window_start, TEN_SECONDS)
    )


QUERIES = {"q1": q1, "q2": q2, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q11": q11, "q12": q12}


class Results:
    """Takes rows from the engine, each of whose threads calls it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._names = ["person" if name == "id" else name for name in OUTPUT[report.task.query]]
        self._updates = report.task.query == "q4"
        self._rows: deque[tuple[tuple[Any, ...], int]] = deque()
        self._lock = threading.Lock()

    def on_change(self, key: pw.Pointer, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            self._rows.append((tuple([row[name] for name in self._names]), now_ns()))
        elif not self._updates:
            raise RuntimeError(f"a result was taken back: {row}")

    def on_time_end(self, time: int) -> None:
        self.flush()

    def flush(self) -> None:
        with self._lock:
            ready = [self._rows.popleft() for _ in range(len(self._rows))]
            if ready:
                rows, times = zip(*ready, strict=True)
                self._report.out(rows, times)


now_ns = time.time_ns


def run_child() -> None:
    logging.disable(logging.WARNING)  # it tells of every message
    report = Report()
    task = report.task
    table = QUERIES[task.query](report)
    if task.query in ("q1", "q2") and task.sample_ms > 1:
        pw.io.null.write(table)
        table = table.filter(pw.this.dateTime % (task.sample_ms * 1000) == 0)
    results = Results(report)
    pw.io.subscribe(table, results.on_change, on_time_end=results.on_time_end)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    results.flush()
    report.end()


class PathwayPeer(ChildPeer):
    version = "pathway 0.33.0"
    script = __file__
    queries = QUERIES

    def environment(self, task: Task) -> dict[str, str]:
        return {"PATHWAY_THREADS": str(task.parallelism)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child()
    else:
        serve(PathwayPeer())
