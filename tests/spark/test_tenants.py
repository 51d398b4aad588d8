"""Jobs that share workers on Spark: an urgent job with bulk work under two policies, and fair shares."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stretto import App, Context, Function, objective, sinks
from stretto.bench import tenant_shares
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.bench.tenants import OVERLOAD, Comparison, Setup, TenantsBench, TenantsRun
from stretto.runtime.cluster import Cluster

SETUP = Setup(workers=1, seconds=5.0, repeats=1, bulk_jobs=8, loads=(OVERLOAD,))
OBJECTIVE_MS = 50.0


def test_an_urgent_job_sees_less_of_bulk_work_under_llf(spark: SparkSession) -> None:
    bench = TenantsBench(SETUP)
    runs = {policy: TenantsRun(OVERLOAD, policy) for policy in ("fifo", "llf")}
    for policy, run in runs.items():
        with Cluster.on_spark(spark, workers=SETUP.workers, policy=policy) as cluster:
            bench.run(cluster, run, OBJECTIVE_MS)
        assert run.right, f"sums under {policy} are not Spark SQL's"
        assert len(run.latencies_ms) > 20
    ratios = Comparison(**runs).ratios()
    assert ratios["p50"] > 1.5
    assert runs["llf"].satisfied(OBJECTIVE_MS) >= runs["fifo"].satisfied(OBJECTIVE_MS)


def test_shares_of_three_jobs_hold_and_an_idle_one_is_lent(spark: SparkSession) -> None:
    with Cluster.on_spark(spark, workers=1, policy="fair") as cluster:
        competing, resting, back = tenant_shares.measure(cluster, 1, 3.0, 1.0, lambda text: None)
    for phase in (competing, back):
        assert phase.expected == {"small": 20.0, "middle": 40.0, "large": 40.0}
        assert phase.points_off < 6
    assert resting.expected["middle"] == pytest.approx(66.67)
    assert resting.points_off < 6
    assert all(found["large"] < 1 for found in resting.found.values())


class Sleeps(Function):
    """Takes half a second for each call, however many rows it gets."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        time.sleep(0.5)
        ctx.send(batch)


def app_of(name: str, latency: str | None, function: Function | None = None, parallelism: int = 2) -> App:
    app = App(name, engine="actors", parallelism=parallelism, slo=objective(latency=latency))
    bids = app.source("bids", NexmarkSource("bid", NexmarkConfig(events=None), 2_000.0, ["auction"]))
    if function is not None:
        bids = bids.key_by("auction").apply(function, "auction bigint", name="sleeps", parallelism=1)
    bids.sink(sinks.null(), name="out")
    return app


def test_a_function_that_sleeps_is_reported_to_those_it_delays_and_avoided_by_later_jobs(
    spark: SparkSession, eventually: Callable[..., Any]
) -> None:
    with Cluster.on_spark(spark, workers=2) as cluster:
        urgent = cluster.submit(app_of("urgent", "50 ms"))
        sleepy = cluster.submit(app_of("sleepy", None, Sleeps()))
        warned = eventually(lambda: sleepy.warnings, within_s=60.0)[0]
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
