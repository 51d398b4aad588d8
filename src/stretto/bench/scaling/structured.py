"""The same query in Spark Structured Streaming, with 2, 4 and 1 partitions of its state.

A running query cannot change that: it is stopped, the state in its checkpoint is repartitioned (Spark 4.2 and later),
and it is started again. Its input is in files, of which a micro-batch takes one. Spark repartitions only what ended
with a whole micro-batch, so the query is stopped when it has taken all files that are there; the next ones are there
when it starts again. The gap is the longest time between the results of two micro-batches around a change, beyond the
usual one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stretto import sources
from stretto.actors.source import Source
from stretto.api.memory import conform
from stretto.api.relational import unsupported
from stretto.bench.nexmark.events import SCHEMAS, Kind, NexmarkConfig, stream_length
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.queries import QUERIES, Workload
from stretto.bench.nexmark.run import SparkAnswers
from stretto.bench.nexmark.workload import Streams
from stretto.bench.scaling.output import Change, gap
from stretto.bench.verify import compare
from stretto.errors import EngineError
from stretto.runtime.microbatch import STREAM_SETTINGS
from stretto.runtime.relational import session_settings, spark_schema, to_dataframes
from stretto.runtime.scratch import scratch_directory
from stretto.runtime.spark_sources import stream_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = (2, 4, 1)
MANAGER = "_streamingCheckpointManager"
"""What repartitions state. It is experimental in Spark 4.3, and a session's attribute has no public name yet."""
BATCHES = 5
POLL_S = 0.02
WAIT_S = 300.0


def restarted(
    spark: SparkSession,
    query: str,
    config: NexmarkConfig,
    note: Callable[[str], None] = lambda text: None,
    batches: int = BATCHES,
) -> dict[str, Any]:
    """Returns the gaps of a query that is restarted twice, and whether all of its rows were right. There are `batches`
    micro-batches before, between and after the restarts."""
    directory = scratch_directory("structured")
    try:
        run = _Restarts(spark.newSession(), query, config, directory, batches)
        if run.refusal is not None:
            return {"gap_ms": None, "because": run.refusal}
        changes = run.run(note)
        with SparkAnswers(spark, config) as answers:
            verdict = compare(run.table(), answers.answer(query))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    gaps = {}
    for name, change in zip(("out", "in"), changes, strict=True):
        normal_s, gap_s, _ = gap(run.results_s, change)
        gaps[name] = round(max(0.0, gap_s - normal_s) * 1e3, 1)
    # The last windows stay open: Spark does not know that the input has ended.
    return {"gap_ms": gaps, "partitions": list(PARTITIONS), "rows": verdict.rows_actual, "match": not verdict.extra}


class _Streams(Streams):
    """The events of a query as streams of files."""

    def __init__(self, spark: SparkSession, query: str, config: NexmarkConfig, directory: Path) -> None:
        super().__init__(query, Workload(config))
        self._spark = spark
        self._directory = directory
        self.kinds: dict[str, Sequence[str]] = {}

    def source(self, kind: str, columns: Sequence[str]) -> Source:
        self.kinds[kind] = columns
        whole = SCHEMAS[Kind(kind)]
        schema = spark_schema(pa.schema([whole.field(name) for name in columns]))
        where = self._directory / kind
        where.mkdir(exist_ok=True)
        files = self._spark.readStream.schema(schema).options(maxFilesPerTrigger="1").parquet(str(where))
        return sources.dataframe(files)


class _Restarts:
    """One query, its checkpoint, and what has come out of it."""

    def __init__(self, session: SparkSession, query: str, config: NexmarkConfig, directory: Path, batches: int) -> None:
        self._session = session
        self._batches = batches
        self._config = config
        self._directory = directory
        self._streams = _Streams(session, query, config, directory)
        self._streams.end(QUERIES[query](self._streams))
        self._plan = self._streams.app.plan()
        self.refusal = unsupported(self._plan, streaming=True)
        self.results_s: list[float] = []
        self._tables: list[pa.Table] = []

    def run(self, note: Callable[[str], None]) -> list[Change]:
        """Runs the query, restarts it twice, and returns when it was stopped and started."""
        self._write_files()
        began_s, changes = time.monotonic(), []
        self._put_files(0)
        running = self._start(PARTITIONS[0])
        for leg, partitions in enumerate(PARTITIONS[1:], 1):
            running.processAllAvailable()
            asked_s = time.monotonic()
            running.stop()
            self._put_files(leg)
            getattr(self._session, MANAGER).repartition(self._checkpoint, partitions)
            running = self._start(partitions)
            done_s = self._next_result_s(running)
            changes.append((began_s, asked_s, done_s))
            note(f"Structured Streaming has results with {partitions} partitions after {done_s - asked_s:.1f} s")
            began_s = done_s
        running.processAllAvailable()
        ended_s = time.monotonic()
        running.stop()
        return [Change(*times, until_s) for times, until_s in zip(changes, (changes[1][1], ended_s), strict=True)]

    def table(self) -> pa.Table:
        """Returns all rows so far."""
        return pa.concat_tables([self._plan.sink_named("out").schema.empty_table(), *self._tables])

    @property
    def _checkpoint(self) -> str:
        return str(self._directory / "checkpoint")

    def _write_files(self) -> None:
        """Writes the events, in as many files for each leg."""
        files = self._batches * len(PARTITIONS)
        length = stream_length(self._config)
        bounds = [length * place // files for place in range(files + 1)]
        for kind, columns in self._streams.kinds.items():
            for place in range(files):
                batch = generate(self._config, kind, bounds[place], bounds[place + 1], columns)
                file = self._directory / f"{kind}-{place:04d}.parquet"
                pq.write_table(pa.Table.from_batches([batch]), file)
                os.utime(file, (place, place))  # Spark reads files by their times, and two may have the same.

    def _put_files(self, leg: int) -> None:
        """Lets the files of a leg appear where the query looks for them."""
        for kind in self._streams.kinds:
            for place in range(self._batches * leg, self._batches * (leg + 1)):
                name = f"{place:04d}.parquet"
                os.rename(self._directory / f"{kind}-{name}", self._directory / kind / name)

    def _start(self, partitions: int) -> StreamingQuery:
        settings = {**STREAM_SETTINGS, "spark.sql.shuffle.partitions": str(partitions)}
        with session_settings(self._session, settings):
            frames = {
                node.name: stream_frame(self._session, node, partitions, str(self._directory / f"staged-{node.name}"))
                for node in self._plan.sources
            }
            rows = to_dataframes(self._plan, self._session, frames, streaming=True)["out"]
            writing = rows.writeStream.outputMode("append").option("checkpointLocation", self._checkpoint)
            return writing.foreachBatch(self._take).start()

    def _take(self, rows: DataFrame, batch: int) -> None:
        table = rows.toArrow()
        if table.num_rows:
            self.results_s.append(time.monotonic())
            schema = self._plan.sink_named("out").schema
            self._tables.append(pa.Table.from_batches([conform(each, schema) for each in table.to_batches()], schema))

    def _next_result_s(self, running: StreamingQuery) -> float:
        """Waits for the next results, and returns when they came."""
        known, deadline_s = len(self.results_s), time.monotonic() + WAIT_S
        while len(self.results_s) <= known:
            error = running.exception()
            if error is not None:
                raise error
            if time.monotonic() >= deadline_s:
                raise EngineError("Structured Streaming has no results", f"after it was started again, in {WAIT_S:g} s")
            time.sleep(POLL_S)
        return self.results_s[known]
