"""A Spark query that continues from a job is stopped and started at random, while the job runs and loses a worker.

The query writes Parquet with `foreachBatch`: a batch that runs again replaces what it had written. At the end every row
of the job must be there once. The job's source stands behind a gate, so that each start finds something to read.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from stretto.api.app import App
from stretto.bench.chaos import WAIT_S, Fault, inject, wait_until
from stretto.bench.gates import Gate
from stretto.coordinator.records import JobStatus
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.sinks import stream
from stretto.sources import parquet
from stretto.streams import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSE_S = 0.4
"""The longest time from the start of a query, or from its first rows, to its end."""


@dataclass(frozen=True)
class Found:
    """What the output has, and what happened on the way."""

    stops: int
    stopped_after_a_batch: int
    batches: int
    rows: int
    missing: int
    repeated: int
    recoveries: int

    @property
    def is_right(self) -> bool:
        return not self.missing and not self.repeated


def run(spark: SparkSession, cluster: Cluster, directory: Path, stops: int, rows: int, seed: int) -> Found:
    """Returns what the output has after so many stops, and one more query to the end."""
    rounds, chance = _Rounds(directory), random.Random(seed)
    pq.write_table(pa.table({"n": range(rows)}), directory / "rows.parquet", row_group_size=max(1, rows // 20))
    gate = Gate(directory / "gate", 0.0)
    app = App("epochs", engine="actors", parallelism=2, batch_rows=100)
    source = app.source("rows", gate.before(parquet(directory / "rows.parquet")))
    source.sink(stream(directory / "epochs"), name="out")
    job = cluster.submit(app, checkpoint=directory / "checkpoints", every="200 ms")
    grown = 0
    for stop in range(stops):
        gate.allow((stop + 1) / (stops + 1))
        before = rounds.count()
        # Every other query is stopped whatever it has done so far, the others when they have written something.
        query = rounds.start(job.stream("out"))
        if stop % 2:
            _wait_for_batch(query, rounds, before, job)
        time.sleep(chance.uniform(0, PAUSE_S))
        _stop(query)
        grown += rounds.count() > before
        if stop == stops // 2:
            _kill_a_worker(cluster, job, chance)
    gate.open()
    if job.wait(WAIT_S).status is not JobStatus.FINISHED:
        raise UserError("the job did not end", str(job.error))
    _stop(rounds.start(read(spark, directory / "epochs"), to_the_end=True))
    times = Counter(rounds.found())
    missing = sum(number not in times for number in range(rows))
    return Found(
        stops, grown, rounds.batches, times.total(), missing, times.total() - len(times), job.checkpoints.recoveries
    )


class _Rounds:
    """The query's output and progress, which outlast its runs."""

    def __init__(self, directory: Path) -> None:
        self._output = directory / "output"
        self._progress = directory / "query"

    def start(self, frame: DataFrame, to_the_end: bool = False) -> StreamingQuery:
        writing = frame.writeStream.foreachBatch(self._append).option("checkpointLocation", str(self._progress))
        if not to_the_end:
            return writing.start()
        query = writing.trigger(availableNow=True).start()
        if not query.awaitTermination(int(WAIT_S)):
            raise UserError("the last query did not end", f"in {WAIT_S:.0f} s")
        return query

    def _append(self, frame: DataFrame, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(self._output / f"batch={batch}"))

    @property
    def batches(self) -> int:
        return len(list(self._output.glob("batch=*/_SUCCESS")))

    def count(self) -> int:
        """Returns how many batches Spark has committed. Files cannot be counted: a batch may just run again."""
        return sum(each.name.isdigit() for each in self._progress.glob("commits/*"))

    def found(self) -> list[int]:
        return [number for file in self._files() for number in pq.read_table(file)["n"].to_pylist()]

    def _files(self) -> list[Path]:
        """Returns the files of the batches that were written to their end."""
        return [file for done in self._output.glob("batch=*/_SUCCESS") for file in done.parent.glob("part-*.parquet")]


def _wait_for_batch(query: StreamingQuery, rounds: _Rounds, before: int, job: Job) -> None:
    _wait(lambda: query.exception() or rounds.count() > before, job)


def _kill_a_worker(cluster: Cluster, job: Job, chance: random.Random) -> None:
    recoveries = job.checkpoints.recoveries
    inject(cluster, Fault.KILL, chance)
    _wait(lambda: job.checkpoints.recoveries > recoveries, job)


def _stop(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None:
        raise UserError("the Spark query failed", str(error)[:500])
    query.stop()


def _wait(condition: Callable[[], object], job: Job) -> None:
    if not wait_until(lambda: bool(condition()) or job.status.ended) or job.status.ended:
        raise UserError("the job or its query came to a halt", f"the job is {job.status.value}: {job.error}")
