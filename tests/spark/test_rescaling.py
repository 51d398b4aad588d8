"""Resuming from savepoints and checkpoints on real Spark with other workers, another parallelism, or a changed app."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Function, ListState, MapState, ValueState, sinks, sources
from stretto.actors.context import Context
from stretto.bench.gates import Gate, GatedSource
from stretto.bench.savepoints import Leg, Trip, legs_of
from stretto.bench.savepoints import run as travel
from stretto.errors import StorageError, UserError
from stretto.operators.windows import Tumbling, tumbling
from stretto.runtime.cluster import Cluster
from stretto.runtime.storage import store_at

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 20_000
SCHEMA = "k long, n long"
# Unbounded, interval and window joins, panes, running aggregates with and without Python objects, sessions.
QUERIES = ("q3", "q4", "q5", "q6", "q8", "q11")


@pytest.mark.parametrize("legs", ["2x1,5x4,1x1", "2x4,1x3"])
def test_queries_resume_with_other_workers_and_partitions(spark: SparkSession, legs: str) -> None:
    for report in travel(spark, Trip(QUERIES, legs_of(legs), events=16_000)):
        assert report.match, f"{report.query}: {report.complaint}"
        assert all(report.rows_read), f"{report.query} was not in the middle: {report.rows_read}"


def test_legs_are_parsed() -> None:
    assert legs_of("2x1,5x4") == (Leg(2, 1), Leg(5, 4))
    for wrong in ("2", "2x", "0x1", "axb", "1x2x3"):
        with pytest.raises(UserError):
            legs_of(wrong)


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2, parked=1) as started:
        yield started


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """In front of the rows of all apps of a test; at first they are read to the middle."""
    return Gate(tmp_path / "gate", 0.5)


def paced(directory: Path, seconds: float = 4.0) -> sources.FileSource:
    """Returns the rows at a pace, so that on a fast machine they are still being read when a test interferes."""
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i % 50 for i in range(ROWS)], "v": list(range(ROWS)), "t": times})
    directory.mkdir(exist_ok=True)
    # Small row groups, so that each split of the source has rows of all times, for any number of splits.
    pq.write_table(table, directory / "rows.parquet", row_group_size=100)
    return sources.parquet(directory, time="t", speed=ROWS / 1_000 / seconds)


class Counts(Function):
    """A user's keyed state: the rows of each key, sent at the end."""

    seen: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for k in batch.column("k").to_pylist():
            self.seen[k] = self.seen.get(k, 0) + 1

    def on_end(self, ctx: Context) -> None:
        rows = [{"k": k, "n": n} for k, n in self.seen.items()]
        ctx.send(pa.RecordBatch.from_pylist(rows, pa.schema([("k", pa.int64()), ("n", pa.int64())])))


class OneValue(Counts):
    total: ValueState[int] = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.total.set(self.total.get() + batch.num_rows)


class OneList(Counts):
    rows: ListState[int] = ListState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.rows.append(batch.num_rows)


class Timed(Counts):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.set_timer(10**15, "later")


class Remembering(Counts):
    def remember(self) -> Any:
        return [1]


class ByOther(Counts):
    """Its map is not kept by the key that rows are partitioned by."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for v in batch.column("v").to_pylist():
            self.seen[v % 1000] = 1


def app_of(
    where: Path, parallelism: int, function: Function | None = None, window: Tumbling | None = None, **names: str
) -> App:
    """Returns an app with windows into Parquet files, and a user's function. Its rows are behind the test's gate."""
    app = App("rescaled", parallelism=parallelism)
    rows = app.source("rows", GatedSource(paced(where / "in"), where / "gate"), time="t")
    windows = rows.key_by("k").window(window or tumbling("100 ms"))
    windows.aggregate(n="count(*)", total="sum(v)", name=names.get("totals", "totals")).sink(
        sinks.parquet(where / "out"), name="out"
    )
    rows.key_by("k").apply(function or Counts(), SCHEMA, name="counts").sink(sinks.collect(), name="counted")
    return app


def submit(cluster: Cluster, where: Path, app: App, **more: Any) -> Any:
    return cluster.submit(app, engine="actors", checkpoint=where / "c", every="300 ms", **more)


def read_and_checkpointed(job: Any, eventually: Callable[..., object]) -> None:
    """Waits for a checkpoint that began when the sources had read something: the second one from then on."""
    eventually(lambda: job.metrics().rows_in > 0, what="rows")
    known = len(job.checkpoints.complete)
    eventually(lambda: len(job.checkpoints.complete) >= known + 2, what="two checkpoints")


def saved(cluster: Cluster, where: Path, app: App, eventually: Callable[..., object]) -> None:
    job = submit(cluster, where, app)
    read_and_checkpointed(job, eventually)
    job.stop(savepoint="half", timeout=WAIT_S)
    assert job.error is None


def assert_right(job: Any, where: Path) -> None:
    right: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(ROWS):
        n, total = right.get((i % 50, i // 100), (0, 0))
        right[i % 50, i // 100] = (n + 1, total + i)
    rows = pq.read_table(where / "out").to_pylist()
    found = {(r["k"], int(r["window_start"].timestamp() * 10 + 0.5)): (r["n"], r["total"]) for r in rows}
    assert len(found) == len(rows), "a row came twice"
    assert found == right
    assert sorted((r["k"], r["n"]) for r in job.results("counted").to_pylist()) == [(k, ROWS // 50) for k in range(50)]


def test_a_lost_worker_before_the_first_new_checkpoint_changes_nothing(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    saved(cluster, tmp_path, app_of(tmp_path, 3), eventually)
    for parallelism in (1, 4):  # The second run withdraws what the first one has published after the savepoint.
        gate.allow(0.75)
        job = cluster.submit(
            app_of(tmp_path, parallelism), engine="actors", checkpoint=tmp_path / "c", every=None, start="half"
        )
        eventually(lambda job=job: job.metrics().rows_in > 0, what="rows")
        victim = sorted(cluster.busy_workers & {member.name for member in cluster.workers})[0]
        os.kill(next(member.pid for member in cluster.workers if member.name == victim), signal.SIGKILL)
        eventually(lambda job=job: job.checkpoints.recoveries >= 1, what="a recovery")
        gate.open()
        job.wait(WAIT_S)
        assert_right(job, tmp_path)


def test_it_resumes_from_a_checkpoint_with_another_parallelism(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    for parallelism, share in ((1, 0.25), (4, 0.5), (2, 0.75)):
        gate.allow(share)
        job = submit(cluster, tmp_path, app_of(tmp_path, parallelism))
        read_and_checkpointed(job, eventually)
        job.stop(timeout=WAIT_S)
    gate.open()
    job = submit(cluster, tmp_path, app_of(tmp_path, 3)).wait(WAIT_S)
    assert job.metrics().rows_in < ROWS
    assert_right(job, tmp_path)


def test_a_changed_app_keeps_its_state(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    saved(cluster, tmp_path, app_of(tmp_path, 2), eventually)
    gate.open()
    changed = app_of(tmp_path, 3)
    more = changed.source("more", sources.memory([{"x": 1}, {"x": 2}]))
    more.filter("x > 1").sink(sinks.collect(), name="new")
    job = submit(cluster, tmp_path, changed, start="half").wait(WAIT_S)
    assert_right(job, tmp_path)
    assert job.results("new").to_pylist() == [{"x": 2}]


def test_dropping_state_is_refused_unless_requested(
    cluster: Cluster, tmp_path: Path, gate: Gate, eventually: Callable[..., object]
) -> None:
    saved(cluster, tmp_path, app_of(tmp_path, 2), eventually)
    gate.open()
    manifests = store_at(str(tmp_path / "c")).manifests()
    renamed = app_of(tmp_path, 2, totals="sums")
    with pytest.raises(StorageError) as refused:
        submit(cluster, tmp_path, renamed, start="half")
    assert "the savepoint 'half' does not fit app 'rescaled'" in str(refused.value)
    assert "function 'totals' is not in the app, and its state would be dropped: panes" in str(refused.value)
    with pytest.raises(StorageError, match=r"state 'panes' of function 'totals' was .*size_us=100000.*size_us=200000"):
        submit(cluster, tmp_path, app_of(tmp_path, 2, window=tumbling("200 ms")), start="half")
    assert store_at(str(tmp_path / "c")).manifests() == manifests
    job = submit(cluster, tmp_path, renamed, start="half", drop_state=True).wait(WAIT_S)
    assert job.error is None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (OneValue(), "state 'total' of function 'counts' cannot be divided among 4 partitions: it is one value"),
        (OneList(), "state 'rows' of function 'counts' cannot be divided among 4 partitions: it is one list"),
        (ByOther(), "state 'seen' of function 'counts' cannot be divided among 4 partitions: it is not kept by k"),
        (Timed(), "timers of function 'counts' are pending: nobody knows for which keys"),
        (Remembering(), "function 'counts' cannot resume with 4 partitions: what it remembers cannot be divided"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Function) else "",
)
@pytest.mark.usefixtures("gate")
def test_what_cannot_be_divided_is_refused(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., object], function: Function, message: str
) -> None:
    saved(cluster, tmp_path, app_of(tmp_path, 2, function), eventually)
    job = submit(cluster, tmp_path, app_of(tmp_path, 4, function), start="half")
    with pytest.raises(StorageError) as refused:
        job.wait(WAIT_S)
    assert message in str(refused.value)
    assert job.checkpoints.recoveries == 0
