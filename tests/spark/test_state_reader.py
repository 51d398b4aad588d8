"""`stretto.state.read` and `stretto state DIR --function` on real checkpoints: their rows equal Spark SQL's."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

import stretto
from stretto import App, Context, Entity, Function, Job, ListState, MapState, sinks, sources
from stretto.bench.gates import Gate
from stretto.errors import DamagedError, StorageError
from stretto.operators.windows import tumbling
from stretto.runtime.cluster import Cluster

ROWS = 4_000
MONEY = 100


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


# Entities.


@dataclass
class Visit:
    place: str
    n: int


class Purse(Entity):
    money: int = MONEY
    owner: str | None = None
    visits: list[Visit] = []  # noqa: RUF012
    paid: dict[str, int] = {}  # noqa: RUF012

    async def pay(self, to: str, amount: int) -> None:
        if self.money < amount:
            raise ValueError(to)
        self.money -= amount
        self.paid[to] = self.paid.get(to, 0) + amount
        await Purse(to).take(amount)

    async def take(self, amount: int) -> None:
        self.money += amount

    async def visit(self, place: str) -> None:
        self.visits.append(Visit(place, len(self.visits)))
        self.owner = place


class Shelf(Entity):
    full: bool = False

    async def fill(self) -> None:
        self.full = True


@pytest.fixture(scope="module")
def entities(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Path]]:
    directory = tmp_path_factory.mktemp("entities")
    with Cluster.on_spark(spark, workers=2) as cluster:
        yield cluster.submit(App("purses", entities=[Purse, Shelf]), checkpoint=directory, every="1 s"), directory


def purses(spark: SparkSession, directory: Path) -> dict[str, dict[str, Any]]:
    rows = stretto.state.read(spark, directory, "Purse").collect()
    assert len({row.key for row in rows}) == len(rows), "one row for each"
    return {row.key: row.asDict(recursive=True) for row in rows}


def test_entities_are_those_of_a_sequential_model(spark: SparkSession, entities: tuple[Job, Path]) -> None:
    job, directory = entities
    chance, model = random.Random(5), {}
    for _ in range(60):
        one, other, amount = f"a{chance.randrange(8)}", f"a{chance.randrange(8)}", chance.randint(1, 40)
        for name in (one, other):
            model.setdefault(name, {"key": name, "money": MONEY, "owner": None, "visits": [], "paid": {}})
        if chance.random() < 0.3 or one == other:
            job.call(Purse(one).visit(other), timeout=WAIT_S)
            model[one]["visits"].append({"place": other, "n": len(model[one]["visits"])})
            model[one]["owner"] = other
        elif model[one]["money"] >= amount:
            job.call(Purse(one).pay(other, amount), timeout=WAIT_S)
            model[one]["money"] -= amount
            model[one]["paid"][other] = model[one]["paid"].get(other, 0) + amount
            model[other]["money"] += amount
        else:
            with pytest.raises(ValueError, match=other):
                job.call(Purse(one).pay(other, amount), timeout=WAIT_S)
    fresh = {"money": MONEY, "owner": None, "visits": [], "paid": {}}
    expected = {name: row for name, row in model.items() if row != {"key": name, **fresh}}
    assert len(expected) == 8

    def found() -> dict[str, dict[str, Any]]:
        job.call(Shelf("tick").fill(), timeout=WAIT_S)  # Without calls there are no snapshots.
        return purses(spark, directory)

    eventually(lambda: found() == expected, what="the last snapshot")
    frame = stretto.state.read(spark, directory, Purse)
    assert dict(frame.dtypes) == {
        "key": "string",
        "money": "bigint",
        "owner": "string",
        "visits": "array<struct<place:string,n:bigint>>",
        "paid": "map<string,bigint>",
    }
    assert frame.where("size(visits) > 0").selectExpr("sum(size(visits)) AS n").first().n == sum(
        len(row["visits"]) for row in expected.values()
    )


def test_a_snapshot_is_of_one_moment(spark: SparkSession, entities: tuple[Job, Path]) -> None:
    job, directory = entities
    ends = threading.Event()

    def load() -> None:
        chance = random.Random(6)
        while not ends.is_set():
            names = [f"m{chance.randrange(20)}" for _ in range(40)]
            calls = [Purse(one).pay(other, 1) for one, other in zip(names[::2], names[1::2], strict=True)]
            job.map(calls, return_exceptions=True, timeout=WAIT_S)

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load)
        try:
            seen = set()
            while len(seen) < 3:
                found = [row["money"] for name, row in purses(spark, directory).items() if name.startswith("m")]
                assert sum(found) == MONEY * len(found), "those without a row have all their money"
                if found:
                    seen.add(tuple(found))
        finally:
            ends.set()
        loading.result(WAIT_S)


def test_the_command_names_the_classes(entities: tuple[Job, Path]) -> None:
    _, directory = entities
    command = [sys.executable, "-m", "stretto", "state", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert "entities: Purse, Shelf" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert all(each["epoch"] >= 0 and not each["finished"] for each in json.loads(done.stdout)["checkpoints"])


def test_what_cannot_be_read_of_entities_is_said(
    spark: SparkSession, entities: tuple[Job, Path], checkpoints: Path, tmp_path: Path
) -> None:
    job, directory = entities
    assert {row.full for row in stretto.state.read(spark, directory, "Shelf").collect()} <= {True}
    assert dict(stretto.state.read(spark, directory, "Shelf").dtypes) == {"key": "string", "full": "boolean"}
    with pytest.raises(StorageError, match="app 'purses' has no entities of a class 'Stranger': it has Purse, Shelf"):
        stretto.state.read(spark, directory, "Stranger")
    with pytest.raises(stretto.UserError, match="no states to choose from"):
        stretto.state.read(spark, directory, "Purse", state="money")
    with pytest.raises(StorageError, match=r"app 'kept' has no function 'Purse': the checkpoint has .*\n  Entities of"):
        stretto.state.read(spark, checkpoints, Purse)
    with pytest.raises(StorageError, match="there is no checkpoint in"):
        stretto.state.read(spark, tmp_path, "Purse")
    assert job.stop().status.ended
    (path,) = (directory / "entities").glob("classes")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedError, match="its checksum does not match"):
        stretto.state.read(spark, directory, "Purse")
    path.unlink()
    with pytest.raises(DamagedError, match="does not say what its entities look like"):
        stretto.state.read(spark, directory, "Purse")
    path.write_bytes(content)
    assert stretto.state.read(spark, directory, "Purse").count() > 0, "also when the app has stopped"
    for piece in (directory / "entities").glob("*/pieces/*"):
        damaged = piece.read_bytes()
        piece.write_bytes(damaged[:-1] + bytes([damaged[-1] ^ 1]))
    with pytest.raises(DamagedError, match="is damaged"):
        stretto.state.read(spark, directory, "Purse")
