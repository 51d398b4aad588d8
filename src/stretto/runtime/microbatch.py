"""A plan as Structured Streaming queries with RocksDB state: one query per sink, under one handle.

Rows leave Spark in the driver, as Arrow, into the sink's own writer. The queries end by themselves when every source
has ended: a thread watches each, and also collects its progress. Spark requires checkpoints; they are in a temporary
directory that is removed with the query.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from stretto.actors.metrics import FunctionMetrics, merged
from stretto.actors.sink import SinkWriter
from stretto.api.plan import AggregateNode, JoinNode, Plan, SinkNode, SourceNode, WindowAggregateNode
from stretto.api.slo import SLO
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import DecisionRecord
from stretto.errors import EngineError, StrettoError
from stretto.runtime.job import Checkpoints, JobWarning
from stretto.runtime.metrics import JobMetrics, report
from stretto.runtime.query_watch import POLL_S, QueryWatch
from stretto.runtime.relational import session_settings, spark_error, to_dataframes
from stretto.runtime.scratch import scratch_directory
from stretto.runtime.spark_sources import ROWS_PER_TRIGGER, is_stream, refuse_stream, stream_frame

STREAM_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # State is written to the checkpoint as changes, not as whole files, which makes micro-batches much shorter.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # The directory is removed as a whole at the end.
    "spark.sql.streaming.minBatchesToRetain": "2",
}


class MicrobatchQuery:
    """Runs a plan as micro-batches. `start`, then `wait` or `stop`; `writers` has each sink's writer by its name."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        spark: SparkSession,
        *,
        parallelism: int | None = None,
        rows_per_trigger: int = ROWS_PER_TRIGGER,
        directory: str | None = None,
    ) -> None:
        """`parallelism` is the number of tasks that read a source and of partitions of the state; by default the number
        of Spark's cores. `directory` is for temporary files; executors must see it (default: the local one)."""
        self.name = name
        self.plan = plan
        self.writers: dict[str, SinkWriter] = {}
        self.checkpoints = Checkpoints()
        self.warnings: list[JobWarning] = []
        self.waits_for: str | None = None
        self.error: StrettoError | None = None
        self.status = JobStatus.DEPLOYING
        self._spark = spark
        self._parallelism = parallelism
        self._rows_per_trigger = rows_per_trigger
        self._parent = directory
        self._directory: Path | None = None
        self._watches: list[QueryWatch] = []
        self._supervisor: Thread | None = None
        self._stopping = Event()
        self._began = self._ended = time.monotonic()

    def start(self) -> None:
        """Starts all queries, or none: errors in the plan are raised here."""
        for source in self.plan.sources:
            refuse_stream(source)
        self._directory = scratch_directory("microbatch", self._parent)
        try:
            session = self._session()
            with session_settings(session, self._settings()):
                self._start_queries(session)
        except PySparkException as error:
            self._clean_up()
            raise EngineError(f"Spark cannot run app '{self.plan.app}' as micro-batches", str(error)) from error
        except BaseException:
            self._clean_up()
            raise
        self.status = JobStatus.RUNNING
        self._began = time.monotonic()
        self._supervisor = Thread(target=self._supervise, name=f"stretto-microbatch-{self.name}", daemon=True)
        self._supervisor.start()

    @property
    def progress(self) -> str:
        return self.status.value

    def decisions(self) -> list[DecisionRecord]:
        """Nobody decides anything about micro-batches."""
        return []

    def move_shards(self, function: str, partition: int, moves: Mapping[int, str], timeout_s: float) -> DecisionRecord:
        raise EngineError("a job in micro-batches has no shards", None, 'Use engine="actors".')

    def rescale(self, parallelism: Mapping[str, int], timeout_s: float) -> DecisionRecord:
        raise EngineError("a job in micro-batches cannot be rescaled while it runs", None, 'Use engine="actors".')

    @property
    def objective(self) -> SLO:
        return self.plan.slo

    def set_objective(self, slo: SLO, timeout_s: float) -> DecisionRecord:
        raise EngineError("a job in micro-batches keeps its objective", None, 'Use engine="actors".')

    def redirect(self, shares: Mapping[str, float], workers: int | None, timeout_s: float) -> DecisionRecord:
        raise EngineError("a job in micro-batches has no transient workers", None, 'Use engine="actors".')

    def checkpoint(self, timeout_s: float) -> int:
        raise EngineError("a job in micro-batches has no checkpoints of its own", None, 'Use engine="actors".')

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the query has ended, at most `timeout_s` seconds, and returns whether it has."""
        if self._supervisor is not None:
            self._supervisor.join(timeout_s)
        return self.status.ended

    def stop(self, drain: bool = False, savepoint: str | None = None) -> None:
        """Ends the query at once, or with `drain` after all rows read so far are processed, to the last window.

        Returns at once; `wait` for the end. A streaming DataFrame cannot be drained: its query stops."""
        if self.status.ended:
            return
        if drain and not any(is_stream(source) for source in self.plan.sources):
            assert self._directory is not None
            self._drain_file.touch()
            return
        self.status = JobStatus.STOPPING
        self._stopping.set()

    def metrics(self) -> JobMetrics:
        """Returns totals since the start. A source that several sinks read counts once.

        A row's latency is measured from the start of the latest micro-batch that read anything to the end of the one
        that wrote it: the wait for a trigger is not included."""
        ended = self._ended if self.status.ended else time.monotonic()
        measured = self._measured()
        totals = {name: merged(list(measured[name].values())) for name in self.plan.nodes if name in measured}
        return report(totals, ended - self._began, self.plan)

    def _measured(self) -> dict[str, dict[Any, FunctionMetrics]]:
        functions: dict[str, dict[Any, FunctionMetrics]] = {}
        for watch in self._watches:
            rows_read = sum(list(watch.input_rows.values()))
            for source, rows in list(watch.input_rows.items()):
                counted = functions.setdefault(source, {0: FunctionMetrics()})[0]
                counted.rows_in = counted.rows_out = max(counted.rows_in, rows)
                counted.sent_to[watch.sink] = rows
            functions[watch.sink] = {
                0: FunctionMetrics(
                    rows_in=watch.output_rows,
                    messages_in=max(1, len(watch.trigger_ms)),
                    busy_ns=round(sum(watch.trigger_ms) * 1e6),
                    # Everything read was processed: a micro-batch leaves nothing in queues.
                    executed_from=dict(watch.input_rows) if rows_read else {},
                    counts={"triggers": len(watch.trigger_ms)},
                    latency=watch.latency.export(),
                )
            }
        return functions

    @property
    def trigger_ms(self) -> dict[str, list[float]]:
        """Returns the durations of all micro-batches so far, by sink."""
        return {watch.sink: list(watch.trigger_ms) for watch in self._watches}

    @property
    def _drain_file(self) -> Path:
        assert self._directory is not None
        return self._directory / "drain"

    def _session(self) -> SparkSession:
        """Returns the session to build in."""
        for source in filter(is_stream, self.plan.sources):
            # Streams of two sessions cannot be combined, so it has to be the user's.
            return source.source.dataframe.sparkSession  # type: ignore[attr-defined,no-any-return]
        return self._spark.newSession()

    def _settings(self) -> dict[str, str]:
        """Returns the session's settings during the start; a query keeps the settings it started with."""
        return {
            **STREAM_SETTINGS,
            "spark.sql.session.timeZone": self.plan.zone,
            "spark.sql.shuffle.partitions": state_partitions(self._spark, self._parallelism),
        }

    def _start_queries(self, session: SparkSession) -> None:
        assert self._directory is not None
        tasks = self._parallelism or session.sparkContext.defaultParallelism
        frames = {
            source.name: stream_frame(
                session,
                _with_lateness(source, self.plan),
                tasks,
                staging=str(self._directory / f"source-{number}"),
                rows_per_trigger=self._rows_per_trigger,
                earliest_us=_earliest_us(self.plan),
                drain=str(self._drain_file),
            )
            for number, source in enumerate(self.plan.sources)
        }
        found = to_dataframes(self.plan, session, frames, streaming=True)
        for sink in self.plan.sinks:
            if self._watches:
                self._watches[-1].await_planner()
            self.writers[sink.name] = sink.sink.writer(sink.schema, 0, 1)
            self._watches.append(self._watch(sink, _part_for(sink, self.plan), found[sink.name]))

    def _watch(self, sink: SinkNode, part: Plan, frame: DataFrame) -> QueryWatch:
        watch = QueryWatch(sink, self.writers[sink.name], part)
        running = any(isinstance(node, AggregateNode) for node in part.nodes.values())
        writing = (
            frame.writeStream.queryName(f"{self.name}.{sink.name}.{id(self):x}")
            .outputMode("update" if running else "append")
            .option("checkpointLocation", str(self._directory) + f"/checkpoint-{len(self._watches)}")
            .foreachBatch(watch.write)
        )

        def start() -> StreamingQuery:
            with session_settings(frame.sparkSession, self._settings()):
                return writing.start()

        watch.begin(start)
        return watch

    def _supervise(self) -> None:
        try:
            status = self._run_to_the_end()
            self._stop_queries()
            if status is JobStatus.FINISHED:
                for writer in self.writers.values():
                    writer.finish()
        except BaseException as error:
            broken = next((watch.error for watch in self._watches if watch.error is not None), error)
            self.error = spark_error(self.plan.app, broken)
            status = JobStatus.FAILED
        finally:
            self._ended = time.monotonic()
            self._clean_up()
        self.status = status

    def _run_to_the_end(self) -> JobStatus:
        active = list(self._watches)
        while active:
            if self._stopping.is_set():
                return JobStatus.STOPPED
            for watch in active:
                watch.poll()
            active = [watch for watch in active if not watch.has_ended()]
            self._stopping.wait(POLL_S)
        return JobStatus.FINISHED

    def _stop_queries(self) -> None:
        for watch in self._watches:
            watch.stop()

    def _clean_up(self) -> None:
        try:
            self._stop_queries()
            for writer in self.writers.values():
                writer.close()
        finally:
            if self._directory is not None:
                shutil.rmtree(self._directory, ignore_errors=True)


def state_partitions(spark: SparkSession, parallelism: int | None) -> str:
    """Returns the number of partitions, by default that of the cores: Spark's default makes 200 small tasks per
    micro-batch."""
    return str(parallelism or spark.sparkContext.defaultParallelism)


def _part_for(sink: SinkNode, plan: Plan) -> Plan:
    """Returns the part of a plan that one sink needs."""
    needed: set[str] = set()
    waiting = [sink.name]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(plan.nodes[name].inputs)
    return Plan(plan.app, {name: node for name, node in plan.nodes.items() if name in needed}, plan.slo)


def _with_lateness(source: SourceNode, plan: Plan) -> SourceNode:
    """Returns the source with a watermark delayed by the allowed lateness, which Spark does not have."""
    late_us = max(
        (node.lateness_us for node in plan.nodes.values() if isinstance(node, WindowAggregateNode)), default=0
    )
    return replace(source, delay_us=source.delay_us + late_us)


def _earliest_us(plan: Plan) -> int:
    """Returns the first event time that Spark does not count as late: its watermark begins at 1970, and a join needs
    more."""
    return 1 if any(isinstance(node, JoinNode) and node.lower is not None for node in plan.nodes.values()) else 0
