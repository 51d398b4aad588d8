"""Rescaling a running job on real Spark: every row once, whatever the parallelism was while it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Function, MapState, ValueState, sinks, sources
from stretto.actors.context import Context
from stretto.actors.sink import Sink
from stretto.bench.gates import Gate
from stretto.errors import ClusterError, UserError
from stretto.operators.windows import tumbling
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 6_000
KEYS = 50
ROWS_PER_WINDOW = 1_000
COUNTS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=3, elasticity="off") as started:
        yield started


class Numbered(Function):
    """Numbers the rows of each key: a row that is lost, repeated or meets the state of another shows."""

    seen: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        rows = []
        for k in batch.column("k").to_pylist():
            self.seen[k] = self.seen.get(k, 0) + 1
            rows.append({"k": k, "n": self.seen[k]})
        ctx.send(pa.RecordBatch.from_pylist(rows, COUNTS))


class OneValue(Numbered):
    """Has a state that no key owns."""

    total: ValueState[int] = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.total.set(self.total.get() + batch.num_rows)


def app_of(where: Path, gate: Gate, function: Function, sums: Sink | None = None) -> App:
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i % KEYS for i in range(ROWS)], "v": list(range(ROWS)), "t": times})
    (where / "rows").mkdir(exist_ok=True)
    pq.write_table(table, where / "rows" / "rows.parquet", row_group_size=100)
    app = App("handed", parallelism=1)
    rows = app.source("rows", gate.before(sources.parquet(where / "rows", time="t")), time="t")
    rows.key_by("k").apply(function, "k long, n long", name="Numbers").sink(sinks.collect(), name="numbers")
    windows = rows.key_by("k").window(tumbling("1 s"))
    windows.aggregate(total="sum(v)", name="Sums").sink(sums or sinks.collect(), name="sums")
    return app


def has_rows(job: Job, share: float) -> bool:
    """Whether the rows that a gate has allowed are at the sink."""
    return bool(job.updates("numbers").num_rows >= share * ROWS)


def assert_right(job: Job) -> None:
    numbers = sorted((row["k"], row["n"]) for row in job.results("numbers").to_pylist())
    assert numbers == [(k, n + 1) for k in range(KEYS) for n in range(ROWS // KEYS)]
    assert_sums(job.results("sums").to_pylist())


def assert_sums(rows: list[dict[str, Any]]) -> None:
    right: dict[tuple[int, int], int] = {}
    for i in range(ROWS):
        right[i % KEYS, i // ROWS_PER_WINDOW] = right.get((i % KEYS, i // ROWS_PER_WINDOW), 0) + i
    assert {(row["k"], int(row["window_start"].timestamp())): row["total"] for row in rows} == right
    assert len(rows) == len(right), "a row came twice"


@pytest.mark.parametrize("durable", [False, True])
def test_a_running_query_is_rescaled(
    cluster: Cluster, tmp_path: Path, durable: bool, eventually: Callable[..., object]
) -> None:
    gate = Gate(tmp_path / "gate", 0.3)
    app = app_of(tmp_path, gate, Numbered())
    options = {"checkpoint": tmp_path / "c", "every": "300 ms"} if durable else {}
    job = cluster.submit(app, engine="actors", **options)
    eventually(lambda: has_rows(job, 0.3), what="the first rows")
    record = job.rescale({"Numbers": 3, "Sums": 3})
    assert record.spent is not None
    assert len(cluster.observation.jobs[job.name].placement["Numbers"]) == 3
    gate.allow(0.6)
    eventually(lambda: has_rows(job, 0.6), what="rows of three partitions")
    job.rescale("Numbers", parallelism=2)
    gate.open()
    job.wait(WAIT_S)
    assert_right(job)
    assert not job.checkpoints.recoveries


def test_files_of_other_writers_are_published_once(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    app = app_of(tmp_path, gate, Numbered(), sinks.parquet(tmp_path / "out"))
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "c", every="300 ms")
    eventually(lambda: has_rows(job, 0.5), what="rows")
    job.rescale({"Sums": 3, "Numbers": 2})
    assert len(cluster.observation.jobs[job.name].placement["sums"]) == 3, "the sink follows who feeds it"
    known = len(job.checkpoints.complete)
    eventually(lambda: len(job.checkpoints.complete) > known, what="a checkpoint of the new attempt")
    job.rescale("Sums", parallelism=1)
    gate.open()
    job.wait(WAIT_S)
    assert_sums(pq.read_table(tmp_path / "out").to_pylist())
    assert not job.checkpoints.recoveries


def test_what_cannot_be_rescaled_goes_on_as_it_was(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    gate = Gate(tmp_path / "gate", 0.3)
    app = app_of(tmp_path, gate, OneValue())
    job = cluster.submit(app, engine="actors")
    eventually(lambda: job.metrics().rows_in > 0, what="the first rows")
    with pytest.raises(ClusterError, match="has no function 'Other', but"):
        job.rescale("Other", parallelism=2)
    with pytest.raises(ClusterError, match="state 'total' of function 'Numbers' cannot be divided"):
        job.rescale("Numbers", parallelism=2)
    with pytest.raises(ClusterError, match="one"):
        job.rescale("numbers", parallelism=2)
    with pytest.raises(UserError, match="needs a number of partitions"):
        job.rescale("Numbers")
    gate.open()
    job.wait(WAIT_S)
    assert job.results("sums").num_rows == KEYS * ROWS // ROWS_PER_WINDOW
