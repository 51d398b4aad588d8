"""Jobs that share workers on Spark: an urgent job with bulk work under two policies, and fair shares."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from stretto.bench import tenant_shares
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
