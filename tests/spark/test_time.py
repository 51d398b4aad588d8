"""Time on real Spark: wall clocks that are set back while a job runs, and event times far from all others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, Context, Function, StrettoError, sinks, sources, tumbling

ROWS = 60_000
"""A minute of rows; the job is stopped long before."""
BACK_NS = 600 * 10**9

wall_ns = time.time_ns


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as started:
        yield started


# Clocks.


class SetBack(Function):
    """Passes rows on, and sets the wall clock of its process back once the file `flag` exists."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        if self.flag.exists():
            time.time_ns = lambda: wall_ns() - BACK_NS
        ctx.send(batch)

    def close(self) -> None:
        time.time_ns = wall_ns  # Spark uses the process again.


def test_checkpoints_and_results_go_on_when_clocks_are_set_back(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    (tmp_path / "in").mkdir()
    for part in range(2):
        pq.write_table(pa.table({"t": times}).take(list(range(part, ROWS, 2))), tmp_path / "in" / f"{part}.parquet")
    flag = tmp_path / "set-back"
    app = App("set-back", engine="actors")
    rows = app.source("rows", sources.parquet(tmp_path / "in", time="t", speed=1), time="t")
    same = rows.apply(SetBack(flag), rows.schema, parallelism=2)
    same.window(tumbling("100 ms")).aggregate(n="count(*)").sink(sinks.collect(), name="out")
    job = cluster.submit(app, checkpoint=tmp_path / "checkpoints", every="100 ms")
    eventually(lambda: len(job.checkpoints.complete) >= 2 and job.updates("out").num_rows, what="a beginning")
    flag.touch()
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() - BACK_NS)
    before = len(job.checkpoints.complete)
    eventually(lambda: len(job.checkpoints.complete) >= before + 3, what="further checkpoints")
    sent = job.updates("out").num_rows
    eventually(lambda: job.updates("out").num_rows > sent, what="further results")
    job.stop(drain=True)
    assert sum(job.results("out").column("n").to_pylist()) == job.metrics().rows_in
    assert job.checkpoints.recoveries == 0


# Event times.

FAR_US = 290_000 * 365 * 86_400_000_000


def ticks(times_us: list[int]) -> pa.Table:
    return pa.table({"k": [i % 3 for i in range(len(times_us))], "t": pa.array(times_us, pa.timestamp("us", "UTC"))})


def counted(table: pa.Table) -> App:
    app = App("far", engine="actors", batch_rows=10)
    rows = app.source("rows", sources.memory(table), time="t", delay="1 s", parallelism=1)
    counts = rows.key_by("k").window(tumbling("2 s")).aggregate(n="count(*)", name="counts")
    counts.sink(sinks.collect(), name="out")
    return app


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    names = ("k", "window_start", "window_end", "n")
    return sorted(zip(*(table.column(name).cast(pa.int64()).to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("place", [0, 1, 60, 100])
def test_one_event_far_in_the_future_makes_no_row_late(spark: SparkSession, cluster: Cluster, place: int) -> None:
    times = [i * 200_000 for i in range(100)]
    app = counted(ticks([*times[:place], FAR_US, *times[place:]]))
    job = cluster.submit(app).wait(WAIT_S)
    assert "late_rows" not in job.metrics().functions["counts"].counts
    assert rows_of(job.results("out")) == rows_of(app.to_spark(spark).toArrow())
    if place < 100:
        assert job.metrics().functions["rows"].counts == {"kept_out_rows": 1}
        assert [str(FAR_US) in warning.fact for warning in job.warnings] == [True]


@pytest.mark.parametrize("time_us", [-(2**63), 2**63 - 1])
def test_an_event_time_at_the_ends_of_int64_is_named(cluster: Cluster, time_us: int) -> None:
    job = cluster.submit(counted(ticks([0, 1, time_us, 2])))
    with pytest.raises(StrettoError, match=f"source 'rows': an event time is out of range.*position 2 is {time_us} us"):
        job.wait(WAIT_S)
