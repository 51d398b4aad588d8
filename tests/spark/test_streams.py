"""Spark goes on from a job: a query over its epochs is stopped and started while the job runs and loses a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, sinks, sources, streams
from stretto.actors.address import Attempt
from stretto.bench.gates import Gate
from stretto.coordinator.records import JobStatus
from stretto.errors import UserError
from stretto.runtime.connectors.epochs import EpochSink

ROWS = 12_000
STOPS = 4


def test_every_row_is_in_sparks_output_once(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(ROWS))}), tmp_path / "rows.parquet", row_group_size=1_000)
    gate = Gate(tmp_path / "gate", 0.0)
    output = tmp_path / "output"

    def append(frame: DataFrame, batch: int) -> None:
        # A batch that runs again after a stop replaces what it had written.
        frame.write.mode("overwrite").parquet(str(output / f"batch={batch}"))

    def found() -> list[int]:
        files = list(output.glob("batch=*/part-*.parquet"))
        return sorted(number for file in files for number in pq.read_table(file)["n"].to_pylist())

    with Cluster.on_spark(spark, workers=2, parked=1, lost_after="30 s") as cluster:
        app = App("epochs", parallelism=2, batch_rows=100)
        rows = app.source("rows", gate.before(sources.parquet(tmp_path / "rows.parquet")))
        rows.sink(sinks.stream(tmp_path / "epochs"), name="out")
        rows.sink(sinks.collect(), name="kept")
        job = cluster.submit(app, checkpoint=tmp_path / "checkpoints", every="200 ms")
        for stop in range(STOPS):
            gate.allow((stop + 1) / (STOPS + 1))
            query = (
                job.stream("out")
                .writeStream.foreachBatch(append)
                .option("checkpointLocation", str(tmp_path / "query"))
                .start()
            )
            seen = len(found())
            eventually(lambda seen=seen, query=query: query.exception() or len(found()) > seen)
            assert query.exception() is None
            query.stop()
            if stop == STOPS // 2:
                recoveries = job.checkpoints.recoveries
                victim = eventually(lambda: sorted(cluster.busy_workers & {each.name for each in cluster.workers}))[0]
                os.kill(next(each.pid for each in cluster.workers if each.name == victim), signal.SIGKILL)
                eventually(lambda recoveries=recoveries: job.checkpoints.recoveries > recoveries)
        gate.open()
        assert job.wait(WAIT_S).status is JobStatus.FINISHED
        last = streams.read(spark, tmp_path / "epochs").writeStream.foreachBatch(append)
        query = last.option("checkpointLocation", str(tmp_path / "query")).trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S))
        with pytest.raises(UserError, match="sink 'kept' of job 'epochs' is no stream"):
            job.stream("kept")
    assert found() == list(range(ROWS))


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
