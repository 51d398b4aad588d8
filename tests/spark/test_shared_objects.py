"""Shared objects on real workers: in their memory while one is killed, and in a real Redis, which is lost for a while.

There are many more schedules in `tests/simulation/test_shared_objects.py`.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

import stretto.state
from stretto import App, Cluster, Context, Function, SharedState, sinks, sources
from stretto.bench.gates import Gate
from stretto.bench.social.own_redis import OwnRedis
from stretto.bench.social.run import Setting, serve
from stretto.coordinator.records import JobStatus
from stretto.errors import StrettoError

SMALL = Setting(users=30, follows=4, requests=1_000)
SCHEMA = pa.schema([("n", pa.int64())])
SEEN = pa.schema([("n", pa.int64()), ("seen", pa.int64())])


class Note(Function):
    """Appends each number to one list, and counts them."""

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared

    def shared_reads(self, batch: pa.RecordBatch, ctx: Context) -> Any:
        return [self.shared.list("numbers", int), self.shared.counter("count")]

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        numbers = self.shared.list("numbers", int)
        assert len(set(numbers.get())) == len(numbers.get())
        seen = []
        for n in batch.column("n").to_pylist():
            numbers.append(n, once=str(n))
            self.shared.counter("count").add(once=str(n))
            seen.append(len(numbers.get()))
        ctx.send(pa.RecordBatch.from_arrays([batch.column("n"), pa.array(seen, pa.int64())], schema=SEEN))


def noting(source: Any, shared: SharedState) -> App:
    app = App("noting", batch_rows=16)
    app.source("numbers", source).apply(Note(shared), SEEN, name="note", parallelism=2).sink(sinks.collect())
    return app


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRedis]:
    with OwnRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server


def rows(count: int) -> pa.Table:
    return pa.table([list(range(count))], schema=SCHEMA)


@pytest.mark.parametrize(("on_server", "fresh"), [(False, "200 ms"), (True, "always"), (True, "1 hour")])
def test_the_network_is_served_right(cluster: Cluster, redis: OwnRedis, on_server: bool, fresh: str) -> None:
    name = f"{on_server}-{len(fresh)}".lower()
    served = serve(cluster, name, SMALL, redis.url if on_server else None, fresh)
    assert served.match, served.wrong
    assert served.reads > 0
    assert served.fetches > 0
    if fresh == "1 hour":  # More batches than can wait at once: later ones find what earlier ones have asked for.
        assert served.fetches < served.reads


def test_writes_to_the_workers_memory_are_made_once_although_a_worker_is_killed(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    app = noting(gate.before(sources.memory(rows(1_000))), SharedState(fresh="always"))
    job = cluster.submit(app, checkpoint=tmp_path / "noting", every="200 ms")
    eventually(lambda: job.results().num_rows > 0)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries > 0)
    gate.open()
    job.wait(WAIT_S)
    assert job.status is JobStatus.FINISHED
    assert sorted(job.results().column("n").to_pylist()) == list(range(1_000))
    found = stretto.state.read(spark, tmp_path / "noting", "shared").toArrow().to_pylist()
    held = dict(map(_named, found))
    assert held == {"numbers": 1_000, "count": 1_000}


def _named(row: dict[str, Any]) -> tuple[str, int]:
    """Returns the name and the version of an object, from a row of the state."""
    (name,) = row["key"].values()
    (value,) = row["value"].values()
    _, version, _ = value.values() if isinstance(value, dict) else value
    return name, version


def test_a_lost_redis_is_waited_for_and_its_password_is_nowhere(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    gate = Gate(tmp_path / "gate", 0.3)
    with OwnRedis(tmp_path) as server:
        shared = SharedState(server.url, space="lost", patience="20 minutes")
        job = cluster.submit(noting(gate.before(sources.memory(rows(400))), shared), checkpoint=tmp_path / "checkpoint")
        eventually(lambda: job.results().num_rows or job.metrics().rows_out)
        server.stop()
        gate.open()
        server.start()
        job.wait(WAIT_S)
        assert sorted(job.results().column("n").to_pylist()) == list(range(400))
        password = server.password
    hasty = SharedState(server.url, space="lost", patience="100 ms")
    failing = cluster.submit(noting(sources.memory(rows(10)), hasty))
    with pytest.raises(StrettoError, match=r"space 'lost' cannot be (read from|written to) their server") as caught:
        failing.wait(WAIT_S)
    assert password not in str(caught.value)
    assert password not in repr(shared)
    assert password not in caplog.text
    stored = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert stored
    assert not any(password.encode() in content for content in stored)


def test_a_wrong_password_fails_the_job_at_once(cluster: Cluster, redis: OwnRedis) -> None:
    shared = SharedState(redis.url.replace(redis.password, "wrong-secret"), space="denied", patience="1 hour")
    failing = cluster.submit(noting(sources.memory(rows(10)), shared))
    with pytest.raises(StrettoError, match="cannot be") as caught:
        failing.wait(WAIT_S)
    assert "wrong-secret" not in str(caught.value)


def test_a_space_without_a_server_ends_with_its_app(cluster: Cluster) -> None:
    job = cluster.submit(noting(sources.memory(rows(50)), SharedState()))
    job.wait(WAIT_S)
    assert max(job.results().column("seen").to_pylist()) <= 50
    again = cluster.submit(noting(sources.memory(rows(50)), SharedState()))
    again.wait(WAIT_S)
    assert max(again.results().column("seen").to_pylist()) <= 50
