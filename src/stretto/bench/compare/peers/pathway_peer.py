"""NEXMark on Pathway 0.33: tables described in Python, computed incrementally by a Rust engine.

Notes for a fair comparison:

- Pathway has no connector that reads Parquet files as they appear, so a Python connector does, which is how its users
  read other formats. Thousands of rows are one message, and `flatten` splits them inside the engine: that takes about
  two thirds of the time of one message per row. Times are integers, which its windows accept.
- Windows are grouped as rows arrive, and `buffer` holds back a window's result until a row of a later one arrives, so
  that each is emitted once. The documented `exactly_once_behavior` holds back every row of a window instead; queries 5
  and 7 took three to ten times as long with it.
- Query 5 counts in panes of two seconds, of which five make a window.
- Query 7 joins a window's highest price with its bids, which it then drops. (It is twice as fast without dropping.)
- Query 11 is a stateful reducer. Pathway's own session windows take fifty times as long, and longer with each commit.
- Query 12 takes the wall clock when rows enter the connector; a window closes when a row of a later one comes.
- There are as many threads as cores; the connector, and the reducer of query 11, hold Python's lock.
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

# Maximum number of rows in one message to the engine.
BATCH_ROWS = 10_000
# Maximum number of messages that wait for the engine.
BACKLOG = 20
# Interval between commits to the engine.
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
    """Returns the rows of one kind. (`id` is reserved: a column of that name gets the name of its kind.)"""
    names = INPUT[report.task.query][kind]
    types = tuple(str if name in ("name", "extra") else int for name in names)
    low_latency = report.task.low_latency
    messages = pw.io.python.read(
        Reader(report, kind),
        schema=pw.schema_from_types(rows=list[tuple[types]], arrived=int),  # type: ignore[valid-type]
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
    # The last pane of a window begins 8 s after the window, and all its rows arrive at once.
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
    """Returns the rows with their tumbling window."""
    start = time_of // TEN_SECONDS * TEN_SECONDS
    return table.with_columns(window_start=start, window_end=start + TEN_SECONDS)


def q7(report: Report) -> pw.Table:
    bids = tumbling(events(report, "bid"), pw.this.dateTime)
    highest = (
        bids.groupby(bids.window_start)
        .reduce(bids.window_start, price=pw.reducers.max(bids.price))
        .buffer(pw.this.window_start, TEN_SECONDS)
    )
    # When the first bid of the next window arrives, those of this one are still needed.
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


def sessions(state: tuple[tuple[int, int, int], ...] | None, rows: list[tuple[list[int], int]]) -> tuple[Any, ...]:
    """Returns the sessions of one bidder (first bid, last bid, number of bids), after the bids of one commit."""
    *closed, (first, last, num) = state or ((0, -TEN_SECONDS, 0),)
    for (bid,), count in sorted(rows):
        if bid - last > TEN_SECONDS:
            if num:
                closed.append((first, last, num))
            first, num = bid, 0
        last = bid
        num += count
    return (*closed, (first, last, num))


def q11(report: Report) -> pw.Table:
    bids = events(report, "bid")
    session_of = pw.reducers.stateful_many(sessions)
    found = bids.groupby(bids.bidder).reduce(bids.bidder, session=session_of(bids.dateTime))
    flat = found.update_types(session=list[tuple[int, int, int]]).flatten(pw.this.session)
    rows = flat.select(
        pw.this.bidder,
        window_start=pw.this.session[0],
        window_end=pw.this.session[1] + TEN_SECONDS,
        bids=pw.this.session[2],
    )
    # The latest end is ten seconds after the latest bid. A bid at the exact end of a session still continues it.
    return rows.buffer(pw.this.window_end, TEN_SECONDS + 1)


def q12(report: Report) -> pw.Table:
    bids = tumbling(events(report, "bid"), pw.this.arrived)
    return (
        bids.groupby(bids.bidder, bids.window_start, bids.window_end)
        .reduce(bids.bidder, bids.window_start, bids.window_end, bids=pw.reducers.count())
        .buffer(pw.this.window_start, TEN_SECONDS)
    )


QUERIES = {"q1": q1, "q2": q2, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q11": q11, "q12": q12}


class Results:
    """Receives rows from the engine; each of its threads calls it."""

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
            raise RuntimeError(f"a result was retracted: {row}")

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
    logging.disable(logging.WARNING)  # it logs every message
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
    version = "0.33.0"
    script = __file__
    queries = QUERIES

    def environment(self, task: Task) -> dict[str, str]:
        return {"PATHWAY_THREADS": str(task.parallelism)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child()
    else:
        serve(PathwayPeer())
