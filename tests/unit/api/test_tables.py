"""Joins of streams with tables: every kind, nulls and duplicates, updates, and what is refused by name."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto import App, Stream, sinks, sources
from stretto.actors.partitioning import hash_columns
from stretto.actors.shards import ShardMap
from stretto.api import tables
from stretto.api.changes import final_rows, last_by_key
from stretto.api.explain import explained
from stretto.api.lowering import lowered
from stretto.api.plan import TableJoinNode
from stretto.api.tables import Distribution, Table
from stretto.coordinator.records import JobStatus
from stretto.errors import PlanError, SourceError
from stretto.expressions import compile_predicate, compile_scalar
from stretto.operators import table_index
from stretto.operators.join_kinds import JoinKind
from stretto.operators.table_index import pieces_of
from stretto.operators.table_join import TableJoin
from stretto.simulator.engine.cluster import SimulatedCluster

ANN, BOB, NOBODY, NINE = (1, 5, "Ann"), (2, 6, "bob"), (None, 7, "ann"), (9, 1, None)
NONE = (None, None, None)
BIDS = [{"auction": a, "price": p, "who": w} for a, p, w in (ANN, BOB, NOBODY, NINE)]
SCHEMA = "auction bigint, price bigint, who string"
ITEMS = pa.table(
    {
        "id": pa.array([1, 2, 2, None], pa.int32()),
        "price": pa.array([3, 9, 1, 4], pa.int64()),
        "owner": ["ANN", "BOB", None, "x"],
    }
)


def made(app: App | None = None, items: pa.Table = ITEMS, how: Distribution = "auto") -> tuple[Stream, Table]:
    app = app or App("app", parallelism=2)
    return app.source("bids", sources.memory(BIDS, SCHEMA)), app.table("items", items, how=how)


def answer(
    build: Callable[[Stream, Table], Stream], key: str | None = None, how: Distribution = "auto"
) -> list[tuple[Any, ...]]:
    app = App("app", parallelism=2)
    build(*made(app, how=how)).sink(sinks.collect(), name="out")
    cluster = SimulatedCluster(2, seed=1)
    job = cluster.submit(lowered(app.plan(), "app", 2, 3))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    found = job.writers["out"].table()
    rows = (last_by_key(found, (key,)) if key else found).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize(
    ("how", "on", "expected"),
    [
        ("inner", "auction = id", [(*ANN, 1, 3, "ANN"), (*BOB, 2, 9, "BOB"), (*BOB, 2, 1, None)]),
        (
            "left",
            "auction = id",
            [(*ANN, 1, 3, "ANN"), (*BOB, 2, 9, "BOB"), (*BOB, 2, 1, None), (*NOBODY, *NONE), (*NINE, *NONE)],
        ),
        ("leftsemi", "auction = id", [ANN, BOB]),
        ("left_anti", "auction = id", [NOBODY, NINE]),
        ("inner", "auction = id AND left.price > right.price", [(*ANN, 1, 3, "ANN"), (*BOB, 2, 1, None)]),
        (
            "left_outer",
            "upper(who) = owner AND items.price > 5",
            [*((*row, *NONE) for row in (ANN, NOBODY, NINE)), (*BOB, 2, 9, "BOB")],
        ),
        ("anti", "upper(who) = owner AND items.price > 5", [ANN, NOBODY, NINE]),
    ],
)
@pytest.mark.parametrize("distribution", ["broadcast", "partitioned"])
def test_a_join_with_a_table_is_that_of_sql(
    how: str, on: str, expected: list[tuple[Any, ...]], distribution: Distribution
) -> None:
    found = answer(lambda bids, items: bids.join(items, on, how=how), how=distribution)
    assert found == sorted(expected, key=repr)


def test_order_time_and_names_stay() -> None:
    app = App("app")
    stream = app.source("in", sources.memory([], "at timestamp, id int, x int"), time="at")
    joined = stream.join(app.table("t", pa.table({"id": [1], "X": [2]})), "id")
    assert joined.time == stream.time
    assert joined.schema.names == ["at", "id", "x", "id_right", "X_right"]
    node = joined._node
    assert isinstance(node, TableJoinNode)
    step = pickle.loads(pickle.dumps(TableJoin(node.table, node.keys, node.pair, None, JoinKind.LEFT)))
    batch = pa.RecordBatch.from_pylist([{"id": n % 3, "x": n} for n in range(9)], schema=stream.schema)
    (out,) = step(batch)
    assert out.column("x").to_pylist() == list(range(9))
    assert out.column("X_right").to_pylist() == [None, 2, None] * 3
    assert step(batch.slice(0, 0)) == []


def test_an_empty_table_matches_nothing() -> None:
    bids, items = made(items=ITEMS.slice(0, 0))
    node = bids.join(items, "auction = id", how="anti")._node
    assert isinstance(node, TableJoinNode)
    batch = pa.RecordBatch.from_pylist(BIDS, schema=bids.schema)
    assert TableJoin(node.table, node.keys, node.pair, None, node.how)(batch) == [batch]


def test_updates_stay_updates() -> None:
    def totals(bids: Stream, items: Table) -> Stream:
        running = bids.key_by("auction").aggregate(total="sum(price)")
        return running.join(running._app.table("one", ITEMS.slice(0, 1)), "auction = id", how="left")

    assert answer(totals, "auction") == sorted(
        [(1, 5, 1, 3, "ANN"), (2, 6, *NONE), (None, 7, *NONE), (9, 1, *NONE)], key=repr
    )
    bids, items = made()
    running = bids.key_by("auction").aggregate(total="sum(price)")
    one = running._app.table("one", ITEMS.slice(0, 1))
    for joined, by, removes in (
        (running.join(one, "auction = id"), ("auction",), False),
        (running.join(items, "auction = id", how="semi"), ("auction",), False),
        (running.join(items, "auction = id"), None, True),
        (running.join(one, "total = id"), ("auction",), True),
        (running.join(one, "total = id", how="left"), ("auction",), False),
        (running.filter("total > 1").join(one, "total = id", how="left"), ("auction",), True),
    ):
        assert (joined._node.changes_by, joined._node.removes) == (by, removes)


def test_what_a_table_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bids, items = made()
    for how, part in (("right", "end of the stream"), ("outer", "full join"), ("cross", "cross"), ("x", "how='x'")):
        with pytest.raises(PlanError, match=part):
            bids.join(items, "auction = id", how=how)
    with pytest.raises(PlanError, match="different apps"):
        made()[0].join(items, "auction = id")
    with pytest.raises(PlanError, match=r"app\.table"):
        bids.join(ITEMS.to_pandas(), "auction = id")  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="'names' cannot be read"):
        bids._app.table("names", tmp_path / "nothing")
    with pytest.raises(PlanError, match="'names' cannot be distributed so: how='everywhere'"):
        bids._app.table("names", ITEMS, how="everywhere")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="'names' cannot be partitioned: it is refreshed"):
        bids._app.table("names", lambda: ITEMS, refresh="1 s", how="partitioned")
    monkeypatch.setattr(tables, "TABLE_BYTES_MAX", 10)
    with pytest.raises(PlanError, match="too large to be refreshed"):
        bids._app.table("names", lambda: ITEMS, refresh="1 s")
    assert bids._app.table("names", ITEMS).data.num_rows == ITEMS.num_rows


def test_large_tables_are_partitioned_where_that_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App("app", parallelism=2)
    bids, items = made(app)

    def partition_by(table: Table, stream: Stream = bids, on: str = "auction = id") -> tuple[str, ...] | None:
        node = stream.join(table, on)._node
        assert isinstance(node, TableJoinNode)
        return node.partition_by

    assert partition_by(items) is None
    monkeypatch.setattr(tables, "BROADCAST_BYTES_MAX", 10)
    assert partition_by(items) == ("auction",)
    assert partition_by(items, on="upper(who) = owner AND auction = id") == ("__stretto_key0", "auction")
    assert partition_by(app.table("all", ITEMS, how="broadcast")) is None
    running = bids.key_by("auction").aggregate(total="sum(price)")
    assert partition_by(items, running) is None
    with pytest.raises(PlanError, match="the table is partitioned, and rows of the stream change"):
        running.join(app.table("parts", ITEMS, how="partitioned"), "auction = id")
    app = App("app", parallelism=2)
    bids, items = made(app)
    bids.join(items, "upper(who) = owner", name="joined").sink(sinks.collect())
    assert "inner join with table 'items' (4 rows, partitioned)" in explained(app.elastic(), workers=2, trigger_s=None)
    spec = lowered(app.plan(), "app", 2, 3).functions["joined"]
    assert (spec.parallelism, spec.inelastic_because) == (2, "each partition has its part of a table")


def test_the_rows_of_a_partition_are_together() -> None:
    """So a worker touches the pages of its own partitions only."""
    table = pa.table({"k": pa.array([n * 7919 % 1000 for n in range(5000)], pa.int64())})
    (piece,) = pieces_of(table, [compile_scalar("k", table.schema)], sorted_rows=True)
    owners = ShardMap.even(5).partitions_of(hash_columns(piece.rows, ("k",)))
    assert (np.diff(owners.astype(int)) >= 0).all()
    assert set(owners.tolist()) == set(range(5))


@pytest.mark.parametrize("sorted_rows", [False, True])
@pytest.mark.parametrize("piece_bytes", [1 << 30, 700, 1])
@pytest.mark.parametrize("how", [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI])
def test_pieces_change_no_answer(
    monkeypatch: pytest.MonkeyPatch, how: JoinKind, piece_bytes: int, sorted_rows: bool
) -> None:
    """Against a nested loop: the matches of a row are in the order of the table, however it is cut and sorted."""
    monkeypatch.setattr(table_index, "PIECE_BYTES", piece_bytes)
    chance = random.Random(7)
    ids = [chance.choice([None, *range(12)]) for _ in range(60)]
    table = pa.table({"k": pa.array(ids, pa.int64()), "word": [str(n) for n in range(60)]})
    rows = [{"id": chance.choice([None, *range(15)]), "x": n} for n in range(40)]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema({"id": pa.int64(), "x": pa.int64()}))
    pair = pa.schema([*batch.schema, *table.schema])
    keys = [(compile_scalar("id % 9", batch.schema), compile_scalar("k % 9", table.schema))]
    join = TableJoin(table, keys, pair, compile_predicate("x % 2 = 0 OR k > 3", pair), how, sorted_rows)
    expected = []
    for row in rows:
        found = (
            []
            if row["id"] is None
            else [
                each
                for each in table.to_pylist()
                if each["k"] is not None and each["k"] % 9 == row["id"] % 9 and (row["x"] % 2 == 0 or each["k"] > 3)
            ]
        )
        if how.sends_pairs:
            none = [{"k": None, "word": None}] if how is JoinKind.LEFT else []
            expected += [{**row, **each} for each in found or none]
        elif bool(found) is (how is JoinKind.SEMI):
            expected.append(row)
    for each in (join, pickle.loads(pickle.dumps(join))):
        assert [row for out in each(batch) for row in out.to_pylist()] == expected


@pytest.mark.parametrize("how", ["right", "full"])
def test_the_words_of_the_refusal_do_what_was_wanted(how: str) -> None:
    """The rows of the table without a match are there, by a left or full join of the table as a stream."""
    bids, items = made()
    with pytest.raises(PlanError) as caught:
        bids.join(items, "auction = id", how=how)
    other = "left" if how == "right" else "full"
    assert f"app.source('items', sources.memory(rows)).join(bids, on, how='{other}')" in str(caught.value)
    app = App("app", parallelism=2)
    stream = app.source("bids", sources.memory(BIDS, SCHEMA))
    table = app.source("items", sources.memory(ITEMS.to_pylist(), ITEMS.schema))
    table.join(stream, "id = auction", how=other).sink(sinks.collect(), name="out")
    cluster = SimulatedCluster(2, seed=1)
    job = cluster.submit(lowered(app.plan(), "app", 2, 3))
    cluster.run()
    rows = final_rows(job.writers["out"].table(), app.plan().sink_named("out")).to_pylist()
    pairs = [(1, 3, "ANN", *ANN), (2, 9, "BOB", *BOB), (2, 1, None, *BOB), (None, 4, "x", *NONE)]
    alone = [(*NONE, *NOBODY), (*NONE, *NINE)] if how == "full" else []
    assert sorted((tuple(row.values()) for row in rows), key=repr) == sorted([*pairs, *alone], key=repr)


def test_tables_are_read_from_pandas_and_parquet(tmp_path: Path) -> None:
    app = App("app")
    pq.write_table(ITEMS, tmp_path / "items.parquet")
    assert app.table("files", tmp_path).data.equals(ITEMS)
    frame = ITEMS.select(["price", "owner"]).to_pandas()
    assert app.table("frame", frame).schema.names == ["price", "owner"]
