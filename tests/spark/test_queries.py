"""Questions on real workers, each answer beside Spark SQL over the same Parquet files, while a worker is killed.

There are many more schedules in `tests/simulation/test_questions.py`, and more questions in `stretto bench queries`.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually
from typer.testing import CliRunner

import stretto
from stretto import App, Cluster, Context, Function, MapState, sinks, sources
from stretto.bench.gates import Gate
from stretto.bench.questions.asking import Asking, Names
from stretto.bench.questions.comparing import difference, rows_of
from stretto.bench.questions.rows import BEGIN, random_rows, small_rows
from stretto.cli.program import program
from stretto.dashboard.questions import TIMEOUT_S_MAX
from stretto.errors import ClusterError, ExpressionError, PlanError, UserError
from stretto.expressions.scalar import quoted
from stretto.queries.plain import plain_rows
from stretto.queries.sent import ARROW
from stretto.runtime.cluster_control import controlled

ROWS = random_rows(Random(8), 1_500, hours=8).sort_by("start")
SMALL = small_rows(Random(8))
QUESTIONS = 40


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=3, page="127.0.0.1:0") as made:
        yield made


class Jumps(Function):
    """Counts the rows of each key."""

    counts: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for key, count in Counter(batch.column("auction").to_pylist()).items():
            if key is not None:
                self.counts[key] = self.counts.get(key, 0) + count
        ctx.send(batch)


def published(gate: Gate) -> App:
    app = App("results", parallelism=3)
    # In batches, so that every partition has rows: one without any is behind all others until the gate opens.
    rows = app.source("rows", gate.before(sources.memory(ROWS, batch_rows=50)), time="start")
    rows.key_by("auction").apply(Jumps(), rows.schema, name="Jumps").sink(sinks.null())
    rows.publish("results", segment="1 hour")
    small = app.source("small", sources.memory(SMALL.append_column("at", pa.array([BEGIN] * SMALL.num_rows))))
    small.publish("small", time="at", segment="1 day")
    return app


def test_answers_are_sparks_and_survive_a_killed_worker(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", 0.4)
    job = cluster.submit(published(gate), checkpoint=tmp_path / "checkpoints", every="300 ms")
    count = "SELECT count(*) AS c FROM results"
    eventually(lambda: cluster.query(count, timeout=WAIT_S).to_pylist()[0]["c"] > ROWS.num_rows // 4)
    pieces = eventually(lambda: list((tmp_path / "checkpoints" / "tables" / "results").rglob("part-*.parquet")))
    assert all(path.parent.name.startswith("segment=2026-01-01T") for path in pieces)

    # Freshness: what has come is in the answer before it is in any file, and a time that is asked for is waited for.
    least = BEGIN + timedelta(hours=1)
    early = cluster.ask(f"{count} WHERE start < timestamp '{least}'", timeout=WAIT_S, at_least=least)
    assert early.complete
    assert early.table.to_pylist()[0]["c"] == sum(each < least for each in ROWS.column("start").to_pylist())

    # A worker is killed while questions are asked: none fails, and no row is lost or counted twice.
    homes = {actor.member for actor in cluster.observation.jobs["results"].functions["Jumps"].actors}
    os.kill(next(worker.pid for worker in cluster.workers if worker.name in homes), signal.SIGKILL)
    sums = "SELECT count(*) AS c, count(DISTINCT id) AS d FROM results"
    while not job.checkpoints.recoveries:
        (row,) = cluster.query(sums, timeout=WAIT_S).to_pylist()
        assert row["c"] == row["d"]
    # Behind the gate no new row moves event time: how far the partitions are came back with the checkpoint.
    again = cluster.ask(f"{count} WHERE start < timestamp '{least}'", timeout=WAIT_S, at_least=least)
    assert (again.complete, again.table) == (True, early.table)
    gate.open()
    eventually(lambda: cluster.query(sums, timeout=WAIT_S).to_pylist() == [{"c": ROWS.num_rows, "d": ROWS.num_rows}])
    job.wait(WAIT_S)

    # The same rows are in the files, once, and Spark gives the same answers of them.
    tables = tmp_path / "checkpoints" / "tables"
    spark.read.parquet(str(tables / "results")).drop("segment").createOrReplaceTempView("results")
    spark.read.parquet(str(tables / "small")).drop("segment", "at").createOrReplaceTempView("small")
    asking, failed = Asking(Names("results", "small"), Random(3)), 0
    for _ in range(QUESTIONS):
        text = asking.question()
        try:
            theirs = rows_of(spark.sql(text.replace("*", "results.*", 1) if "SELECT *" in text else text).toArrow())
        except Exception:
            failed += 1
            with pytest.raises(ExpressionError):
                cluster.query(text, timeout=WAIT_S)
            continue
        assert difference(rows_of(cluster.query(text, timeout=WAIT_S)), theirs, " ORDER BY " in text) is None, text
    assert failed < QUESTIONS // 4
    _check_dataframe(spark, cluster)
    decisions = eventually(lambda: [each for each in cluster.decisions() if each.controller == "copies"])
    assert decisions[0].plain()["decision"]["kind"] == "move copies"


def test_state_is_a_table_and_the_command_asks_too(cluster: Cluster, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    app = App("live", batch_rows=50, parallelism=2)
    rows = app.source("rows", gate.before(sources.memory(ROWS)), time="start")
    rows.key_by("auction").apply(Jumps(), rows.schema, name="Jumps").publish("jumps", time="start")
    app.source("same", gate.before(sources.memory(ROWS, batch_rows=50)), time="start").publish("raw")
    job = cluster.submit(app)
    eventually(lambda: cluster.query("SELECT count(*) AS c FROM jumps").to_pylist()[0]["c"] > ROWS.num_rows // 3)
    # Everything that the gate allows has come; then the state stands still, and the table has what it has seen.
    wanted = eventually(
        lambda: (
            (table := cluster.query("SELECT auction AS key, count(auction) AS value FROM jumps GROUP BY auction"))
            and (state := cluster.query("SELECT key, value FROM state.Jumps WHERE key IS NOT NULL"))
            and (mine := {row["key"]: row["value"] for row in state.to_pylist()})
            == {row["key"]: row["value"] for row in table.to_pylist() if row["key"] is not None}
            and mine
        )
    )
    assert cluster.query("SELECT value FROM state.Jumps WHERE key = 7").to_pylist() == [{"value": wanted[7]}]
    assert not list(tmp_path.rglob("*.parquet")), "without checkpoints a table is in memory only"
    with controlled(cluster):
        found = CliRunner().invoke(program, ["query", "SELECT key FROM state.Jumps WHERE key = 7", "--json"])
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["rows"] == [{"key": 7}]
        found = CliRunner().invoke(program, ["query", "SELECT nothing FROM jumps"])
        assert found.exit_code == 2
        assert "nothing" in found.output

    _check_over_http(cluster)
    with pytest.raises(UserError, match="there is no table 'nothing'"):
        cluster.query("SELECT * FROM nothing")
    other = App("other")
    other.source("rows", sources.memory(ROWS), time="start").publish("jumps")
    with pytest.raises(UserError, match="published already"):
        cluster.submit(other)
    answer = cluster.ask("SELECT count(*) FROM jumps", timeout=0.5, at_least=datetime(2030, 1, 1, tzinfo=UTC))
    assert [each.what for each in answer.missing] == ["partition 0", "partition 1"]
    # Nothing below its source needs time but the table itself; what it waits for in vain is named.
    assert cluster.ask("SELECT count(*) FROM raw", timeout=WAIT_S, at_least=BEGIN + timedelta(hours=1)).complete
    late = datetime(2030, 1, 1, tzinfo=UTC)
    eventually(
        lambda: all(
            "and not yet 2030-01-01T00:00:00+00:00" in each.reason
            for each in cluster.ask("SELECT count(*) FROM raw", timeout=1, at_least=late).missing
        )
    )
    with pytest.raises(ClusterError, match="not complete"):
        cluster.query("SELECT count(*) FROM jumps", timeout=0.5, at_least=datetime(2030, 1, 1, tzinfo=UTC))
    job.stop()


def _check_dataframe(spark: SparkSession, cluster: Cluster) -> None:
    """An answer is a DataFrame of the types, and of the rows, that Spark SQL has for the same text."""
    text = """
        SELECT auction, max(start) AS latest, avg(CAST(id AS DECIMAL(12, 3))) AS mean, NULL AS nothing,
          struct(count(*) AS n, array(min(start)) AS first) AS both, map('n', auction) AS m, true AS `with space`,
          CAST(max(start) AS DATE) AS day, INTERVAL '1 02:03:04' DAY TO SECOND AS step,
          INTERVAL '1-2' YEAR TO MONTH AS months, CAST(1 AS TINYINT) AS small, CAST(2 AS FLOAT) AS `a``b`
        FROM results WHERE {} GROUP BY auction ORDER BY auction"""
    for condition in ("true", "false"):
        mine, theirs = cluster.query_dataframe(text.format(condition)), spark.sql(text.format(condition))
        assert mine.schema.simpleString() == theirs.schema.simpleString()
        texts = [f"CAST({quoted(name)} AS STRING)" for name in mine.columns]
        assert mine.selectExpr(*texts).collect() == theirs.selectExpr(*texts).collect()


def _check_over_http(cluster: Cluster) -> None:
    """The page answers questions as the cluster does, to whoever has its token."""
    address, _, token = cluster.page.url.partition("#token=")
    with urlopen(f"{address}api/tables") as got:
        found = json.load(got)
    (jumps,) = [each for each in found["tables"] if each["name"] == "jumps"]
    names = [each["name"] for each in jumps["columns"]]
    assert (jumps["job"], jumps["time"], names) == ("live", "start", ROWS.column_names)
    assert {"name": "state.Jumps", "job": "live", "function": "Jumps", "state": "counts"} in found["states"]

    text = "SELECT auction, count(*) AS c, max(start) AS latest FROM jumps GROUP BY auction ORDER BY auction"
    body = json.dumps({"sql": text, "timeout_s": TIMEOUT_S_MAX}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with urlopen(Request(f"{address}api/query", body, headers)) as got:
        answer = json.load(got)
    wanted = cluster.query(text)
    assert (answer["complete"], answer["missing"]) == (True, [])
    assert [each["type"] for each in answer["columns"]] == ["int", "bigint", "timestamp"]
    assert answer["rows"] == plain_rows(wanted)
    with urlopen(Request(f"{address}api/query", body, {**headers, "Accept": ARROW})) as got:
        assert pa.ipc.open_stream(got.read()).read_all().equals(wanted)
    asked = stretto.connect(cluster.page.url)
    assert asked.query(text).equals(wanted)
    assert asked.ask(text).complete
    assert "jumps" in asked.tables
    with pytest.raises(UserError, match="there is no table 'nothing'"):
        asked.query("SELECT * FROM nothing")
    del headers["Authorization"]
    with pytest.raises(HTTPError, match="401"):
        urlopen(Request(f"{address}api/query", body, headers))


def test_what_cannot_be_published_is_refused() -> None:
    stream = App("wrong").source("rows", sources.memory(ROWS), time="start")
    with pytest.raises(PlanError, match="cannot be the name"):
        stream.publish("no table")
    with pytest.raises(PlanError, match="no timestamp"):
        stream.publish("results", time="bids")
    with pytest.raises(PlanError, match="keeps less than one segment"):
        stream.publish("results", keep="1 minute")
    with pytest.raises(PlanError, match="do not change"):
        stream.key_by("auction").aggregate("count(*) AS c").publish("results", time="start")
