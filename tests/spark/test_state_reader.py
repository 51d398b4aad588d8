"""`stretto.state.read` and `stretto state DIR --function` on real checkpoints: their rows equal Spark SQL's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

import stretto
from stretto import App, Context, Function, ListState, MapState, sinks, sources
from stretto.bench.gates import Gate
from stretto.errors import DamagedError, StorageError
from stretto.operators.windows import tumbling
from stretto.runtime.cluster import Cluster

ROWS = 4_000


class Remembering(Function):
    """Keeps the rows of each key, and the keys in their order of arrival; sends nothing."""

    sums: MapState[int, int] = MapState()
    firsts: ListState[int] = ListState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for k, v in zip(batch.column("k").to_pylist(), batch.column("v").to_pylist(), strict=True):
            if k not in self.sums:
                self.firsts.append(k)
            self.sums[k] = (self.sums.get(k) or 0) + v


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("rows")
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i % 50 for i in range(ROWS)], "v": list(range(ROWS)), "t": times})
    pq.write_table(table, directory / "0.parquet")
    spark.read.parquet(str(directory)).createOrReplaceTempView("rows")
    return directory


@pytest.fixture(scope="module")
def checkpoints(
    spark: SparkSession, rows: Path, tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., object]
) -> Path:
    """Returns the checkpoints of an app that was stopped half way: a finished app has no state left."""
    directory = tmp_path_factory.mktemp("checkpoints")
    app = App("kept", parallelism=2)
    gate = Gate(directory.with_suffix(".gate"), 0.75)
    stream = app.source("rows", gate.before(sources.parquet(rows, time="t", speed=1.0)), time="t")
    stream.key_by("k").aggregate(n="count(*)", mean="avg(v)", name="totals").sink(sinks.null())
    stream.key_by("k").window(tumbling("1 hour")).aggregate(n="count(*)", high="max(v)", name="hours").sink(
        sinks.null()
    )
    stream.key_by("k").apply(Remembering(), "k long", name="remembering").sink(sinks.null())
    with Cluster.on_spark(spark, workers=2) as cluster:
        job = cluster.submit(app, engine="actors", checkpoint=directory, every=None)
        eventually(lambda: job.metrics().rows_in >= ROWS // 2, what="half of the rows")
        job.stop(savepoint="all", timeout=WAIT_S)
    return directory


def read(spark: SparkSession, directory: Path, sql: str, function: str, **options: object) -> list[tuple[object, ...]]:
    stretto.state.read(spark, directory, function, **options).createOrReplaceTempView("state")
    return sorted(tuple(row) for row in spark.sql(sql).collect())


def test_all_functions_show_the_same_rows_read(spark: SparkSession, checkpoints: Path) -> None:
    """A savepoint is consistent: all functions have seen the rows up to the same position."""
    totals = read(spark, checkpoints, "select key.k, value.n, value.mean from state", "totals", savepoint="all")
    seen = sum(n for _, n, _ in totals)
    right = spark.sql(f"select k, count(*), avg(v) from rows where v < {seen} group by k").collect()
    assert 0 < seen < ROWS
    assert totals == sorted(tuple(row) for row in right)
    hours = read(spark, checkpoints, "select key.k, value.n, value.high from state", "hours")
    right = spark.sql(f"select k, count(*), max(v) from rows where v < {seen} group by k").collect()
    assert hours == sorted(tuple(row) for row in right)
    sums = read(spark, checkpoints, "select key.key, value.value from state", "remembering", state="sums")
    right = spark.sql(f"select k, sum(v) from rows where v < {seen} group by k").collect()
    assert sums == sorted(tuple(row) for row in right)


def test_the_columns_are_those_of_sparks_own_reader(spark: SparkSession, checkpoints: Path) -> None:
    frame = stretto.state.read(spark, checkpoints, "hours")
    assert frame.columns == ["key", "value", "partition_id"]
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    assert kinds["key"] == "struct<window:struct<start:timestamp,end:timestamp>,k:bigint>"
    assert kinds["value"] == "struct<n:bigint,high:bigint>"
    assert kinds["partition_id"] == "int"
    assert {row.partition_id for row in frame.select("partition_id").distinct().collect()} == {0, 1}


def test_rows_of_several_states_have_the_name_of_their_state(spark: SparkSession, checkpoints: Path) -> None:
    frame = stretto.state.read(spark, checkpoints, "remembering")
    assert frame.columns == ["key", "value", "partition_id", "state"]
    assert {row.state: row["count"] for row in frame.groupBy("state").count().collect()} == {"sums": 50, "firsts": 50}


def test_what_does_not_exist_is_named(spark: SparkSession, checkpoints: Path, tmp_path: Path) -> None:
    for message, function, options in [
        ("has no function 'other'", "other", {}),
        ("has no state 'other'", "remembering", {"state": "other"}),
        ("no checkpoint 99", "totals", {"checkpoint": 99}),
        ("no savepoint 'other'", "totals", {"savepoint": "other"}),
    ]:
        with pytest.raises(StorageError, match=message):
            stretto.state.read(spark, checkpoints, function, **options)
    with pytest.raises(StorageError, match="no checkpoint in"):
        stretto.state.read(spark, tmp_path / "nowhere", "totals")


def test_the_command_shows_rows(checkpoints: Path) -> None:
    command = [sys.executable, "-m", "stretto", "state", str(checkpoints), "--function", "totals", "--limit", "7"]
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=WAIT_S, check=True)
    found = json.loads(told.stdout)
    assert len(found["rows"]) == 7
    assert set(found["rows"][0]) == {"key", "value", "partition_id"}


def test_damage_is_reported_with_the_file(spark: SparkSession, checkpoints: Path) -> None:
    victim = next(path for path in sorted((checkpoints / "data").rglob("totals-0.arrow")))
    content = victim.read_bytes()
    try:
        damaged = bytearray(content)
        damaged[len(damaged) // 2] ^= 1
        victim.write_bytes(damaged)
        with pytest.raises(DamagedError, match=r"totals-0\.arrow is damaged"):
            stretto.state.read(spark, checkpoints, "totals")
    finally:
        victim.write_bytes(content)
