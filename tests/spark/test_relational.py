"""Plans as batch DataFrames: results equal those of plain Python, and what Spark cannot express is refused by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.api.app import App
from stretto.api.memory import CollectSink, MemorySource
from stretto.api.relational import unsupported
from stretto.errors import EngineError, FunctionError
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import hopping, session, tumbling
from stretto.runtime.relational import python_error, to_dataframes
from stretto.runtime.session import timezone_of
from stretto.runtime.spark_sources import batch_frame

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

SECOND = 1_000_000
BIDS = [(i * 700_000, i * i % 5, i * 37 % 11 * 10) for i in range(1, 61)]
SCHEMA = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("auction", pa.int64()), ("price", pa.int64())])


SPARK_SETTINGS = {"spark.sql.session.timeZone": "America/New_York"}


def bids() -> MemorySource:
    columns = [
        pa.array(values, pa.int64()).cast(field.type)
        for values, field in zip(zip(*BIDS, strict=True), SCHEMA, strict=True)
    ]
    return MemorySource(pa.table(columns, schema=SCHEMA), batch_rows=7)


def answer(app: App, spark: SparkSession) -> list[tuple[Any, ...]]:
    """Returns the rows of the only sink, with times in microseconds, sorted."""
    plan = app.plan(timezone_of(spark))
    frames = {node.name: batch_frame(spark, node) for node in plan.sources}
    (frame,) = to_dataframes(plan, spark, frames, streaming=False).values()
    table = frame.toArrow()
    columns = [pc.cast(c, pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def windows_of(time_us: int, size_s: int, slide_s: int) -> list[int]:
    """Returns the starts of the windows that contain a time."""
    last = time_us // (slide_s * SECOND) * slide_s * SECOND
    return [
        start for start in range(last, last - size_s * SECOND, -slide_s * SECOND) if start + size_s * SECOND > time_us
    ]


class Stringly(MemorySource):
    """A source whose schema is not that of its batches."""

    def __init__(self) -> None:
        super().__init__([{"n": "1"}], "n string")
        self.schema = pa.schema([("n", pa.int64())])


def test_a_source_that_reads_another_schema_is_refused(spark: SparkSession) -> None:
    app = App("stringly")
    app.source("in", Stringly(), parallelism=1).sink(CollectSink(), name="out")
    with pytest.raises(Exception, match="source 'in' read the wrong schema") as caught:
        answer(app, spark)
    assert isinstance(python_error(caught.value), FunctionError)


def test_select_and_filter_are_in_the_zone_of_the_session(spark: SparkSession) -> None:
    app = App("a")
    stream = app.source("bids", bids()).filter("price > 50").select("price * 2 AS twice", "hour(t) AS hour")
    stream.sink(CollectSink())
    assert answer(app, spark) == sorted((price * 2, 19) for _, _, price in BIDS if price > 50)
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"


def test_hopping_count_and_top_with_ties(spark: SparkSession) -> None:
    app = App("a")
    counts = (
        app.source("bids", bids(), time="t").key_by("auction").window(hopping("10 s", "2 s")).aggregate(n="count(*)")
    )
    counts.top(1, "n").sink(CollectSink())
    expected: dict[int, Counter[int]] = defaultdict(Counter)
    for t, auction, _ in BIDS:
        for start in windows_of(t, 10, 2):
            expected[start][auction] += 1
    rows = [
        (auction, start, start + 10 * SECOND, n)
        for start, found in expected.items()
        for auction, n in found.items()
        if n == max(found.values())
    ]
    assert answer(app, spark) == sorted(rows)
    assert len({row[1] for row in rows}) < len(rows), "the test has no tie"


def test_a_window_over_windows_takes_them_by_their_last_microsecond(spark: SparkSession) -> None:
    app = App("a")
    counts = app.source("bids", bids(), time="t").window(tumbling("5 s")).aggregate(n="count(*)")
    counts.window(tumbling("20 s")).aggregate(total="sum(n)").sink(CollectSink())
    totals = Counter(t // (20 * SECOND) * 20 * SECOND for t, _, _ in BIDS)
    assert answer(app, spark) == sorted((start, start + 20 * SECOND, n) for start, n in totals.items())


def test_top_k_of_rows_breaks_ties_by_the_other_columns(spark: SparkSession) -> None:
    app = App("a")
    app.source("bids", bids(), time="t").window(tumbling("10 s")).top(2, "price", ties=False).sink(CollectSink())
    expected: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for t, auction, price in BIDS:
        expected[t // (10 * SECOND) * 10 * SECOND].append((price, t, auction))
    rows = [
        (t, auction, price, start, start + 10 * SECOND)
        for start, found in expected.items()
        for price, t, auction in sorted(found, reverse=True)[:2]
    ]
    assert answer(app, spark) == sorted(rows)


def test_top_k_in_the_direction_that_its_text_names(spark: SparkSession) -> None:
    app = App("a")
    app.source("bids", bids(), time="t").window(tumbling("10 s")).top(1, "price ASC", ties=False).sink(CollectSink())
    least: dict[int, tuple[int, ...]] = {}
    for t, auction, price in BIDS:
        start = t // (10 * SECOND) * 10 * SECOND
        least[start] = min(least.get(start, (price, t, auction)), (price, t, auction))
    rows = [(t, auction, price, start, start + 10 * SECOND) for start, (price, t, auction) in least.items()]
    assert answer(app, spark) == sorted(rows)


def test_session_windows_and_every_aggregate(spark: SparkSession) -> None:
    spread = UserAggregate(
        init=list,
        add=lambda acc, rows: acc + rows.column("price").to_pylist(),
        combine=lambda a, b: a + b,
        finish=lambda acc: max(acc) - min(acc),
        type=pa.int64(),
        columns=("price",),
        name="spread",
    )
    app = App("a")
    keyed = app.source("bids", bids(), time="t").key_by("auction").window(session("2 s"))
    keyed.aggregate("count(distinct price) AS d", "top_k(price, 2) AS best", spread).sink(CollectSink())
    rows = []
    for auction in {row[1] for row in BIDS}:
        found: list[list[tuple[int, int, int]]] = []
        for bid in (row for row in BIDS if row[1] == auction):
            if found and bid[0] < found[-1][-1][0] + 2 * SECOND:
                found[-1].append(bid)
            else:
                found.append([bid])
        for group in found:
            prices = [row[2] for row in group]
            best = sorted(prices, reverse=True)[:2]
            bounds = (group[0][0], group[-1][0] + 2 * SECOND)
            rows.append((auction, *bounds, len(set(prices)), best, max(prices) - min(prices)))
    assert answer(app, spark) == sorted(rows)


def test_joins_by_key_by_window_and_by_interval(spark: SparkSession) -> None:
    def joined(how: str) -> list[tuple[Any, ...]]:
        app = App("a")
        left = app.source("left", bids(), time="t").filter("price < 40")
        right = app.source("right", bids(), time="t").filter("price >= 40")
        if how == "key":
            pairs = left.join(right, "auction")
        elif how == "window":
            pairs = left.window_join(right, "auction", tumbling("4 s"))
        else:
            pairs = left.interval_join(
                right, "auction", lower="t", upper="t + INTERVAL 3 SECONDS", upper_inclusive=False
            )
        pairs.select("t", "t_right", "auction", "price", "price_right").sink(CollectSink())
        return answer(app, spark)

    pairs = [(a[0], b[0], a[1], a[2], b[2]) for a in BIDS for b in BIDS if a[1] == b[1] and a[2] < 40 <= b[2]]
    assert joined("key") == sorted(pairs)
    assert joined("window") == sorted(p for p in pairs if p[0] // (4 * SECOND) == p[1] // (4 * SECOND))
    assert joined("interval") == sorted(p for p in pairs if p[0] <= p[1] < p[0] + 3 * SECOND)


def test_python_functions_and_running_aggregates(spark: SparkSession) -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.equals(SCHEMA)
        return batch.set_column(2, "price", pc.multiply(batch.column("price"), 2))

    app = App("a")
    app.source("bids", bids()).map(doubled).key_by("auction").aggregate(total="sum(price)").sink(CollectSink())
    totals: Counter[int] = Counter()
    for _, auction, price in BIDS:
        totals[auction] += 2 * price
    assert answer(app, spark) == sorted(totals.items())


def test_a_function_that_raises_is_named(spark: SparkSession) -> None:
    def fragile(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no luck with this one")

    app = App("a")
    app.source("bids", bids()).map(fragile, SCHEMA).sink(CollectSink())
    with pytest.raises(Exception, match="no luck") as raised:
        answer(app, spark)
    error = python_error(raised.value)
    assert isinstance(error, FunctionError)
    assert "fragile" in str(error)
    assert 'raise ValueError("no luck with this one")' in str(error)
    assert "'price'" in str(error), "a sample of the batch"
    assert "org.apache" not in str(error)


class Echo(Function):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def test_what_spark_cannot_express_is_refused_by_name(spark: SparkSession) -> None:
    app = App("custom")
    app.source("bids", bids()).apply(Echo(), SCHEMA, name="echo").sink(CollectSink())
    with pytest.raises(EngineError, match="'echo' is a user's Function"):
        answer(app, spark)

    app = App("two-modes")
    counts = app.source("bids", bids(), time="t").key_by("auction").window(tumbling("10 s")).aggregate(n="count(*)")
    counts.key_by("auction").aggregate(most="max(n)", name="running").sink(CollectSink())
    assert unsupported(app.plan(), streaming=False) is None
    reason = unsupported(app.plan(), streaming=True)
    assert reason is not None
    assert "running aggregate 'running' comes after 'bids.window'" in reason

    app = App("sessions")
    app.source("bids", bids(), time="t").window(session("2 s")).aggregate(n="count(*)").sink(CollectSink())
    assert "session windows without a key" in str(unsupported(app.plan(), streaming=True))
