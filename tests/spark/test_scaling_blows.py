"""Workers are killed in the middle of drains, and drivers in the middle of scale-outs: all rows are Spark SQL's."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stretto.bench.scaling.blows import Blows, BlowsReport, Victim, kill_drivers, kill_workers


def test_a_worker_is_killed_while_one_is_drained(spark: SparkSession) -> None:
    report = BlowsReport("q5")
    kill_workers(spark, Blows("q5", drains=2, workers=2, seed=2), report)
    assert report.match == {"drains": True}, report.complaints
    assert report.blows == {Victim.LEAVING.value: 1, Victim.STAYING.value: 1}
    assert report.recoveries >= 1


def test_the_driver_is_killed_while_it_adds_a_worker(spark: SparkSession) -> None:
    report = BlowsReport("q8")
    kill_drivers(spark, Blows("q8", drivers=1), report)
    assert report.match == {"drivers": True}, report.complaints
    assert report.blows == {Victim.DRIVER.value: 1}
