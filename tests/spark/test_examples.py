"""The examples of a source and a sink of one's own run as they are."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from examples import own_sink, own_source
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import Cluster

SENSORS, ROUNDS = 4, 100


def test_the_source_is_read_by_actors_and_as_a_dataframe(spark: SparkSession) -> None:
    with Cluster.on_spark(spark, workers=2) as cluster:
        found = cluster.submit(own_source.app, engine="actors").wait(WAIT_S).results("warmest")
    assert sum(found.column("n").to_pylist()) == SENSORS * ROUNDS
    assert found.num_rows == SENSORS * ROUNDS // 10
    twin = own_source.app.to_spark(spark).toArrow()
    assert sorted(map(str, twin.to_pylist())) == sorted(map(str, found.to_pylist()))


@pytest.mark.parametrize("durable", [False, True])
def test_the_sink_has_the_last_row_of_each_key(spark: SparkSession, tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "out.db"
    checkpoints = {"checkpoint": tmp_path / "checkpoints", "every": "100 ms"} if durable else {}
    with Cluster.on_spark(spark, workers=2) as cluster:
        cluster.submit(own_sink.make_app(str(path)), **checkpoints).wait(WAIT_S)  # type: ignore[arg-type]
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT sensor, n, degrees FROM totals ORDER BY sensor").fetchall()
    assert rows == [(sensor, ROUNDS, 20.9) for sensor in range(SENSORS)]
