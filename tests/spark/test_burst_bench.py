"""The benchmark of bursts on Spark: rows go to transient workers, and the answer is Spark SQL's."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stretto.bench.burst import vanishing
from stretto.bench.burst.load import BurstLoad
from stretto.bench.burst.measuring import Approach, measure
from stretto.bench.burst.vanishing import Vanishing
from stretto.bench.nexmark.run import SparkAnswers
from stretto.bench.verify import Match, compare

LOAD = BurstLoad("q5", before_s=4.0, burst_s=5.0, after_s=4.0, row_us=20_000.0, transient=4)


def test_a_burst_on_transient_workers_has_the_answer_of_spark_sql(spark: SparkSession) -> None:
    with SparkAnswers(spark, LOAD.config) as answers:
        expected = answers.answer(LOAD.query)
    found = measure(spark, LOAD, Approach.REDIRECT, lambda text: None)
    assert found.results is not None
    verdict = compare(found.results, expected)
    assert verdict.match is Match.MATCH, verdict.describe()
    assert verdict.rows_expected
    assert found.transient_most
    assert found.first_transient_row_s is not None


def test_killed_transient_workers_leave_the_answer_of_spark_sql(spark: SparkSession) -> None:
    report = vanishing.run(spark, Vanishing("q4", kills=2, transient=2, rows_per_kill=200))
    assert report.match, report.complaint
    assert report.kills == 2
    assert report.rows
    assert report.rows_away
