"""A Spark DataFrame as a source: all rows arrive, batch and streaming, and nothing of Spark is shipped."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.actors.source import SourceReader
from stretto.errors import SourceError
from stretto.runtime.connectors.dataframe import DataFrameSource, StreamingReader

# mapInArrow checks the version of pandas though pandas is not used.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


def read(reader: SourceReader, rows: int | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and (rows is None or len(found) < rows):
        reading = reader.read(time.time_ns(), 64)
        if reading.batch is not None:
            assert reading.batch.num_rows <= 64
            found += reading.batch.to_pylist()
        elif reading.done:
            break
        else:
            time.sleep(0.01)
    assert reader.position == len(found)
    return found


def test_every_row_of_a_batch_dataframe_arrives(spark: SparkSession) -> None:
    df = spark.range(0, 1000, numPartitions=3).selectExpr(
        "id", "concat('n', id) AS name", "timestamp_seconds(id) AS t", "array(id) AS list"
    )
    source = DataFrameSource(df)
    source.check()
    assert source.schema == pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("list", pa.list_(pa.int64()))]
    )
    reader = source.reader(0, 2)
    rows = read(reader)
    assert [row["id"] for row in rows] == list(range(1000))
    assert rows[7]["name"] == "n7"
    assert rows[7]["t"].timestamp() == 7
    assert read(source.reader(1, 2)) == []

    reader.seek(990)
    reading = reader.read(0, 64)
    assert reading.batch is not None
    assert reading.batch.column("id").to_pylist() == list(range(990, 1000))
    reader.close()


def test_rows_already_in_the_driver_arrive(spark: SparkSession) -> None:
    reader = DataFrameSource(spark.createDataFrame(pa.table({"a": [1, 2, 3]}))).reader(0, 1)
    assert read(reader) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_reader_can_be_closed_in_the_middle(spark: SparkSession) -> None:
    reader = DataFrameSource(spark.range(1000)).reader(0, 1)
    assert reader.read(0, 10).batch is not None
    reader.close()


def test_a_query_that_fails_is_reported(spark: SparkSession) -> None:
    reader = DataFrameSource(spark.range(10).selectExpr("id / (id - 5) AS x")).reader(0, 1)
    with pytest.raises(SourceError, match="DIVIDE_BY_ZERO") as caught:
        read(reader)
    assert len(str(caught.value).splitlines()) == 1


def test_a_streaming_query_that_fails_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(10).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "in")).selectExpr("id / (id - 5) AS x")
    reader = DataFrameSource(stream).reader(0, 1)
    with pytest.raises(SourceError, match="DIVIDE_BY_ZERO"):
        read(reader)
    reader.close()


def test_every_row_of_a_streaming_dataframe_arrives(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(0, 500, numPartitions=5).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in"))
    source = DataFrameSource(stream)
    reader = source.reader(0, 1)
    rows = read(reader, rows=500)
    assert sorted(row["id"] for row in rows) == list(range(500))
    idle = reader.read(1_000, 10)
    assert idle.batch is None
    assert idle.next_ns is not None
    with pytest.raises(SourceError, match="cannot seek"):
        reader.seek(3)
    reader.close()
    assert spark.streams.active == []


def test_a_full_queue_holds_the_query_back_and_closing_frees_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stretto.runtime.connectors.dataframe.QUEUED_BATCHES_MAX", 2)
    stream = spark.readStream.format("rate").option("rowsPerSecond", 5000).load()
    reader = DataFrameSource(stream).reader(0, 1)
    assert len(read(reader, rows=10)) >= 10
    [query] = spark.streams.active
    assert isinstance(reader, StreamingReader)
    while not reader.held_back():
        time.sleep(0.01)
    done = len(query.recentProgress)
    time.sleep(1.5)
    assert reader.held_back()
    assert len(query.recentProgress) <= done + 1
    reader.close()
    assert spark.streams.active == []


def test_nothing_of_spark_is_shipped(spark: SparkSession) -> None:
    source = pickle.loads(pickle.dumps(DataFrameSource(spark.range(3))))
    assert source.dataframe is None
    assert source.schema == pa.schema([("id", pa.int64())])
    assert source.on_driver
    assert source.needs_spark_slot
    with pytest.raises(SourceError, match="only be read in the driver"):
        source.reader(0, 1)
