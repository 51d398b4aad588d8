"""Functions whose state is larger than their memory, on real Spark: a worker is killed, and the result equals Spark
SQL's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import max_by, struct
from tests.waiting import WAIT_S

import stretto
from stretto import App, Context, Function, MapState, sinks, sources
from stretto.bench.gates import Gate
from stretto.errors import StrettoError
from stretto.runtime.cluster import Cluster

ROWS = 40_000
KEYS = 4_001


class Gathering(Function):
    """The values of each key so far, as lists that change in place; sends their count and sum."""

    values: MapState[int, list[int]] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        found = []
        for k, v in zip(batch.column("k").to_pylist(), batch.column("v").to_pylist(), strict=True):
            if k not in self.values:
                self.values[k] = []
            self.values[k].append(v)
            found.append({"k": k, "n": len(self.values[k]), "total": sum(self.values[k])})
        ctx.send(pa.RecordBatch.from_pylist(found, SCHEMA))


SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("total", pa.int64())])


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2, parked=1) as started:
        yield started


def paced(directory: Path, seconds: float) -> sources.FileSource:
    """Returns a source of rows in order of time, replayed within `seconds` if the machine is fast enough."""
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i * 7919 % KEYS for i in range(ROWS)], "v": list(range(ROWS)), "t": times})
    directory.mkdir(exist_ok=True)
    for part in range(2):
        pq.write_table(table.take(list(range(part, ROWS, 2))), directory / f"{part}.parquet")
    return sources.parquet(directory, time="t", speed=ROWS / 1_000 / seconds)


def kill_one(cluster: Cluster) -> None:
    victim = sorted(cluster.busy_workers & {member.name for member in cluster.workers})[0]
    os.kill(next(member.pid for member in cluster.workers if member.name == victim), signal.SIGKILL)


def last_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns the row with the most values of each key; checks that all earlier rows are there, each once."""
    rows = sorted((row["k"], row["n"], row["total"]) for row in table.to_pylist())
    assert len({(k, n) for k, n, _ in rows}) == len(rows)
    return [row for row, after in zip(rows, [*rows[1:], (None,)], strict=True) if row[0] != after[0]]


def stores_of(cluster: Cluster) -> list[Path]:
    """Returns the cold stores of this cluster's workers: their directories are named by process."""
    places = {
        worker.pid: psutil.Process(worker.pid).environ()["SPARK_LOCAL_DIRS"].split(",")[0] for worker in cluster.workers
    }
    return [store for pid, place in places.items() for store in Path(place).glob(f"stretto-spill-{pid}-*/*")]


def spilled_bytes(cluster: Cluster) -> int:
    try:
        return sum(path.stat().st_size for store in stores_of(cluster) for path in store.iterdir())
    except FileNotFoundError:
        return 0  # A file was removed meanwhile.


@pytest.mark.parametrize("verb", ["apply", "aggregate"])
def test_a_killed_worker_changes_no_row_of_a_spilling_function(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, eventually: Callable[..., object], verb: str
) -> None:
    gate = Gate(tmp_path / "gate", 0.75)
    app = App(f"spilling-{verb}", parallelism=2)
    keyed = app.source("rows", gate.before(paced(tmp_path / "in", 8.0)), time="t").key_by("k")
    if verb == "apply":
        out = keyed.apply(Gathering(), SCHEMA, name="kept", spill="100 KB")
    else:
        out = keyed.aggregate(n="count(*)", total="sum(v)", name="kept", spill="100 KB")
    changelog = "_change" if verb == "aggregate" else None
    out.sink(sinks.parquet(tmp_path / "out", changelog=changelog), name="out")
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "checkpoints", every="300 ms")
    eventually(lambda: len(job.checkpoints.complete) >= 4, what="four checkpoints")
    eventually(lambda: job.metrics().rows_in > ROWS // 2, what="half of the rows")
    kill_one(cluster)
    eventually(lambda: job.checkpoints.recoveries >= 1, what="a recovery")
    gate.open()
    job.wait(WAIT_S)
    frame = spark.read.parquet(str(tmp_path / "in"))
    right = frame.groupBy("k").agg({"*": "count", "v": "sum"}).select("k", "count(1)", "sum(v)").collect()
    found = pq.read_table(tmp_path / "out")
    assert last_rows(found) == sorted(tuple(row) for row in right)
    if changelog is not None:
        by_number = spark.read.parquet(str(tmp_path / "out")).groupBy("k").agg(max_by(struct("n", "total"), changelog))
        assert sorted((k, *last) for k, last in by_number.collect()) == sorted(tuple(row) for row in right)


def test_spilled_state_is_removed_with_the_job(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, eventually: Callable[..., object]
) -> None:
    app = App("leaving")
    gate = Gate(tmp_path / "gate", 0.5)
    keyed = app.source("rows", gate.before(paced(tmp_path / "in", 20.0)), time="t").key_by("k")
    keyed.apply(Gathering(), SCHEMA, name="kept", spill="50 KB").sink(sinks.null())
    job = cluster.submit(app, engine="actors", checkpoint=tmp_path / "checkpoints", every="500 ms")
    eventually(lambda: job.metrics().rows_in > ROWS // 8, what="some rows")
    eventually(lambda: spilled_bytes(cluster), what="spilled state")
    job.stop(savepoint="half way", timeout=WAIT_S)
    eventually(lambda: not stores_of(cluster), what="no store left")
    state = stretto.state.read(spark, tmp_path / "checkpoints", "kept")
    held = sorted((row.v, row.k) for row in state.selectExpr("explode(value.value) v", "key.key k").collect())
    assert ROWS // 8 < len(held) < ROWS
    # The rows of both files up to some position, each once and with its key.
    for part in range(2):
        mine = [(v, k) for v, k in held if v % 2 == part]
        assert mine == [(v, v * 7919 % KEYS) for v in range(part, part + 2 * len(mine), 2)]


def test_a_value_that_cannot_be_spilled_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    class Odd(Function):
        values: MapState[int, object] = MapState()

        def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
            for k in batch.column("k").to_pylist():
                self.values[k] = object()

    app = App("odd")
    keyed = app.source("rows", paced(tmp_path / "in", 1.0), time="t").key_by("k")
    keyed.apply(Odd(), SCHEMA, name="kept", spill="1 KB").sink(sinks.null())
    with pytest.raises(StrettoError, match="plain data"):
        cluster.submit(app, engine="actors").wait(WAIT_S)
