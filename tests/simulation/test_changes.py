"""Streams whose rows change, on several partitions: the last rows equal those of a model in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.api.app import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.api.stream import Stream
from stretto.coordinator.records import JobStatus
from stretto.simulator.engine.cluster import SimulatedCluster

Row = dict[str, Any]
SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("j", pa.string()), ("x", pa.int64())])


def some_rows(seed: int, count: int = 300) -> list[Row]:
    chance = random.Random(seed)
    return [
        {
            "n": n,
            "k": chance.choice([None, *range(7)]),
            "j": chance.choice("abc"),
            "x": chance.choice([None, *range(-5, 9)]),
        }
        for n in range(count)
    ]


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def counts(rows: list[Row]) -> list[Row]:
    return [
        {"k": k, "j": j, "n": len(group), "total": total(row["x"] for row in group)}
        for (k, j), group in grouped(rows, "k", "j").items()
    ]


class Latest(Function):
    """Sends the greatest n of each k so far."""

    def __init__(self) -> None:
        self.last: dict[int | None, int] = {}

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for row in batch.to_pylist():
            self.last[row["k"]] = max(self.last.get(row["k"], -1), row["n"])
            ctx.send(pa.RecordBatch.from_pylist([{"k": row["k"], "n": self.last[row["k"]]}], LAST))


LAST = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def having(stream: Stream) -> Stream:
    return totals(stream).filter("n BETWEEN 3 AND 9 OR total < 10")


def having_model(rows: list[Row]) -> list[Row]:
    return [row for row in counts(rows) if 3 <= row["n"] <= 9 or (row["total"] is not None and row["total"] < 10)]


def totals(stream: Stream) -> Stream:
    return stream.key_by("k", "j").aggregate(n="count(*)", total="sum(x)")


def of_last(stream: Stream) -> Stream:
    return stream.key_by("k").apply(Latest(), LAST, upsert_key="k").filter("n % 2 = 0").select("n")


def of_last_model(rows: list[Row]) -> list[Row]:
    greatest = [max(row["n"] for row in group) for group in grouped(rows, "k").values()]
    return [{"n": n} for n in greatest if n % 2 == 0]


QUERIES: dict[str, tuple[Callable[[Stream], Stream], Callable[[list[Row]], list[Row]]]] = {
    "plain": (totals, counts),
    "having": (having, having_model),
    "having by the key": (
        lambda stream: totals(stream).filter("k > 2"),
        lambda rows: [row for row in counts(rows) if row["k"] is not None and row["k"] > 2],
    ),
    "without its key": (
        lambda stream: totals(stream).select("n", twice="2 * total"),
        lambda rows: [
            {"n": row["n"], "twice": None if row["total"] is None else 2 * row["total"]} for row in counts(rows)
        ],
    ),
    "of a function": (of_last, of_last_model),
}


def best(rows: list[Row], k: int, *keys: str) -> list[Row]:
    """Returns the k rows of each group with the least x, of those the one with the greatest n."""
    groups = grouped(rows, *keys).values()
    return [row for group in groups for row in sorted(group, key=least)[:k]]


def least(row: Row) -> tuple[int, int]:
    return (-10 if row["x"] is None else row["x"], -row["n"])


def numbered(rows: list[Row]) -> list[Row]:
    ranked = {key: best(group, 3) for key, group in grouped(rows, "k").items()}
    return [{**row, "place": place} for group in ranked.values() for place, row in enumerate(group, 1)]


def most(rows: list[Row], dense: bool) -> list[Row]:
    """Returns the groups of each k whose n ranks at most 2."""
    result = []
    for group in grouped(counts(rows), "k").values():
        for row in group:
            above = [other["n"] for other in group if other["n"] > row["n"]]
            place = 1 + len(set(above) if dense else above)
            if place <= 2:
                result.append({**row, "place": place})
    return result


def second(rows: list[Row]) -> list[Row]:
    return [
        {
            "j": j,
            "m": len(group),
            "most": max(row["n"] for row in group),
            "least": min((row["total"] for row in group if row["total"] is not None), default=None),
            "all": sum(row["n"] for row in group),
        }
        for (j,), group in grouped(rows, "j").items()
    ]


QUERIES |= {
    "top": (lambda s: s.key_by("k").top(2, by=["x ASC", "n DESC"]), lambda rows: best(rows, 2, "k")),
    "top of all": (
        lambda s: s.top(5, by=["x ASC", "n DESC"], ranking="row_number").drop("j"),
        lambda rows: [{key: row[key] for key in "nkx"} for row in best(rows, 5)],
    ),
    "numbered": (
        lambda s: s.key_by("k").top(3, by=["x ASC", "n DESC"], rank="place", ranking="row_number"),
        numbered,
    ),
    "top of counts": (
        lambda s: totals(s).key_by("k").top(2, by="n", rank="place"),
        lambda rows: most(rows, dense=False),
    ),
    "top of counts without gaps": (
        lambda s: totals(s).key_by("k").top(2, by="n", rank="place", ranking="dense_rank"),
        lambda rows: most(rows, dense=True),
    ),
    "union": (
        lambda s: totals(s).select("k", "n").filter("n > 3").union(s.select("k", "n"), totals(s).select("k", "n")),
        lambda rows: [
            {"k": row["k"], "n": row["n"]}
            for row in (*rows, *counts(rows), *(row for row in counts(rows) if row["n"] > 3))
        ],
    ),
    "second aggregate": (
        lambda s: totals(s).key_by("j").aggregate(m="count(*)", most="max(n)", least="min(total)", all="sum(n)"),
        lambda rows: second(counts(rows)),
    ),
    "second aggregate of some": (
        lambda s: totals(s).filter("n > 4").drop("k").key_by("j").aggregate(m="count(*)").filter("m > 2").select("m"),
        lambda rows: [
            {"m": len(group)}
            for group in grouped([row for row in counts(rows) if row["n"] > 4], "j").values()
            if len(group) > 2
        ],
    ),
    "histogram of a histogram": (
        lambda s: totals(s).key_by("n").aggregate(m="count(*)").key_by("m").aggregate(p="count(*)"),
        lambda rows: [{"m": m, "p": p} for m, p in Counter(Counter(row["n"] for row in counts(rows)).values()).items()],
    ),
    "distinct": (
        lambda s: s.select("k", "j").drop_duplicates(),
        lambda rows: [{"k": k, "j": j} for k, j in grouped(rows, "k", "j")],
    ),
}


def app_of(query: str, rows: list[Row], partitions: int, chance: random.Random) -> App:
    app = App("changes")
    stream = app.source("in", MemorySource(rows, SCHEMA, batch_rows=chance.randint(1, 40)), parallelism=partitions)
    QUERIES[query][0](stream).sink(CollectSink(), name="out")
    return app


def as_bag(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_last_rows_are_those_of_the_model(query: str, seed: int) -> None:
    chance = random.Random(seed)
    rows = some_rows(seed)
    app = app_of(query, rows, chance.randint(1, 3), chance)
    cluster = SimulatedCluster(chance.randint(1, 3), seed)
    job = cluster.submit(lowered(app.plan(), "changes", chance.randint(1, 4), 16))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    found = final_rows(job.writers["out"].table(), app.plan().sink_named("out"))
    assert as_bag(found.to_pylist()) == as_bag(QUERIES[query][1](rows))
