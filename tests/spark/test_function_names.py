"""The list of Spark's functions is that of the installed Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

from stretto.expressions.spark_functions import SPARK_FUNCTIONS


def test_the_list_is_that_of_the_installed_spark(spark: SparkSession) -> None:
    assert [row[0] for row in spark.sql("SHOW FUNCTIONS").collect()] == list(SPARK_FUNCTIONS)
