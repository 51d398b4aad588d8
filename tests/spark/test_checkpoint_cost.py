"""`stretto bench checkpoint` on Spark: runs with and without checkpoints, and how little is written."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stretto.bench.checkpoint_cost import BYTES_PER_KEY, Setup, measure
from stretto.runtime.cluster import Cluster


def test_a_small_change_writes_little_and_runs_are_compared(spark: SparkSession) -> None:
    said: list[str] = []
    with Cluster.on_spark(spark, workers=2) as cluster:
        cost = measure(cluster, 10, Setup(rounds=1, seconds=2.0, rate=50_000.0), said.append)
    assert cost.sizes.full_bytes >= cost.keys * BYTES_PER_KEY
    assert 0 < cost.sizes.share < 0.05
    found = cost.as_dict()
    assert found["written_share"] == cost.sizes.share
    assert [(run["paced"], run["durable"]) for run in found["runs"]] == [
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    ]
    for run in found["runs"]:
        assert run["rows_per_s"] > 0
        assert run["latency_ms"]["p99"] > 0
        assert (run["checkpoints"] > 0) == run["durable"]
        assert (run["written_bytes"] > 0) == run["durable"]
    assert found["throughput_ratio"] > 0
    assert found["p99_ratio"] > 0
    assert len(said) == 1 + len(cost.runs)
