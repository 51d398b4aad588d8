"""Joins of every kind against Spark SQL: the actors, in virtual time, and the batch twin."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from stretto.api.app import App
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.api.stream import Stream
from stretto.coordinator.records import JobStatus
from stretto.errors import PlanError
from stretto.operators.windows import hopping, tumbling
from stretto.runtime.relational import to_dataframes
from stretto.runtime.spark_sources import batch_frame
from stretto.simulator.engine.cluster import SimulatedCluster

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

ROWS = 120
LEFT = pa.schema(
    [
        ("t", pa.timestamp("us", tz="UTC")),
        ("k", pa.int32()),
        ("name", pa.string()),
        ("x", pa.int64()),
        ("id", pa.int64()),
    ]
)
RIGHT = pa.schema(
    [
        ("t", pa.timestamp("us", tz="UTC")),
        ("k", pa.int64()),
        ("label", pa.string()),
        ("x", pa.float64()),
        ("n", pa.string()),
    ]
)
Cases = dict[str, tuple[Callable[[], Stream], str]]
"""Joins by name, each with Spark SQL that has its answer."""

KINDS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}
NEAR = "r.t >= l.t - INTERVAL 2 SECONDS AND r.t <= l.t + INTERVAL 3 SECONDS"
BOTH = "l.t, l.k, l.name, l.x, l.id, r.t t_right, r.k k_right, r.label, r.x x_right, r.n"


def table(schema: pa.Schema, seed: int, nulls: bool) -> pa.Table:
    """Returns rows half a second apart, some with null keys, and some without a time."""
    chance = random.Random(seed)
    rows = []
    for i in range(ROWS):
        key = None if chance.random() < 0.1 else chance.randrange(5)
        name = None if chance.random() < 0.1 else chance.choice(["Ann", "ann", "BOB", "bob", "Straße"])
        time = None if nulls and chance.random() < 0.05 else 1_000_000 + i * 500_000 + chance.randrange(400_000)
        rows.append((time, key, name, chance.randrange(8), str(i) if pa.types.is_string(schema.types[-1]) else i))
    columns = [pa.array(list(values)) for values in zip(*rows, strict=True)]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def joins(left: Stream, right: Stream, kinds: list[str]) -> Cases:
    """Returns the joins by name, each with Spark SQL that has its answer."""
    interval = {"lower": "t - INTERVAL 2 SECONDS", "upper": "t + INTERVAL 3 SECONDS"}
    found = {}
    for how in kinds:
        columns = BOTH if how not in ("semi", "anti") else "l.t, l.k, l.name, l.x, l.id"
        found[f"interval {how}"] = (
            partial(
                left.interval_join,
                right,
                "lower(name) = lower(label) AND left.x > right.x",
                where="n % 3 <> 0",
                how=how,
                **interval,
            ),
            f"SELECT {columns} FROM lefts l {KINDS[how]} rights r ON lower(l.name) = lower(r.label) AND l.x > r.x "
            f"AND r.n % 3 <> 0 AND {NEAR}",
        )
        for size, slide in [("5 seconds", "2 seconds")] + [("4 seconds", "4 seconds")] * (how == "full"):
            window = tumbling(size) if size == slide else hopping(size, slide)
            start = "coalesce(l.w, r.w)" if how in ("right", "full") else "l.w"
            found[f"window {slide} {how}"] = (
                partial(left.window_join, right, "right.k + 1 = left.k", window, where="left.x <> right.x", how=how),
                f"SELECT {columns}, {start}.start window_start, {start}.end window_end "
                f"FROM (SELECT *, window(t, '{size}', '{slide}') w FROM lefts) l {KINDS[how]} "
                f"(SELECT *, window(t, '{size}', '{slide}') w FROM rights) r "
                "ON r.k + 1 = l.k AND l.w = r.w AND l.x <> r.x",
            )
    return found


def unbounded(left: Stream, right: Stream) -> Cases:
    semi = "l.t, l.k, l.name, l.x, l.id"
    return {
        "semi": (
            partial(left.join, right, "k", where="left.x = right.x + 1", how="leftsemi"),
            f"SELECT {semi} FROM lefts l LEFT SEMI JOIN rights r ON l.k = r.k AND l.x = r.x + 1",
        ),
        "string and number": (
            partial(left.join, right, "id = n AND name <> label"),
            f"SELECT {BOTH} FROM lefts l JOIN rights r ON l.id = r.n AND l.name <> r.label",
        ),
        "int and double": (
            partial(left.join, right, "left.k = right.x", where="id < 40"),
            f"SELECT {BOTH} FROM lefts l JOIN rights r ON l.k = r.x AND l.id < 40",
        ),
    }


def tabled(left: Stream, right: Stream) -> Cases:
    """Returns joins of the left stream with the right rows as a table."""
    whole = left._app.table("rights", table(RIGHT, 2, nulls=False))
    parts = left._app.table("rights", table(RIGHT, 2, nulls=False), how="partitioned")
    found = {}
    for table_, how in product((whole, parts), ("inner", "left", "semi", "anti")):
        columns = BOTH if how in ("inner", "left") else "l.t, l.k, l.name, l.x, l.id"
        found[f"table {table_.how} {how}"] = (
            partial(
                left.join, table_, "lower(name) = lower(label) AND left.k = rights.k", where="right.x > id % 5", how=how
            ),
            f"SELECT {columns} FROM lefts l {KINDS[how]} rights_False r "
            "ON lower(l.name) = lower(r.label) AND l.k = r.k AND r.x > l.id % 5",
        )
    return found


def asof(left: Stream, right: Stream) -> Cases:
    """Returns ASOF joins. No two right rows have one time, so that Spark's answers have no ties."""
    names = "lower(name) = lower(label)"
    found: Cases = {}
    for how, words in (("inner", "ASOF JOIN"), ("left", "LEFT ASOF JOIN")):
        found[f"asof {how}"] = (
            partial(left.asof_join, right, names, how=how),
            f"SELECT {BOTH} FROM lefts l {words} rights r MATCH_CONDITION (l.t >= r.t) "
            "ON lower(l.name) = lower(r.label)",
        )
        found[f"asof {how} of earlier rows on a condition"] = (
            partial(left.asof_join, right, "k", allow_exact_matches=False, where="left.x > right.x", how=how),
            f"SELECT {BOTH} FROM lefts l {words} rights r MATCH_CONDITION (l.t > r.t) ON l.k = r.k AND l.x > r.x",
        )
        found[f"asof {how} forward"] = (
            partial(left.asof_join, right, names, direction="forward", tolerance="3 s", where="n % 3 <> 0", how=how),
            f"SELECT {BOTH} FROM lefts l {words} rights r MATCH_CONDITION (l.t <= r.t) "
            "ON lower(l.name) = lower(r.label) AND r.n % 3 <> 0 AND r.t <= l.t + INTERVAL 3 SECONDS",
        )
    found["asof nearest"] = (
        partial(left.asof_join, right, "k", direction="nearest", tolerance="2 s", how="left"),
        f"SELECT {BOTH} FROM lefts l LEFT JOIN (SELECT * FROM (SELECT l.id of, r.*, row_number() OVER (PARTITION BY "
        "l.id ORDER BY abs(unix_micros(l.t) - unix_micros(r.t)), r.t) place FROM lefts l JOIN rights r ON l.k = r.k "
        "AND r.t BETWEEN l.t - INTERVAL 2 SECONDS AND l.t + INTERVAL 2 SECONDS) WHERE place = 1) r ON l.id = r.of",
    )
    return found


def every_join(left: Stream, right: Stream) -> Cases:
    return joins(left, right, list(KINDS)) | unbounded(left, right) | tabled(left, right) | asof(left, right)


def made(build: Callable[[Stream, Stream], Cases], nulls: bool) -> tuple[App, dict[str, tuple[Stream, str]]]:
    app = App("joins")
    left, right = (
        app.source(name, MemorySource(table(schema, seed, nulls), batch_rows=17), time="t", delay="1 s")
        for name, schema, seed in (("left", LEFT, 1), ("right", RIGHT, 2))
    )
    found = {name: (make(), query) for name, (make, query) in build(left, right).items()}
    for name, (stream, _) in found.items():
        stream.sink(CollectSink(), name=name)
    return app, found


def rows_of(found: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [pc.cast(c, pa.int64()) if pa.types.is_timestamp(c.type) else c for c in found.columns]
    return Counter(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.fixture(scope="module")
def oracle(spark: SparkSession) -> Callable[[str, bool], Counter[tuple[Any, ...]]]:
    for nulls in (False, True):
        for name, schema, seed in (("lefts", LEFT, 1), ("rights", RIGHT, 2)):
            spark.createDataFrame(table(schema, seed, nulls)).cache().createOrReplaceTempView(f"{name}_{nulls}")
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")

    @cache
    def ask(query: str, nulls: bool) -> Counter[tuple[Any, ...]]:
        text = query.replace("lefts ", f"lefts_{nulls} ").replace("rights ", f"rights_{nulls} ")
        text = text.replace("lefts)", f"lefts_{nulls})").replace("rights)", f"rights_{nulls})")
        return rows_of(spark.sql(text).toArrow())

    return ask


def test_the_actors_answer_as_spark_sql(spark: SparkSession, oracle: Any) -> None:
    app, found = made(every_join, nulls=True)
    cluster = SimulatedCluster(3, seed=1)
    job = cluster.submit(lowered(app.plan(), "joins", 3, 50))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    for name, (_, query) in found.items():
        expected = oracle(query, True)
        assert expected, name
        assert rows_of(job.writers[name].table()) == expected, name


def test_the_batch_twin_answers_as_spark_sql(spark: SparkSession, oracle: Any) -> None:
    app, found = made(every_join, nulls=True)
    plan = app.plan()
    frames = {node.name: batch_frame(spark, node) for node in plan.sources}
    twins = to_dataframes(plan, spark, frames, streaming=False)
    for name, (stream, query) in found.items():
        twin = twins[name].toArrow()
        assert rows_of(twin) == oracle(query, True), name
        assert twin.schema.names == stream.schema.names


@pytest.mark.parametrize("how", KINDS)
def test_joins_with_a_table_are_refused_where_spark_refuses_them(spark: SparkSession, how: str, tmp_path: Path) -> None:
    rows = pa.table({"value": [1, 2]})
    stream = spark.readStream.format("rate").load().select("value")
    theirs = stream.join(spark.createDataFrame(rows), "value", SPARKS_NAMES.get(how, how))
    query = theirs.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    app = App("app")
    ours = partial(app.source("bids", MemorySource(rows)).join, app.table("rows", rows), "value", how=how)
    if how in ("right", "full"):
        with pytest.raises(AnalysisException, match="not supported"):
            query.start()
        with pytest.raises(PlanError, match="Spark's streams refuse it too"):
            ours()
    else:
        query.start().stop()
        ours()


SPARKS_NAMES = {"semi": "left_semi", "anti": "left_anti"}
