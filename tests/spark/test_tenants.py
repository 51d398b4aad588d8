"""Jobs that share a worker on Spark: an urgent job with bulk work under two policies, and fair shares.

The latency of an urgent job is measured in virtual time (tests/simulation/test_deadlines.py); here it is the order in
which a real worker runs what waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Context, Function, Job, objective, sinks, sources
from stretto.actors.sink import Sink
from stretto.bench import tenant_shares
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.bench.tenants import OVERLOAD, Setup, TenantsBench, TenantsRun
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import Outcome
from stretto.runtime.cluster import Cluster

POINTS_MAX = 6.0
"""How far fair shares may be off. Equal ones would be off by 13."""
SETUP = Setup(workers=1, seconds=5.0, repeats=1, bulk_jobs=8, loads=(OVERLOAD,))
OBJECTIVE_MS = 50.0
BULK, URGENT = 30, 10
"""Batches; fewer than a channel has credits."""


class Noting(Function):
    """Appends the name of its job to a file, for each batch."""

    def __init__(self, name: str, file: Path) -> None:
        self._name = name
        self._file = file

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        with self._file.open("a") as file:
            file.write(f"{self._name}\n")
        time.sleep(0.005)  # Longer than a worker runs functions before it looks for messages again.


class Plug(Function):
    """Keeps its worker busy while a file exists."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self._file.touch()
        while self._file.exists():
            time.sleep(0.01)


def submitted(cluster: Cluster, name: str, function: Function, batches: int, gate: Gate, latency: str) -> Job:
    """Submits a job whose batches come from the driver, each of one row."""
    source = sources.memory([{"n": n} for n in range(batches)], batch_rows=1)
    source.on_driver = True
    app = App(name, engine="actors", parallelism=1, batch_rows=1, slo=objective(latency=latency))
    app.source("rows", gate.before(source)).apply(function, "n long", name="run").sink(sinks.null())
    return cluster.submit(app)


@pytest.mark.parametrize("policy", ["fifo", "llf"])
def test_what_waits_for_a_worker_runs_in_the_order_of_the_policy(
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., object], policy: str
) -> None:
    order, busy = tmp_path / "order", tmp_path / "busy"
    gates = {name: Gate(tmp_path / f"{name}.gate") for name in ("bulk", "urgent", "plug")}
    with Cluster.on_spark(spark, workers=1, policy=policy) as cluster:
        # So long that nothing is ever late: what is late steps aside, and that would depend on the machine.
        bulk = submitted(cluster, "bulk", Noting("bulk", order), BULK, gates["bulk"], "10 hours")
        urgent = submitted(cluster, "urgent", Noting("urgent", order), URGENT, gates["urgent"], "1 hour")
        plug = submitted(cluster, "plug", Plug(busy), 1, gates["plug"], "1 hour")
        eventually(lambda: all(job.status is JobStatus.RUNNING for job in (bulk, urgent, plug)), what="three jobs")
        gates["plug"].open()
        eventually(busy.exists, what="a busy worker")
        gates["bulk"].open()
        gates["urgent"].open()
        eventually(lambda: bulk.metrics().rows_in == BULK and urgent.metrics().rows_in == URGENT, what="all sent")
        busy.unlink()
        for job in (bulk, urgent, plug):
            job.wait(WAIT_S)
    runs = order.read_text().split()
    assert sorted(runs) == ["bulk"] * BULK + ["urgent"] * URGENT
    bulk_before_the_last_urgent = len(runs) - runs[::-1].index("urgent") - URGENT
    if policy == "fifo":
        assert bulk_before_the_last_urgent >= URGENT - 1, "one of each in turn"
    else:
        assert bulk_before_the_last_urgent < URGENT // 2, "all urgent ones first, but for what ran before they arrived"


def test_sums_are_right_under_overload(spark: SparkSession) -> None:
    run = TenantsRun(OVERLOAD, "llf")
    with Cluster.on_spark(spark, workers=SETUP.workers, policy="llf") as cluster:
        TenantsBench(SETUP).run(cluster, run, OBJECTIVE_MS)
    assert run.right, "sums are not Spark SQL's"
    assert len(run.latencies_ms) > 20


def test_shares_of_three_jobs_hold_and_an_idle_one_is_lent(spark: SparkSession) -> None:
    with Cluster.on_spark(spark, workers=1, policy="fair") as cluster:
        competing, resting, back = tenant_shares.measure(cluster, 1, 3.0, 1.0, lambda text: None, POINTS_MAX)
    for phase in (competing, back):
        assert phase.expected == {"small": 20.0, "middle": 40.0, "large": 40.0}
        assert phase.points_off < POINTS_MAX
    assert resting.expected["middle"] == pytest.approx(66.67)
    assert resting.points_off < POINTS_MAX
    assert all(found["large"] < 1 for found in resting.found.values())


class Sleeps(Function):
    """Takes so long for each call, however many rows it gets."""

    def __init__(self, seconds: float = 0.5) -> None:
        self._seconds = seconds

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        time.sleep(self._seconds)
        ctx.send(batch)


def app_of(
    name: str, latency: str | None, function: Function | None = None, parallelism: int = 2, sink: Sink | None = None
) -> App:
    app = App(name, engine="actors", parallelism=parallelism, slo=objective(latency=latency))
    bids = app.source("bids", NexmarkSource("bid", NexmarkConfig(events=None), 2_000.0, ["auction"]))
    if function is not None:
        bids = bids.key_by("auction").apply(function, "auction bigint", name="sleeps", parallelism=1)
    bids.sink(sink or sinks.null(), name="out")
    return app


def test_a_function_that_sleeps_is_reported_to_those_it_delays_and_avoided_by_later_jobs(
    spark: SparkSession, eventually: Callable[..., Any]
) -> None:
    with Cluster.on_spark(spark, workers=2) as cluster:
        urgent = cluster.submit(app_of("urgent", "50 ms"))
        sleepy = cluster.submit(app_of("sleepy", None, Sleeps()))
        warned = eventually(lambda: sleepy.warnings)[0]
        assert warned.function == "sleeps"
        assert "ran for" in warned.fact
        assert "longer than the objective of 'urgent' (50 ms)" in warned.fact
        assert eventually(lambda: urgent.warnings)[0] == warned
        later = cluster.submit(app_of("later", "50 ms", parallelism=1))
        eventually(lambda: later.name in cluster.observation.jobs)
        placement = cluster.observation.jobs[later.name].placement
        assert placement
        assert warned.worker not in {member for members in placement.values() for member in members}
        for job in (later, sleepy, urgent):
            job.stop()


def test_a_job_with_an_objective_leaves_the_worker_where_another_one_sleeps(
    spark: SparkSession, eventually: Callable[..., Any]
) -> None:
    def homes(job: Job, function: str) -> set[str]:
        return set(cluster.observation.jobs[job.name].placement[function])

    with Cluster.on_spark(spark, workers=2) as cluster:
        urgent = cluster.submit(app_of("urgent", "400 ms", sink=sinks.callback(lambda rows: None)))
        sleepy = cluster.submit(app_of("sleepy", None, Sleeps(1.5), sink=sinks.callback(lambda rows: None)))
        eventually(lambda: sleepy.status is JobStatus.RUNNING, what="both jobs")
        assert homes(urgent, "bids") & homes(sleepy, "sleeps")
        eventually(lambda: homes(urgent, "bids").isdisjoint(homes(sleepy, "sleeps")), what="jobs that are parted")
        records = [record for job in (urgent, sleepy) for record in job.decisions() if record.outcome is Outcome.DONE]
        assert {record.controller for record in records} == {"neighbours"}
        before = urgent.metrics().rows_out
        eventually(lambda: urgent.metrics().rows_out > before, what="rows after the handover")
        for job in (sleepy, urgent):
            job.stop()
