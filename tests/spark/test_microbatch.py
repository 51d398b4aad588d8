"""Plans as Structured Streaming queries: their results equal the batch twin's, and failures name what failed."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.memory import CollectSink, CollectWriter, MemorySource
from stretto.api.plan import SinkNode
from stretto.coordinator.records import JobStatus
from stretto.errors import EngineError, FunctionError, SourceError
from stretto.operators.windows import hopping, session, span, tumbling
from stretto.runtime.microbatch import MicrobatchQuery
from stretto.runtime.relational import to_dataframes
from stretto.runtime.spark_sources import batch_frame
from stretto.runtime.triggers import measure_trigger_s

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 160
SCHEMA = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("auction", pa.int64()), ("price", pa.int64())])


def table(rows: int = ROWS) -> pa.Table:
    """Returns bids 0.3 seconds apart, each four of them in reverse order."""
    numbers = [i // 4 * 4 + 3 - i % 4 for i in range(rows)]
    columns = [[1_000_000 + i * 300_000 for i in numbers], [i * i % 7 for i in numbers], [i * 37 % 11 for i in numbers]]
    return pa.table([pa.array(c, pa.int64()).cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def bids(app: App, name: str = "bids") -> Any:
    return app.source(name, MemorySource(table()), time="t", delay="900 ms")


def query(app: App, spark: SparkSession, tmp_path: Path, rows_per_trigger: int = 100) -> MicrobatchQuery:
    return MicrobatchQuery(
        app.name, app.plan(), spark, parallelism=2, rows_per_trigger=rows_per_trigger, directory=str(tmp_path)
    )


def finished(app: App, spark: SparkSession, tmp_path: Path) -> MicrobatchQuery:
    made = query(app, spark, tmp_path)
    made.start()
    assert made.wait(WAIT_S), f"still {made.status}"
    assert made.error is None, str(made.error)
    assert made.status is JobStatus.FINISHED
    assert list(tmp_path.iterdir()) == [], "temporary files are left"
    return made


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    columns = [pc.cast(c, pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.columns]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def answer(made: MicrobatchQuery, sink: SinkNode) -> list[tuple[Any, ...]]:
    writer = made.writers[sink.name]
    assert isinstance(writer, CollectWriter)
    found = writer.table()
    return rows_of(final_rows(found, sink))


def twin(app: App, spark: SparkSession, sink: SinkNode) -> list[tuple[Any, ...]]:
    plan = app.plan()
    frames = {node.name: batch_frame(spark, node) for node in plan.sources}
    return rows_of(to_dataframes(plan, spark, frames, streaming=False)[sink.name].toArrow())


def test_one_source_to_many_sinks(spark: SparkSession, tmp_path: Path) -> None:
    """A filter, q5's hopping count with its top, sessions, and a running aggregate."""
    app = App("many")
    stream = bids(app)
    stream.filter("price > 4").select("auction", "price * 2 AS twice").sink(CollectSink(), name="filtered")
    keyed = stream.filter("price > 1").key_by("auction")
    counts = keyed.window(hopping("10 s", "2 s")).aggregate(n="count(*)")
    counts.top(1, "n").sink(CollectSink(), name="top")
    keyed.window(session("700 ms")).aggregate("count(*) AS n", "count(distinct price) AS d").sink(
        CollectSink(), name="sessions"
    )
    keyed.aggregate(total="sum(price)").sink(CollectSink(), name="running")
    made = finished(app, spark, tmp_path)
    for sink in app.plan().sinks:
        expected = twin(app, spark, sink)
        assert expected
        assert answer(made, sink) == expected, sink.name
    metrics = made.metrics()
    assert metrics.rows_in == ROWS
    assert metrics.rows_out >= sum(len(answer(made, sink)) for sink in app.plan().sinks)
    assert metrics.latency_ms["p50"] is not None
    assert all(len(durations) >= 2 for durations in made.trigger_ms.values())
    assert spark.conf.get("spark.sql.streaming.stateStore.providerClass", "").find("RocksDB") < 0


def test_joins_and_windows_over_windows(spark: SparkSession, tmp_path: Path) -> None:
    app = App("joins")
    left, right = bids(app, "left").filter("price < 6"), bids(app, "right").filter("price >= 6")
    left.join(right, "auction").sink(CollectSink(), name="unbounded")
    near = left.interval_join(right, "auction", lower="t", upper="t + INTERVAL 5 SECONDS")
    spans = near.select("auction", "t_right", "t AS opened", "t + INTERVAL 5 SECONDS AS closed", "price_right")
    spans.key_by("auction").window(span("opened", "closed")).aggregate(best="max(price_right)").sink(
        CollectSink(), name="spans"
    )
    one = left.key_by("auction").window(tumbling("5 s")).aggregate(n="count(*)")
    other = right.key_by("auction").window(tumbling("5 s")).aggregate()
    one.window_join(other, "auction").sink(CollectSink(), name="windowed")
    one.window(tumbling("20 s")).aggregate(most="max(n)", windows="count(*)").sink(CollectSink(), name="chained")
    made = finished(app, spark, tmp_path)
    for sink in app.plan().sinks:
        expected = twin(app, spark, sink)
        assert expected
        assert answer(made, sink) == expected, sink.name
    assert sum(row[-1] for row in answer(made, app.plan().nodes["chained"])) == len(rows_of_sink(app, spark, one.name))


def test_joins_that_are_not_inner(spark: SparkSession, tmp_path: Path) -> None:
    app = App("outer")
    left = bids(app, "left").filter("price < 6")
    right = bids(app, "right").filter("price >= 6 AND auction <> 2")
    interval = {"lower": "t - INTERVAL 1 SECOND", "upper": "t + INTERVAL 2 SECONDS"}
    for how in ("left", "right", "full", "semi"):
        near = left.interval_join(right, "auction", where="left.price + 2 <> right.price", how=how, **interval)
        near.sink(CollectSink(), name=f"{how} near")
    left.window_join(right, "auction", tumbling("2 s"), how="full").sink(CollectSink(), name="windows")
    one, other = (side.key_by("auction").window(tumbling("5 s")).aggregate(n="count(*)") for side in (left, right))
    one.window_join(other, "auction", how="left").sink(CollectSink(), name="of windows")
    made = finished(app, spark, tmp_path)
    plan = app.plan()
    twins = to_dataframes(plan, spark, {node.name: batch_frame(spark, node) for node in plan.sources}, streaming=False)
    for sink in plan.sinks:
        writer = made.writers[sink.name]
        assert isinstance(writer, CollectWriter)
        expected, found = (Counter(map(str, t.to_pylist())) for t in (twins[sink.name].toArrow(), writer.table()))
        assert expected
        assert found == expected, sink.name


def rows_of_sink(app: App, spark: SparkSession, stream: str) -> list[tuple[Any, ...]]:
    """Returns the batch rows of any stream, through an added sink."""
    app.stream(stream).sink(CollectSink(), name="looked-at")
    sink = app.plan().nodes["looked-at"]
    assert isinstance(sink, SinkNode)
    return twin(app, spark, sink)


def test_python_functions_keep_event_time(spark: SparkSession, tmp_path: Path) -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(2, "price", pc.multiply(batch.column("price"), 2))

    app = App("python")
    keyed = bids(app).map(doubled, SCHEMA).key_by("auction")
    keyed.window(tumbling("10 s")).aggregate(total="sum(price)").sink(CollectSink(), name="out")
    made = finished(app, spark, tmp_path)
    (sink,) = app.plan().sinks
    assert answer(made, sink) == twin(app, spark, sink)


def test_all_sinks_see_the_same_ingestion_times(spark: SparkSession, tmp_path: Path) -> None:
    app = App("stamped")
    stream = app.source("bids", MemorySource(table()), time="read_at", stamp="read_at")
    stream.select("read_at").sink(CollectSink(), name="rows")
    stream.window(tumbling("1 ms")).aggregate(n="count(*)").sink(CollectSink(), name="counts")
    made = finished(app, spark, tmp_path)
    rows, counts = (answer(made, sink) for sink in app.plan().sinks)
    assert [(start, n) for start, _, n in counts] == sorted(Counter(at // 1000 * 1000 for (at,) in rows).items())
    assert len(rows) == ROWS
    assert len(counts) == 2


def test_static_dataframes_are_streamed(spark: SparkSession, tmp_path: Path) -> None:
    from stretto.runtime.connectors.dataframe import DataFrameSource

    app = App("static")
    stream = app.source("bids", DataFrameSource(spark.createDataFrame(table())), time="t")
    stream.filter("price > 1").key_by("auction").window(tumbling("10 s")).aggregate(n="count(*)").sink(
        CollectSink(), name="out"
    )
    made = finished(app, spark, tmp_path)
    (sink,) = app.plan().sinks
    expected = twin(app, spark, sink)
    assert expected
    assert answer(made, sink) == expected


class Endless(Source):
    """An endless source: one row per position, 100 per read."""

    schema = SCHEMA

    def reader(self, partition: int, partitions: int) -> SourceReader:
        return EndlessReader()


class EndlessReader(SourceReader):
    def read(self, now_ns: int, max_rows: int) -> Reading:
        rows = min(max_rows, 100)
        numbers = range(self.position, self.position + rows)
        times = pa.array([1_000_000 + i * 10_000 for i in numbers], pa.int64()).cast(SCHEMA.field(0).type)
        ones = pa.array([1] * rows, pa.int64())
        self.position += rows
        return Reading(pa.RecordBatch.from_arrays([times, ones, ones], schema=SCHEMA), now_ns)

    def seek(self, position: int) -> None:
        self.position = position


def test_an_endless_query_can_be_drained_or_stopped(spark: SparkSession, tmp_path: Path) -> None:
    def running() -> MicrobatchQuery:
        app = App("endless")
        app.source("rows", Endless(), time="t").window(tumbling("1 s")).aggregate(n="count(*)").sink(
            CollectSink(), name="out"
        )
        made = query(app, spark, tmp_path, rows_per_trigger=1000)
        made.start()
        while not made.metrics().rows_in:
            assert not made.wait(0.1), made.error
        return made

    drained = running()
    drained.stop(drain=True)
    assert drained.wait(WAIT_S)
    assert drained.status is JobStatus.FINISHED
    writer = drained.writers["out"]
    assert isinstance(writer, CollectWriter)
    assert pc.sum(writer.table()["n"]).as_py() == drained.metrics().rows_in > 0

    stopped = running()
    stopped.stop()
    assert stopped.wait(WAIT_S)
    assert stopped.status is JobStatus.STOPPED
    assert list(tmp_path.iterdir()) == []


def failure(app: App, spark: SparkSession, tmp_path: Path) -> Exception:
    made = query(app, spark, tmp_path)
    made.start()
    assert made.wait(WAIT_S)
    assert made.status is JobStatus.FAILED
    assert made.error is not None
    assert list(tmp_path.iterdir()) == []
    return made.error


def test_failures_name_what_failed(spark: SparkSession, tmp_path: Path) -> None:
    def fragile(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no luck with this one")

    app = App("broken")
    bids(app).map(fragile, SCHEMA).sink(CollectSink())
    error = failure(app, spark, tmp_path)
    assert isinstance(error, FunctionError)
    assert "fragile" in str(error)
    assert 'raise ValueError("no luck with this one")' in str(error)
    assert "org.apache" not in str(error)

    app = App("torn")
    app.source("bids", MemorySource([*table().to_batches(), MemorySource.Fail("the wire was cut")])).sink(CollectSink())
    error = failure(app, spark, tmp_path)
    assert isinstance(error, SourceError)
    assert "the wire was cut" in str(error)


def test_what_micro_batches_cannot_express_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    app = App("two-modes")
    counts = bids(app).key_by("auction").window(tumbling("10 s")).aggregate(n="count(*)")
    counts.key_by("auction").aggregate(most="max(n)", name="running").sink(CollectSink())
    with pytest.raises(EngineError, match="running aggregate 'running' comes after"):
        query(app, spark, tmp_path).start()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def slow_planner(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Makes the first Python process that plans a source fail to connect to Spark, as on a machine that is too slow.
    The directory `started` in the one returned shows that there was one."""
    directory = tmp_path_factory.mktemp("planner")
    python = directory / "python"
    started = shlex.quote(str(directory / "started"))
    python.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *python_streaming_source_runner*) mkdir {started} 2>/dev/null && exit 1;; esac\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o700)
    context = spark.sparkContext
    former, context.pythonExec = context.pythonExec, str(python)
    yield directory
    context.pythonExec = former


def test_a_query_whose_planner_was_too_slow_for_spark_starts_again(
    spark: SparkSession, tmp_path: Path, slow_planner: Path
) -> None:
    """Spark gives up a planner after ten seconds. The pure twin is tests/unit/runtime/test_query_watch.py."""
    app = App("slow")
    bids(app).sink(CollectSink(), name="out")
    made = finished(app, spark, tmp_path)
    assert (slow_planner / "started").exists()
    sink = app.plan().nodes["out"]
    assert isinstance(sink, SinkNode)
    assert answer(made, sink) == rows_of(table())


def test_the_trigger_time_is_measured_once(spark: SparkSession) -> None:
    first = measure_trigger_s(spark)
    assert first > 0
    assert measure_trigger_s(spark) == first
