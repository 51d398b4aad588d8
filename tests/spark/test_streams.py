"""Spark goes on from a job: a query over its epochs is stopped and started while the job runs and loses a worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, sinks, sources, streams
from stretto.actors.address import Attempt
from stretto.bench import stops
from stretto.coordinator.records import JobStatus
from stretto.errors import UserError
from stretto.runtime.connectors.epochs import EpochSink

ROWS = 12_000
STOPS = 4


def test_every_row_is_in_sparks_output_once(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster.on_spark(spark, workers=2, parked=1, lost_after="30 s") as cluster:
        found = stops.run(spark, cluster, tmp_path, STOPS, ROWS, seed=1)
    assert found.is_right, found
    assert (found.stops, found.rows) == (STOPS, ROWS)
    assert found.stopped_after_a_batch >= STOPS // 2
    assert found.recoveries >= 1


def test_a_row_that_is_missing_or_repeated_is_found() -> None:
    good = stops.Found(1, 1, 1, 10, missing=0, repeated=0, recoveries=0)
    assert good.is_right
    assert not stops.Found(1, 1, 1, 9, missing=1, repeated=0, recoveries=0).is_right
    assert not stops.Found(1, 1, 1, 11, missing=0, repeated=1, recoveries=0).is_right


def test_a_sink_of_another_kind_is_no_stream(spark: SparkSession) -> None:
    with Cluster.on_spark(spark, workers=1) as cluster:
        app = App("kept")
        app.source("rows", sources.memory(pa.table({"n": [1]}))).sink(sinks.collect(), name="kept")
        job = cluster.submit(app)
        assert job.wait(WAIT_S).status is JobStatus.FINISHED
        with pytest.raises(UserError, match="sink 'kept' of job 'kept' is no stream"):
            job.stream("kept")


def test_a_query_that_failed_in_a_batch_has_what_came_since_as_well(spark: SparkSession, tmp_path: Path) -> None:
    sink = EpochSink(tmp_path / "epochs")
    schema = pa.schema([("n", pa.int64())])
    epochs = sink.checkpointed_writer(schema, 0, 1, Attempt("0123abcd", 1, 1))
    written: dict[int, list[int]] = {}

    def published(epoch: int) -> None:
        epochs.write(pa.record_batch([[epoch]], schema=schema))
        epochs.publish(epoch, epochs.seal(epoch))

    def fail(frame: DataFrame, batch: int) -> None:
        raise ValueError("on purpose")

    def append(frame: DataFrame, batch: int) -> None:
        written[batch] = [row.n for row in frame.collect()]

    def run(then: Callable[[DataFrame, int], None]) -> None:
        rows = streams.read(spark, tmp_path / "epochs").writeStream.foreachBatch(then)
        query = rows.option("checkpointLocation", str(tmp_path / "query")).trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S))

    published(1)
    with pytest.raises(StreamingQueryException, match="on purpose"):
        run(fail)
    published(2)
    run(append)
    assert written == {0: [1], 1: [2]}
