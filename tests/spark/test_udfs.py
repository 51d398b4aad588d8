"""Python functions in expressions, and verbs that change columns: the same rows from actors, batch twin and
micro-batches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf as spark_udf
from tests.waiting import WAIT_S

from stretto import App, Cluster, pandas_udf, sinks, sources, udf
from stretto.errors import EngineError, FunctionError
from stretto.runtime.microbatch import MicrobatchQuery
from stretto.runtime.relational import python_error

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
ROWS = [{"k": i % 3, "n": None if i % 5 == 0 else i, "s": f"s{i}", "at": NOW} for i in range(40)]
FACTOR = 3


@udf("bigint")
def tripled(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, FACTOR)


@pandas_udf("double")
def halved(numbers: pd.Series) -> pd.Series:
    return numbers / 2


@pandas_udf("timestamp")
def tomorrow(times: pd.Series) -> pd.Series:
    return times + pd.Timedelta(days=1)


@udf("bigint")
def failing(numbers: pa.Array) -> pa.Array:
    raise ValueError("not today")


def app_of(engine: str) -> App:
    app = App(f"udfs-{engine}").register(tripled, halved, tomorrow, failing)
    rows = app.source("rows", sources.memory(ROWS, "k bigint, n bigint, s string, at timestamp"))
    kept = rows.filter("tripled(n) > 30 OR n IS NULL").with_column("n", "coalesce(tripled(n), -1L)")
    kept.with_columns({"h": "halved(n)", "late": "tomorrow(at)"}).drop("at").rename({"s": "text"}).sink(
        sinks.collect(), name="rows-out"
    )
    rows.key_by("k").aggregate(total="sum(tripled(n))", most="max(halved(n))").sink(sinks.collect(), name="totals")
    return app


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_all_engines_agree(spark: SparkSession, tmp_path: Path) -> None:
    twin = app_of("batch")
    expected = {name: sorted_rows(twin.to_spark(spark, name).toArrow()) for name in ("rows-out", "totals")}
    first = min(expected["rows-out"])
    assert first == (0, -1, "s0", -0.5, NOW + dt.timedelta(days=1))
    assert not spark.catalog.functionExists("tripled")

    with Cluster.on_spark(spark, workers=2) as cluster:
        job = cluster.submit(app_of("actors"), engine="actors").wait(WAIT_S)
        for name, rows in expected.items():
            assert sorted_rows(job.results(name)) == rows, name
        micro = cluster.submit(app_of("micro"), engine="microbatch").wait(WAIT_S)
        for name, rows in expected.items():
            assert sorted_rows(micro.results(name)) == rows, name


def test_a_function_that_raises_is_named(spark: SparkSession) -> None:
    app = App("raises").register(failing)
    app.source("rows", sources.memory(ROWS)).select("failing(n) AS n").sink(sinks.collect(), name="out")
    with pytest.raises(Exception, match="not today") as caught:
        app.to_spark(spark).toArrow()
    assert isinstance(python_error(caught.value), FunctionError)
    with Cluster.on_spark(spark, workers=1) as cluster, pytest.raises(FunctionError, match="function 'failing'") as job:
        cluster.submit(app, engine="actors").wait(WAIT_S)
    assert "not today" in str(job.value)
    query = MicrobatchQuery("raises", app.plan(), spark)
    query.start()
    assert query.wait(WAIT_S)
    assert isinstance(query.error, FunctionError)
    assert "function 'failing'" in str(query.error)


def test_a_function_of_the_session_is_not_replaced(spark: SparkSession) -> None:
    spark.udf.register("tripled", spark_udf(lambda n: n, "bigint"))
    try:
        with pytest.raises(EngineError, match="the session has a function of this name"):
            app_of("batch").to_spark(spark, "totals")
        assert spark.sql("SELECT tripled(2L)").collect()[0][0] == 2
    finally:
        spark.sql("DROP TEMPORARY FUNCTION tripled")
