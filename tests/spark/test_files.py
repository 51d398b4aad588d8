"""Files that sinks write are read by Spark as the same rows, from actors with checkpoints and from micro-batches."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, sinks, sources

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

SCHEMA = "n bigint, s string, d decimal(10,2), x double, b boolean, day date, at timestamp"
NAMES = [column.split()[0] for column in SCHEMA.split(", ")]
AT = dt.datetime(2026, 1, 1, 12, 0, 0, 123_456, dt.UTC)
VALUES: list[tuple[Any, ...]] = [
    (-(2**63), 'a "quoted", text\nof lines, é\\', Decimal("-1.50"), 0.1, True, dt.date(2026, 1, 31), AT),
    (None, None, None, None, None, None, None),
    (3, "", Decimal("0.00"), float("inf"), False, dt.date(1969, 7, 20), dt.datetime(1969, 7, 20, tzinfo=dt.UTC)),
    (4, "null", Decimal("99999999.99"), -1e300, None, None, None),
    (5, "a/b=c%", None, 1e-5, None, dt.date(2026, 1, 31), None),
]


def app_of(name: str, out: Path) -> App:
    app = App(name, parallelism=2)
    rows = [dict(zip(NAMES, row, strict=True)) for row in VALUES]
    stream = app.source("rows", sources.memory(rows, SCHEMA, batch_rows=2))
    stream.sink(sinks.csv(out / "csv"), name="csv")
    stream.sink(sinks.jsonl(out / "jsonl"), name="jsonl")
    stream.sink(sinks.parquet(out / "parquet", partition_by=["day", "s"]), name="parquet")
    return app


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in frame.select(*NAMES).toArrow().to_pylist()), key=repr)


def check(spark: SparkSession, out: Path) -> None:
    assert rows_of(spark.read.schema(SCHEMA).json(str(out / "jsonl"))) == sorted(VALUES, key=repr)
    # Spark reads an empty text in CSV as null, also in quotes, and has one directory for both.
    without_empty = sorted(((n, s or None, *rest) for n, s, *rest in VALUES), key=repr)
    read = spark.read.csv(str(out / "csv"), SCHEMA, header=True, escape='"', multiLine=True)
    assert rows_of(read) == without_empty
    assert rows_of(spark.read.schema(SCHEMA).parquet(str(out / "parquet"))) == without_empty


def test_spark_reads_what_sinks_have_written(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster.on_spark(spark, workers=2) as cluster:
        durable = {"checkpoint": tmp_path / "checkpoints", "every": "200 ms"}
        cluster.submit(app_of("durable", tmp_path / "durable"), engine="actors", **durable).wait(WAIT_S)  # type: ignore[arg-type]
        cluster.submit(app_of("plain", tmp_path / "plain"), engine="actors").wait(WAIT_S)
        cluster.submit(app_of("micro", tmp_path / "micro"), engine="microbatch").wait(WAIT_S)
    for kind in ("durable", "plain", "micro"):
        check(spark, tmp_path / kind)


def test_a_csv_source_reads_what_spark_has_written(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for row in VALUES if row[1] is None or '"' not in row[1]]  # Spark writes \" where others write "".
    frame = spark.createDataFrame(rows, SCHEMA)
    frame.coalesce(1).write.csv(str(tmp_path / "in"), header=True, timestampFormat="yyyy-MM-dd HH:mm:ss.SSSSSSXXX")
    app = App("read")
    app.source("rows", sources.csv(tmp_path / "in", SCHEMA)).sink(sinks.collect(), name="out")
    with Cluster.on_spark(spark, workers=1) as cluster:
        found = cluster.submit(app, engine="actors").wait(WAIT_S).results()
    assert sorted((tuple(row.values()) for row in found.to_pylist()), key=repr) == sorted(rows, key=repr)
