"""Deadly functions beside good jobs on real workers; `stretto bench chaos --neighbours` runs all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from stretto.bench.deadly import Deadly
from stretto.bench.neighbours import Neighbours, run
from stretto.runtime.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as started:
        yield started


@pytest.mark.parametrize("kind", [Deadly.SEGFAULT, Deadly.SYSTEM_EXIT, Deadly.SPIN])
def test_a_deadly_function_harms_no_other_job(spark: SparkSession, cluster: Cluster, kind: Deadly) -> None:
    report = run(spark, cluster, Neighbours((kind,), events=6_000, rate=1_500.0))
    (found,) = report.rounds
    assert report.passed, found
    if kind is Deadly.SYSTEM_EXIT:
        assert found.said.startswith("function 'deadly_system_exit' raised SystemExit: 3")
        assert (found.recoveries, *found.good_recoveries.values()) == (0, 0, 0, 0), "no worker was lost"
    elif kind is Deadly.SEGFAULT:
        assert found.said.startswith("function 'deadly_segfault' of job 'bad-segfault' ends the process of its workers")
        assert found.said.endswith("its process was killed by SIGSEGV")
    else:
        assert "function 'deadly_spin' of job 'bad-spin' had not returned" in found.said
