"""The benchmark of scaling, small: rows are right while workers come and go, and figures are there."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from stretto.bench.scaling import structured
from stretto.bench.scaling.query import Scaled, run


def test_a_query_is_scaled_while_it_runs(spark: SparkSession) -> None:
    report = run(spark, Scaled("q4", stretch_s=0.5, rate=20_000))
    found = report.as_dict()
    assert found["match"], report.complaint
    assert found["rows"] > 0
    assert found["gap_ms"].keys() == found["converged_s"].keys() == {"out", "in"}
    assert 0 <= found["dip"] <= 1
    assert found["paused_ms"] > 0


def test_structured_streaming_is_restarted_with_other_partitions(spark: SparkSession) -> None:
    found = structured.restarted(spark, "q7", replace(Scaled("q7").config, events=6_000), batches=2)
    assert found["match"]
    assert found["rows"] > 0
    assert found["gap_ms"].keys() == {"out", "in"}


def test_spark_has_no_running_aggregate_over_another_one(spark: SparkSession) -> None:
    found = structured.restarted(spark, "q4", Scaled("q4").config)
    assert found["gap_ms"] is None
    assert "'winners'" in found["because"]
