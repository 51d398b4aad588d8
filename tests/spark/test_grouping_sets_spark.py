"""Rollups, cubes and grouping sets against Spark SQL's own GROUP BY ROLLUP, CUBE and GROUPING SETS, on every engine.

The pure twin is tests/unit/api/test_grouping_sets.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, CollectWriter, MemorySource
from stretto.api.stream import Stream
from stretto.coordinator.records import JobStatus
from stretto.errors import EngineError
from stretto.operators.windows import tumbling
from stretto.runtime.microbatch import MicrobatchQuery
from stretto.simulator.engine.cluster import SimulatedCluster

ROWS = 300
SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.int64()),
        ("c", pa.float64()),
        ("x", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


def rows() -> pa.Table:
    """Returns rows with nulls in the keys, which are not those of a key that is left out, and with NaN and -0.0."""
    chance = random.Random(3)
    return pa.Table.from_pylist(
        [
            {
                "a": chance.choice(["p", "q", None]),
                "b": chance.choice([1, 2, None]),
                "c": chance.choice([0.0, -0.0, float("nan"), None]),
                "x": chance.choice([None, *range(9)]),
                "at": 1_000_000 * chance.randint(0, 30),
            }
            for _ in range(ROWS)
        ],
        schema=SCHEMA,
    )


@dataclass(frozen=True)
class Case:
    """A query, and Spark SQL for it."""

    build: Callable[[Stream], Stream]
    sql: str


IN_WINDOWS = "window.start AS window_start, window.end AS window_end"
CASES = {
    "rollup": Case(
        lambda s: s.rollup("a", "b").aggregate(n="count(*)", total="sum(x)", g="grouping_id()"),
        "SELECT a, b, count(*), sum(x), grouping_id() FROM rows GROUP BY ROLLUP (a, b)",
    ),
    "cube": Case(
        lambda s: s.cube("a", "b", "c").aggregate("grouping_id(a, b, c) AS g", "grouping(b) AS gb", high="max(x)"),
        "SELECT a, b, c, grouping_id(a, b, c), grouping(b), max(x) FROM rows GROUP BY CUBE (a, b, c)",
    ),
    "grouping sets": Case(
        lambda s: s.grouping_sets([["a", "b"], ["c"], "b", []]).aggregate("count(x) AS n", "grouping_id() AS g"),
        "SELECT a, b, c, count(x), grouping_id() FROM rows GROUP BY GROUPING SETS ((a, b), (c), b, ())",
    ),
    "an expression as a key": Case(
        lambda s: s.rollup("upper(a) AS u", "b % 2 AS odd").aggregate(
            "if(grouping(u) = 1, 'all', coalesce(u, 'none')) AS label",
            "sum(x) / count(*) AS mean",
            "grouping_id() AS g",
        ),
        "SELECT u, odd, if(grouping(u) = 1, 'all', coalesce(u, 'none')), sum(x) / count(*), grouping_id() "
        "FROM (SELECT *, upper(a) AS u, b % 2 AS odd FROM rows) GROUP BY ROLLUP (u, odd)",
    ),
    "aggregates of keys": Case(
        lambda s: s.rollup("b").aggregate(
            "sum(b) AS total", "count(DISTINCT b) AS different", "b + max(b) AS both", "grouping_id() AS g"
        ),
        "SELECT b, sum(b), count(DISTINCT b), b + max(b), grouping_id() FROM rows GROUP BY ROLLUP (b)",
    ),
    "without the number of the set": Case(
        lambda s: s.cube("a", "b").aggregate(n="count(*)"),
        "SELECT a, b, count(*) FROM rows GROUP BY CUBE (a, b)",
    ),
    "in windows": Case(
        lambda s: s.rollup("a", "b").window(tumbling("10 s")).aggregate("grouping(b) AS g", n="count(*)", low="min(b)"),
        f"SELECT a, b, {IN_WINDOWS}, grouping(b), count(*), min(b) FROM rows "
        "GROUP BY window(at, '10 seconds'), ROLLUP (a, b)",
    ),
    "keys of windows": Case(
        lambda s: s.cube("a").window(tumbling("10 s")).aggregate(),
        f"SELECT a, {IN_WINDOWS} FROM rows GROUP BY window(at, '10 seconds'), CUBE (a)",
    ),
}
IN_MICRO_BATCHES = ("rollup", "aggregates of keys", "in windows", "keys of windows")


def app_of(name: str) -> App:
    app = App(name)
    stream = app.source("rows", MemorySource(rows(), batch_rows=17), time="at", delay="60 s")
    CASES[name].build(stream).sink(CollectSink(), name="out")
    return app


def bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in table.to_pylist())


@pytest.fixture
def expected(spark: SparkSession, request: pytest.FixtureRequest) -> pa.Table:
    spark.createDataFrame(rows()).createOrReplaceTempView("rows")
    return spark.sql(CASES[request.getfixturevalue("name")].sql).toArrow()


@pytest.mark.parametrize("name", CASES)
def test_actors_and_the_batch_twin_are_sparks(spark: SparkSession, expected: pa.Table, name: str) -> None:
    app = app_of(name)
    node = app.plan().sink_named("out")
    twin = app.to_spark(spark).toArrow()
    assert [field.type for field in twin.schema] == [field.type for field in expected.schema]
    assert bag(twin) == bag(expected)
    cluster = SimulatedCluster(3, seed=1)
    job = cluster.submit(lowered(app.plan(), "sets", 3, 64))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    found = final_rows(job.writers["out"].table(), node)
    assert [field.type for field in found.schema] == [field.type for field in expected.schema]
    assert bag(found) == bag(expected)


@pytest.mark.parametrize("name", IN_MICRO_BATCHES)
def test_micro_batches_are_sparks(spark: SparkSession, expected: pa.Table, name: str, tmp_path: Path) -> None:
    app = app_of(name)
    made = MicrobatchQuery(app.name, app.plan(), spark, parallelism=1, directory=str(tmp_path))
    made.start()
    assert made.wait(WAIT_S)
    assert made.error is None, str(made.error)
    writer: Any = made.writers["out"]
    assert isinstance(writer, CollectWriter)
    assert bag(final_rows(writer.table(), app.plan().sink_named("out"))) == bag(expected)


def test_micro_batches_need_the_number_of_the_set(spark: SparkSession, tmp_path: Path) -> None:
    app = app_of("without the number of the set")
    with pytest.raises(EngineError, match="can be removed again"):
        MicrobatchQuery(app.name, app.plan(), spark, parallelism=1, directory=str(tmp_path)).start()
