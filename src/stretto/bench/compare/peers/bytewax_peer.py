"""NEXMark on Bytewax 0.21: Python operators on a Rust (Timely) runtime.

Notes for a fair comparison:

- Rows are Python tuples, and times in them integers: Bytewax moves Python objects. (An Arrow batch as one item would be
  faster, but then pyarrow would be the engine.) Bytewax writes nothing to disk without a recovery configuration.
- Each row goes through the window operator by itself, as in the library's own examples. Reducing batches of rows by
  hand in front of it is several times faster, but then the user has written the aggregation. Queries 5 and 7 have one
  result over all keys, so their windows are on one key.
- A window belongs to a key, and so does the watermark of `EventClock`, which also moves on with the system's clock:
  rows that come slower than real time are late and dropped, and with faster ones the last window of a key stays open.
  `StreamClock` uses the extension point that the library has for it: one event time for all keys of a step. Late rows,
  which should never occur, end the run.
- Event time needs rows in order, and workers do not wait for each other, so one worker reads everything, and puts rows
  of two kinds in order. More workers would have to be processes (threads share Python's lock), get each row through
  `pickle`, and would help the queries without event time only, at best twofold on twice the cores. We run one, and
  count one core.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import itemgetter
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import pyarrow.parquet as pq
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import run_main
from child import INPUT, ChildPeer, Files, Report, columns_of
from talk import serve

Row = tuple[Any, ...]

# Rows per batch of the source.
BATCH_ROWS = 8192

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
TEN_SECONDS = timedelta(seconds=10)
TUMBLING = win.TumblingWindower(length=TEN_SECONDS, align_to=EPOCH)
# A sleeping key is woken at least this often to see whether its window has closed.
LONGEST_SLEEP_S = 1.0
SHORTEST_SLEEP = timedelta(milliseconds=1)


def when(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


class Source(DynamicSource[Row]):
    """Reads all rows. If a query reads two kinds, they are ordered by time, and start with their time and kind."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition[Row]:
        assert worker_count == 1, "rows would come out of order"
        return _Reader(self._report)


class _Reader(StatelessSourcePartition[Row]):
    def __init__(self, report: Report) -> None:
        self._report = report
        self._columns = INPUT[report.task.query]
        self._files = Files(report.task, list(self._columns))
        self._batches: Iterator[list[Row]] = iter(())

    def next_batch(self) -> list[Row]:
        batch = next(self._batches, None)
        if batch is None:
            paths = self._files.next()
            self._report.ready()
            if paths is None:
                return []  # the library asks again after a millisecond
            self._batches = self._read(paths) if len(paths) == 1 else self._merged(paths)
            batch = next(self._batches, [])
        return batch

    def _read(self, paths: list[str]) -> Iterator[list[Row]]:
        (names,) = self._columns.values()
        for batch in pq.ParquetFile(paths[0], memory_map=True).iter_batches(
            BATCH_ROWS, columns=list(names), use_threads=False
        ):
            yield list(zip(*columns_of(batch, names), strict=True))

    def _merged(self, paths: list[str]) -> Iterator[list[Row]]:
        rows: list[Row] = []
        for (kind, names), path in zip(self._columns.items(), paths, strict=True):
            columns = columns_of(pq.read_table(path, columns=list(names), memory_map=True, use_threads=False), names)
            rows.extend(zip(columns[names.index("dateTime")], repeat(kind), *columns, strict=False))
        rows.sort(key=itemgetter(0))
        for start in range(0, len(rows), BATCH_ROWS):
            yield rows[start : start + BATCH_ROWS]


class Sink(DynamicSink[Row]):
    """Reports the rows, and discards them."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Row]:
        return _Writer(self._report)


class _Writer(StatelessSinkPartition[Row]):
    def __init__(self, report: Report) -> None:
        self._report = report

    def write_batch(self, items: list[Row]) -> None:
        self._report.out(items)


class StreamClock(win.Clock[Any, None]):
    """Event time of a step: the latest time of any row that it saw, for all keys. Rows arrive in order of time.

    All rows of a batch reach their keys before any key is woken. So the time that a woken key sees is a watermark: no
    earlier row will arrive.
    """

    def __init__(self, time_of: Callable[[Any], datetime]) -> None:
        self.time_of = time_of
        self.now: datetime = win.UTC_MIN
        # The system's and the stream's time: when the stream began, and when it last moved.
        self._began: tuple[datetime, datetime] | None = None
        self._moved = (EPOCH, win.UTC_MIN)

    def build(self, resume_state: None) -> _StreamClockLogic:
        return _StreamClockLogic(self)

    def system_time(self, time: datetime) -> datetime:
        """Returns when the stream will reach `time` at its rate so far. Called after each batch, and by woken keys."""
        now = datetime.now(UTC)
        if self._moved[1] != self.now:
            self._moved = (now, self.now)
            self._began = self._began or self._moved
        if time < self.now:
            return now
        began, first = self._began or self._moved
        pace = max((self.now - first) / (self._moved[0] - began + SHORTEST_SLEEP), 1e-3)
        arrives = self._moved[0] + timedelta(seconds=min((time - self.now).total_seconds() / pace, LONGEST_SLEEP_S))
        return max(arrives, now + SHORTEST_SLEEP)


class _StreamClockLogic(win.ClockLogic[Any, None]):
    def __init__(self, clock: StreamClock) -> None:
        self._clock = clock
        self._watermark: datetime = win.UTC_MIN

    def before_batch(self) -> None:
        pass

    def on_item(self, value: Any) -> tuple[datetime, datetime]:
        time = self._clock.time_of(value)
        if time > self._clock.now:
            self._clock.now = time
        return time, self._watermark

    def on_notify(self) -> datetime:
        self._watermark = self._clock.now
        return self._watermark

    def on_eof(self) -> datetime:
        latest: datetime = win.UTC_MAX
        return latest

    def to_system_utc(self, timestamp: datetime) -> datetime:
        return self._clock.system_time(timestamp)

    def snapshot(self) -> None:
        return None


def q1(bids: Stream[Row]) -> Stream[Row]:
    return op.flat_map_batch("euros", bids, lambda rows: [(a, b, 0.908 * p, t, e) for a, b, p, t, e in rows])


def q2(bids: Stream[Row]) -> Stream[Row]:
    return op.flat_map_batch("some_auctions", bids, lambda rows: [row for row in rows if row[0] % 123 == 0])


class Winning(StatefulBatchLogic[Row, Row, None]):
    """The winning price of one auction. Bids may arrive before their auction; afterwards only the best is kept."""

    __slots__ = ("_auction", "_early", "_price")

    def __init__(self) -> None:
        self._auction: Row | None = None
        self._early: list[Row] = []
        self._price = 0

    def on_batch(self, values: list[Row]) -> tuple[Iterable[Row], bool]:
        bids = self._early
        for row in values:
            if row[1] == "bid":
                bids.append(row)
            else:
                self._auction = row[2:]
        if self._auction is None:
            return (), False
        self._early = []
        _, category, reserve, opens, expires = self._auction
        good = [(price, time) for _, _, _, price, time in bids if opens <= time < expires and price >= reserve]
        if not good:
            return (), False
        self._price = max(self._price, *(price for price, _ in good))
        return ((category, self._price, max(time for _, time in good)),), False

    def snapshot(self) -> None:
        return None


class Average(StatefulBatchLogic[Row, Row, None]):
    """The average of a category's winning prices, and the time of the latest bid in it."""

    def __init__(self) -> None:
        self._prices: dict[str, int] = {}
        self._sum = 0
        self._latest = 0

    def on_batch(self, values: list[Row]) -> tuple[Iterable[Row], bool]:
        for _, auction, price, time in values:
            self._sum += price - self._prices.get(auction, 0)
            self._prices[auction] = price
            self._latest = max(self._latest, time)
        return ((values[0][0], self._sum / len(self._prices), self._latest),), False

    def snapshot(self) -> None:
        return None


def q4(rows: Stream[Row]) -> Stream[Row]:
    by_auction = op.map("by_auction", rows, lambda row: (str(row[2]), row))
    winning = op.stateful_batch("winning", by_auction, lambda _: Winning())
    by_category = op.map("by_category", winning, lambda item: (str(item[1][0]), (item[1][0], item[0], *item[1][1:])))
    return op.key_rm("rows", op.stateful_batch("average", by_category, lambda _: Average()))


def closed(windows: win.WindowOut[Any, Any]) -> Stream[Any]:
    """Returns the results of windows; a late row would make the answer wrong, so it is an error."""
    op.raises("late", windows.late)
    return windows.down


def count_bid(counts: Counter[int], bid: Row) -> Counter[int]:
    counts[bid[0]] += 1
    return counts


def q5(bids: Stream[Row]) -> Stream[Row]:
    def hottest(item: tuple[str, tuple[int, Counter[int]]]) -> list[Row]:
        _, (window, counts) = item
        most = max(counts.values())
        start = window * 2 * SECOND
        return [(start, start + 10 * SECOND, auction, num) for auction, num in counts.items() if num == most]

    clock = StreamClock(lambda bid: when(bid[1]))
    sliding = win.SlidingWindower(TEN_SECONDS, timedelta(seconds=2), EPOCH)
    on_all = op.key_on("on_all", bids, lambda bid: "all")
    windows = win.fold_window("windows", on_all, clock, sliding, Counter, count_bid, Counter.__add__, ordered=False)
    return op.flat_map("hottest", closed(windows), hottest)


def highest(best: list[Row], bid: Row) -> list[Row]:
    """Returns the bids of highest price, after one more bid."""
    if best and bid[2] < best[0][2]:
        return best
    return [*best, bid] if best and bid[2] == best[0][2] else [bid]


def q7(bids: Stream[Row]) -> Stream[Row]:
    def out(item: tuple[str, tuple[int, list[Row]]]) -> list[Row]:
        _, (window, best) = item
        start = window * 10 * SECOND
        return [(start, start + 10 * SECOND, *bid) for bid in best]

    clock = StreamClock(lambda bid: when(bid[3]))
    on_all = op.key_on("on_all", bids, lambda bid: "all")
    windows = win.fold_window("windows", on_all, clock, TUMBLING, list, highest, list.__add__, ordered=False)
    return op.flat_map("rows", closed(windows), out)


def q8(rows: Stream[Row]) -> Stream[Row]:
    kinds = op.branch("kinds", rows, lambda row: row[1] == "person")
    persons = op.map("by_person", kinds.trues, lambda row: (str(row[2]), row))
    auctions = op.map("by_seller", kinds.falses, lambda row: (str(row[2]), row))

    def out(item: tuple[str, tuple[int, tuple[Row | None, Row | None]]]) -> Row | None:
        _, (window, (person, auction)) = item
        if person is None or auction is None:
            return None
        return (person[2], person[3], window * 10 * SECOND, (window + 1) * 10 * SECOND)

    clock = StreamClock(lambda side_and_row: when(side_and_row[1][0]))
    joined = win.join_window("joined", clock, TUMBLING, persons, auctions, ordered=False)
    return op.filter_map("rows", closed(joined), out)


def q11(bids: Stream[Row]) -> Stream[Row]:
    def add(session: Row, bid: Row) -> Row:
        return (session[0] or bid[1], bid[1], session[2] + 1)

    def merge(one: Row, other: Row) -> Row:
        return (min(one[0], other[0]), max(one[1], other[1]), one[2] + other[2])

    def out(item: tuple[str, tuple[int, Row]]) -> Row:
        bidder, (_, (first, last, num)) = item
        return (int(bidder), first, last + 10 * SECOND, num)

    clock = StreamClock(lambda bid: when(bid[1]))
    sessions = win.SessionWindower(TEN_SECONDS)
    by_bidder = op.key_on("by_bidder", bids, lambda bid: str(bid[0]))
    windows = win.fold_window("windows", by_bidder, clock, sessions, lambda: (0, 0, 0), add, merge, ordered=False)
    return op.map("rows", closed(windows), out)


def q12(bids: Stream[Row]) -> Stream[Row]:
    def out(item: tuple[str, tuple[int, int]]) -> Row:
        bidder, (window, num) = item
        start = window * 10 * SECOND
        return (int(bidder), start, start + 10 * SECOND, num)

    windows = win.count_window("windows", bids, win.SystemClock(), TUMBLING, lambda bid: str(bid[0]))
    return op.map("rows", closed(windows), out)


QUERIES = {"q1": q1, "q2": q2, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q11": q11, "q12": q12}


def run_child() -> None:
    gc.disable()  # rows form no cycles, and searching for cycles costs a quarter of the time
    report = Report()
    flow = Dataflow(report.task.query)
    op.output("out", QUERIES[report.task.query](op.input("in", flow, Source(report))), Sink(report))
    run_main(flow)
    report.end()


class BytewaxPeer(ChildPeer):
    version = "0.21.1"
    cores = 1  # one worker must read everything in order, and a worker is a thread that holds Python's lock
    script = __file__
    queries = QUERIES


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child()
    else:
        serve(BytewaxPeer())
