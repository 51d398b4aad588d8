"""Workers are killed while shards move all the time: all rows are Spark SQL's."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from stretto.bench.chaos import Chaos, Fault, run
from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.runtime.cluster import Cluster


@pytest.mark.parametrize("query", ["q4", "q8"])
def test_a_query_with_shards_on_the_move_survives(spark: SparkSession, query: str) -> None:
    with Cluster.on_spark(spark, workers=3, parked=1, lost_after="1500 ms", elasticity=SHUFFLING) as cluster:
        report = run(spark, cluster, Chaos(query, kills=2, rate=4_000, faults=(Fault.KILL,), elastic=True))
    assert report.match, report.complaint
    assert report.kills == 2
    assert report.shards_moved
    assert report.as_dict()["shards_moved"] == report.shards_moved
