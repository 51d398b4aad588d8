"""Workloads of transactions on real workers: `stretto bench transactions`, with few calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stretto import Cluster
from stretto.bench.transactions import open_loop
from stretto.bench.transactions.on_spark import OnSpark
from stretto.bench.transactions.tpcc import Tpcc
from stretto.bench.transactions.workload import Run, Workload
from stretto.bench.transactions.ycsb_t import YcsbT


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


@pytest.mark.parametrize("workload", [YcsbT(100, skew=0.99), Tpcc(1)], ids=["ycsb-t", "tpcc"])
def test_a_workload_is_measured_and_right(workload: Workload, cluster: Cluster, tmp_path: Path) -> None:
    service = OnSpark(cluster, workload, tmp_path)
    try:
        report = open_loop.measure(Run(service, workload), service, 200, 0.2)
    finally:
        service.stop()
    assert report.problems == []
    assert report.match
    assert report.conflicts
    assert report.per_cpu_s > 0
