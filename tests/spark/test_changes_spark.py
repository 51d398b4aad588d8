"""Streams whose rows change against Spark SQL: the last rows are the answer of the batch twin over the whole input."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.api.stream import Stream
from stretto.coordinator.records import JobStatus
from stretto.operators.windows import tumbling
from stretto.simulator.engine.cluster import SimulatedCluster

ROWS = 400
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("j", pa.string()),
        ("x", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


def table(seed: int = 5) -> pa.Table:
    chance = random.Random(seed)
    columns: list[list[Any]] = [
        list(range(ROWS)),
        [chance.choice([None, *range(9)]) for _ in range(ROWS)],
        [chance.choice(["a", "b", "ß", None]) for _ in range(ROWS)],
        [chance.choice([None, 0, 2**62, -(2**62), *range(-4, 12)]) for _ in range(ROWS)],
        [chance.choice([None, 0.5, -1.25, math.inf, math.nan, 3.0]) for _ in range(ROWS)],
        [None if chance.random() < 0.1 else chance.randint(-(10**11), 10**11) for _ in range(ROWS)],
        [1_000_000 * chance.randint(0, 50) for _ in range(ROWS)],
    ]
    columns[5] = pa.array(columns[5], pa.decimal128(12, 0)).cast(pa.decimal128(14, 2)).to_pylist()
    columns[5] = [None if value is None else value / 100 for value in columns[5]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def totals(stream: Stream) -> Stream:
    return stream.key_by("k", "j").aggregate(n="count(*)", low="min(x)", total="sum(d)", different="count(distinct x)")


QUERIES: dict[str, Callable[[Stream], Stream]] = {
    "having": lambda s: totals(s).filter("n > 5 AND total > 0"),
    "having, renamed": lambda s: totals(s).rename({"k": "key"}).filter("low < 0").select("key", "j", half="total / 2"),
    "without the key": lambda s: totals(s).select("n", "different"),
    "top": lambda s: s.key_by("j").top(3, by="f", ties=True),
    "top, numbered": lambda s: s.key_by("k").top(4, by=["x DESC", "d ASC"], rank="place", ranking="row_number"),
    "top of all": lambda s: s.top(9, by=["d ASC", "id"], rank="place"),
    "top, dense": lambda s: s.key_by("j").top(2, by=["f ASC", "k DESC"], rank="place", ranking="dense_rank"),
    "top of changes": lambda s: totals(s).key_by("j").top(2, by="n", rank="place"),
    "top in windows": lambda s: (
        s.key_by("j").window(tumbling("10 s")).top(2, by=["x ASC", "id"], rank="place", ranking="row_number")
    ),
    "distinct": lambda s: s.select("j", "k").drop_duplicates(),
    "last": lambda s: s.drop_duplicates("k", "j", keep="last"),
    "last, counted": lambda s: s.drop_duplicates("k", "j", keep="last").filter("x > 0"),
    "union": lambda s: totals(s).filter("n > 4").select("k", "n").union(totals(s).select("k", "n")),
    "second aggregate": lambda s: (
        totals(s)
        .key_by("j")
        .aggregate(m="count(*)", most="max(n)", mean="avg(n)", all="sum(total)", some="count(distinct n)")
    ),
    "second aggregate by a result": lambda s: totals(s).key_by("n").aggregate(m="count(*)", low="min(low)"),
    "third aggregate": lambda s: (
        totals(s).filter("n > 4").key_by("n").aggregate(m="count(*)").key_by("m").aggregate(p="count(*)")
    ),
    "having of floats": lambda s: s.key_by("f").aggregate(n="count(*)", high="max(f)").filter("n % 2 = 0").drop("n"),
}


def of_j(stream: Stream) -> Stream:
    """Returns sums that change, of some of the keys that `totals` has."""
    return stream.filter("x > 0 AND id % 3 = 0").key_by("j").aggregate(n="count(*)", high="max(k)")


def best(stream: Stream) -> Stream:
    return stream.key_by("j").top(2, by=["x ASC", "id"]).select("id", "j", "k", "x")


KINDS = ("inner", "left", "right", "full", "semi", "anti")
JOINS: dict[str, Callable[[Stream, str], Stream]] = {
    "changes with changes": lambda s, how: totals(s).filter("n > 4").join(of_j(s), "j", how=how),
    "changes with rows": lambda s, how: of_j(s).join(
        s.filter("id % 7 = 0"), "left.j = right.j AND left.n > right.x", how=how
    ),
    "rows with changes": lambda s, how: (
        s.filter("id % 5 = 0").select("id", "k", "f").join(totals(s), "k = n AND f < low", how=how)
    ),
    "rows with rows": lambda s, how: (
        s.filter("id % 4 = 0").select("id", "k", "x").join(s.filter("x < 3"), "k = x", how=how)
    ),
    "rows with rows and a condition": lambda s, how: (
        s.filter("id % 4 = 0").select("id", "k", "d").join(s.filter("x < 3"), "k = x AND left.d > right.d", how=how)
    ),
    "top with changes by an expression": lambda s, how: best(s).join(
        totals(s), "upper(left.j) = upper(right.j) AND id % 9 = n", how=how
    ),
    "floats": lambda s, how: (
        s.key_by("f").aggregate(n="count(*)", high="max(id)").join(s.filter("id > 390"), "f", how=how)
    ),
    "joined and counted": lambda s, how: (
        totals(s)
        .join(of_j(s), "left.j = right.j AND left.n < right.n", how=how)
        .key_by("j")
        .aggregate(m="count(*)", most="max(n)")
    ),
}
# Every kind costs seconds, so those whose counting differs only in what is counted have two kinds.
SOME_KINDS = {
    "rows with changes": ("semi", "full"),
    "rows with rows": ("left", "anti"),
    "top with changes by an expression": ("inner", "full"),
    "joined and counted": ("left", "right"),
}
QUERIES |= {
    f"{name}, {how}": lambda s, join=join, how=how: join(s, how)
    for name, join in JOINS.items()
    for how in SOME_KINDS.get(name, KINDS)
}


def answer(app: App, seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    cluster = SimulatedCluster(3, seed)
    job = cluster.submit(lowered(app.plan(), "changes", chance.randint(1, 4), 64))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    rows: list[dict[str, Any]] = final_rows(job.writers["out"].table(), app.plan().sink_named("out")).to_pylist()
    return rows


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(list(row.items())) for row in rows)


@pytest.mark.parametrize("query", QUERIES)
def test_the_last_rows_are_sparks(spark: SparkSession, query: str) -> None:
    app = App(f"app {query}")
    source = MemorySource(table(), batch_rows=13)
    QUERIES[query](app.source("rows", source, time="at", delay="60 s", parallelism=3)).sink(CollectSink(), name="out")
    twin = app.to_spark(spark)
    expected = twin.toArrow()
    names = app.plan().sink_named("out").schema.names
    assert expected.schema.names == names
    assert expected.num_rows
    for seed in range(2):
        assert bag(answer(app, seed)) == bag(expected.to_pylist())
