"""Joins of streams whose rows change, on several partitions: the last rows equal those of nested loops in Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.api.stream import Stream
from stretto.coordinator.records import JobStatus
from stretto.simulator.engine.cluster import SimulatedCluster

Row = dict[str, Any]
KINDS = ("inner", "left", "right", "full", "semi", "anti")
ROWS = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
OTHERS = pa.schema([("m", pa.int64()), ("key", pa.int32()), ("y", pa.int64())])
NAMES = pa.table({"id": pa.array([1, 2, 2, None], pa.int64()), "name": ["one", "two", "zwei", "none"]})


def some_rows(chance: random.Random, schema: pa.Schema, count: int) -> list[Row]:
    number, key, value = schema.names
    values = ((n, chance.choice([None, *range(7)]), chance.choice([None, *range(5)])) for n in range(count))
    return [dict(zip((number, key, value), row, strict=True)) for row in values]


def counted(rows: Iterable[Row], key: str) -> list[Row]:
    return [{key: value, "c": c} for value, c in Counter(row[key] for row in rows).items()]


def joined(left: list[Row], right: list[Row], how: str, match: Callable[[Row, Row], bool]) -> list[Row]:
    """Returns the join of two lists, whose rows have different columns."""
    pairs = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if match(one, other)]
    lefts, rights = {i for i, _ in pairs}, {j for _, j in pairs}
    if how in ("semi", "anti"):
        return [row for i, row in enumerate(left) if (i in lefts) == (how == "semi")]
    result = [{**left[i], **right[j]} for i, j in pairs]
    if how in ("left", "full"):
        result += [{**row, **dict.fromkeys(right[0])} for i, row in enumerate(left) if i not in lefts]
    if how in ("right", "full"):
        result += [{**dict.fromkeys(left[0]), **row} for j, row in enumerate(right) if j not in rights]
    return result


def equal(one: str, other: str) -> Callable[[Row, Row], bool]:
    return lambda left, right: left[one] is not None and left[one] == right[other]


def counts(stream: Stream, key: str, count: str) -> Stream:
    return stream.key_by(key).aggregate(**{count: "count(*)"})


def renamed(rows: list[Row], **names: str) -> list[Row]:
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


def matching_and_less(left: Row, right: Row) -> bool:
    return equal("k", "key")(left, right) and None not in (left["x"], right["y"]) and left["x"] < right["y"]


Query = Callable[[Stream, Stream, str], Stream]
Model = Callable[[list[Row], list[Row], str], list[Row]]
QUERIES: dict[str, tuple[Query, Model]] = {
    "rows": (
        lambda s, o, how: s.join(o, "k = key", how=how),
        lambda s, o, how: joined(s, o, how, equal("k", "key")),
    ),
    "rows and a condition": (
        lambda s, o, how: s.join(o, "k = key AND x < y", how=how),
        lambda s, o, how: joined(s, o, how, matching_and_less),
    ),
    "counts": (
        lambda s, o, how: counts(s, "k", "c").join(counts(o, "key", "d"), "k = key", how=how),
        lambda s, o, how: joined(counted(s, "k"), renamed(counted(o, "key"), c="d"), how, equal("k", "key")),
    ),
    "by a count": (
        lambda s, o, how: counts(s, "k", "c").filter("c > 9").join(o, "c % 4 + 3 = y", how=how),
        lambda s, o, how: joined(
            [row for row in counted(s, "k") if row["c"] > 9], o, how, lambda one, other: one["c"] % 4 + 3 == other["y"]
        ),
    ),
    "rows with the least": (
        lambda s, o, how: s.join(o.key_by("key").top(1, by="y ASC"), "k = key AND x >= y", how=how),
        lambda s, o, how: joined(
            s,
            least(o),
            how,
            lambda one, other: (
                equal("k", "key")(one, other) and None not in (one["x"], other["y"]) and one["x"] >= other["y"]
            ),
        ),
    ),
}


def least(rows: list[Row]) -> list[Row]:
    """Returns the rows of each key with the least y; null is least."""

    def rank(row: Row) -> int:
        return -1 if row["y"] is None else row["y"]

    return [row for row in rows if rank(row) == min(rank(other) for other in rows if other["key"] == row["key"])]


def bag(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def answer(app: App, chance: random.Random) -> list[Row]:
    cluster = SimulatedCluster(chance.randint(1, 3), chance.randint(0, 99))
    job = cluster.submit(lowered(app.plan(), "changes", chance.randint(1, 4), 16))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    rows: list[Row] = final_rows(job.writers["out"].table(), app.plan().sink_named("out")).to_pylist()
    return rows


def source(app: App, name: str, rows: list[Row], schema: pa.Schema, chance: random.Random) -> Stream:
    return app.source(name, MemorySource(rows, schema, batch_rows=chance.randint(1, 30)), parallelism=2)


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("query", QUERIES)
def test_the_last_rows_are_those_of_nested_loops(query: str, how: str) -> None:
    make, model = QUERIES[query]
    for seed in range(3):
        chance = random.Random(seed)
        rows, others = some_rows(chance, ROWS, 90), some_rows(chance, OTHERS, 60)
        app = App("changes")
        streams = source(app, "rows", rows, ROWS, chance), source(app, "others", others, OTHERS, chance)
        make(*streams, how).sink(CollectSink(), name="out")
        expected = bag(model(rows, others, how))
        assert expected
        assert bag(answer(app, chance)) == expected


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("on", ["k = id", "c % 3 = id"])
@pytest.mark.parametrize("parallelism", [None, 3])
def test_rows_that_change_are_joined_with_a_table(how: str, on: str, parallelism: int | None) -> None:
    chance = random.Random(7)
    rows = some_rows(chance, ROWS, 90)
    app = App("changes")
    stream = counts(source(app, "rows", rows, ROWS, chance), "k", "c").filter("c > 9")
    stream.join(app.table("names", NAMES), on, how=how, parallelism=parallelism).sink(CollectSink(), name="out")
    groups = [row for row in counted(rows, "k") if row["c"] > 9]
    value: Callable[[Row], Any] = (lambda row: row["k"]) if on == "k = id" else (lambda row: row["c"] % 3)
    expected = joined(groups, NAMES.to_pylist(), how, lambda one, other: value(one) == other["id"] is not None)
    assert expected
    assert bag(answer(app, chance)) == bag(expected)
