"""The benchmarks of elastic functions on a real cluster, small: their answers are right, and they measure something."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from stretto.bench.elastic.hot_partition import HotPartition, HotReport, measure_scaling, measure_shift
from stretto.bench.elastic.shard_moves import KB, measure
from stretto.runtime.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2, elasticity="off") as cluster:
        yield cluster


def test_shards_move_and_rows_stay_in_order(cluster: Cluster) -> None:
    report = measure(cluster, 5, sizes=[32 * KB, 2048 * KB], upstreams=[1, 4], stretches=1)
    found = report.as_dict()
    assert found["match"]
    assert found["moves"] >= 20
    assert all(run.others_ms[True] and run.others_ms[False] for run in report.by_size)
    assert all(0 < wait_ms["p50"] <= wait_ms["p99"] for wait_ms in found["wait_ms"].values())


def test_a_partition_runs_on_two_workers(cluster: Cluster) -> None:
    report = HotReport()
    asked = HotPartition(workers=2, seconds=1.0, scaling_s=0.3)
    measure_scaling(cluster, asked, report, lambda text: None, [1, 2])
    for approach in ("resource_centric", "elastic"):
        measure_shift(cluster, asked, approach, report)
    assert not report.wrong
    assert all(report.scaling[count] > 0 for count in (1, 2))
    assert report.throughput["resource_centric"]
    assert report.throughput["elastic"]
