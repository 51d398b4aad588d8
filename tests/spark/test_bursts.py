"""Batches of a running job go to transient workers on real Spark, which are killed while they have some: the answers
stay, without a checkpoint and without a recovery."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Job, sinks, sources
from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.gates import Gate
from stretto.elasticity.decisions import RedirectBurst
from stretto.errors import ClusterError
from stretto.operators.windows import tumbling
from stretto.protocol.membership import Member, MemberRole
from stretto.runtime.cluster import Cluster
from stretto.state import MapState

ROWS = 30_000
KEYS = 20
ROWS_PER_WINDOW = 5_000
BATCH_ROWS = 50
FUNCTION = "counts"
SPAN = 100
"""After so many rows another key begins; its rows last three times as long."""


class Numbered(Function):
    """Numbers the rows of each key in the order in which they come."""

    seen: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        numbers = []
        for key in batch.column("k").to_pylist():
            self.seen[key] = (self.seen.get(key) or 0) + 1
            numbers.append(self.seen[key])
        ctx.send(pa.record_batch([batch.column("k"), batch.column("i"), pa.array(numbers)], names=["k", "i", "n"]))


def numbered(gate: Gate) -> App:
    """New keys come all the time, and each has rows for a while: those that begin in a burst go elsewhere."""
    rows = pa.array(range(ROWS), pa.int64())
    table = pa.table({"k": pa.array([i // SPAN + i % 3 for i in range(ROWS)], pa.int64()), "i": rows})
    app = App("numbers", engine="actors", batch_rows=BATCH_ROWS, parallelism=1)
    stream = app.source("rows", gate.before(sources.memory(table, batch_rows=BATCH_ROWS)))
    stream.key_by("k").apply(Numbered(), "k bigint, i bigint, n bigint", name=FUNCTION).sink(
        sinks.collect(), name="out"
    )
    return app


def counted(gate: Gate) -> App:
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"t": times, "k": pa.array([i * 7 % KEYS for i in range(ROWS)], pa.int64())})
    app = App("burst", engine="actors", batch_rows=BATCH_ROWS, parallelism=1)
    source = gate.before(sources.memory(table, batch_rows=BATCH_ROWS))
    rows = app.source("rows", source, time="t", delay="0 seconds")
    windows = rows.key_by("k").window(tumbling(f"{ROWS_PER_WINDOW} milliseconds"))
    windows.aggregate(n="count(*)", name=FUNCTION).sink(sinks.collect(), name="out")
    return app


def transient(cluster: Cluster) -> list[Member]:
    return [member for member in cluster._members if member.role is MemberRole.TRANSIENT]


def busy_ns(cluster: Cluster, job: Job) -> dict[str, int]:
    """Returns how long each transient worker has run batches of the function."""
    actors = cluster.observation.jobs[job.name].functions[FUNCTION].actors
    return {actor.member: actor.totals.busy_ns for actor in actors if actor.member.startswith("t")}


def feed(gate: Gate, job: Job, there: Callable[[], Any], eventually: Callable[..., Any]) -> None:
    """Lets rows through, a few at a time, until some have come where they should."""
    for percent in range(11, 70):
        gate.allow(percent / 100)
        eventually(lambda limit=percent * ROWS // 100: job.metrics().rows_in >= limit, what="these rows")
        if there():
            return
    raise AssertionError("no row has come to a transient worker")


def rows_of(
    app_of: Callable[[Gate], App], spark: SparkSession, directory: Path, eventually: Callable[..., Any]
) -> list[dict[str, Any]]:
    """Returns what an app answers that is redirected to two transient workers, one of which is killed then."""
    gate = Gate(directory / "gate", 0.1)
    with Cluster.on_spark(spark, workers=1, transient=2, elasticity="off") as cluster:
        assert [member.name for member in cluster.workers] == ["w0~1"]
        guests = transient(cluster)
        assert sorted(member.name for member in guests) == ["t0~1", "t1~1"]
        assert all(not member.endpoint and not listening(member.pid) for member in guests)
        job = cluster.submit(app_of(gate))
        eventually(lambda: job.metrics().rows_in > 0, what="rows")

        coordinator = cluster._coordinator._machine
        eventually(lambda: len(coordinator.transients.warm(coordinator.jobs[job.name])) == 2, what="the code there")
        with pytest.raises(ClusterError, match="3 transient workers are needed, and 2 have loaded the job"):
            job.redirect(FUNCTION, 0.9, workers=3)
        record = job.redirect(FUNCTION, 0.9)
        assert isinstance(record.decision, RedirectBurst)
        assert [set(each.members) for each in record.decision.redirections] == [{member.name for member in guests}]
        feed(gate, job, lambda: busy_ns(cluster, job), eventually)
        victim = min(transient(cluster), key=lambda member: member.name)
        gate.allow(0.7)
        os.kill(victim.pid, signal.SIGKILL)
        eventually(lambda: victim.name not in {member.name for member in transient(cluster)}, what="the loss")
        eventually(lambda: len(transient(cluster)) == 2, what="another transient worker in its place")
        gate.open()
        job.wait(WAIT_S)
        rows: list[dict[str, Any]] = job.results("out").to_pylist()
        return rows


def test_killed_transient_workers_change_no_answer(
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    rows = rows_of(counted, spark, tmp_path, eventually)
    found = {(row["k"], row["window_start"]): row["n"] for row in rows}
    expected = Counter((i * 7 % KEYS, i // ROWS_PER_WINDOW) for i in range(ROWS))
    assert sorted(found.values()) == sorted(expected.values())
    assert len(found) == len(expected)


def test_killed_transient_workers_lose_no_key_of_a_users_function(
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    rows = rows_of(numbered, spark, tmp_path, eventually)
    seen: Counter[int] = Counter()
    expected = []
    for i in range(ROWS):
        key = i // SPAN + i % 3
        seen[key] += 1
        expected.append((key, i, seen[key]))
    assert sorted((row["k"], row["i"], row["n"]) for row in rows) == sorted(expected)


def listening(pid: int) -> bool:
    """Whether a process has an open port."""
    return any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections("tcp"))
