"""Runs NEXMark queries on a cluster and compares their answers, row by row, with Spark SQL over the same events.

A `Bench` starts queries, one by one or several at once; the caller waits for them, and then calls `finish` for each.
The verdict is a pure function of two tables (`verify`), so that it can be tested without Spark.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset

from stretto.bench.nexmark import oracle
from stretto.bench.nexmark.events import NexmarkConfig, count_events, stream_length
from stretto.bench.nexmark.queries import PARTITIONED, QUERIES, Workload
from stretto.bench.nexmark.source import NexmarkSource
from stretto.bench.nexmark.sql_queries import built
from stretto.bench.verify import Match, Verdict, compare
from stretto.errors import EngineError, StrettoError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.02
OUT, INGESTED = "out", "ingested"
"""The sinks of a query: its answer, and for query 12 each bid with its ingestion time."""

LATENCIES = ("p50", "p95", "p99", "max")


def chosen(names: Iterable[str]) -> list[str]:
    """Returns the requested queries, each once; `all` means every query."""
    found: dict[str, None] = {}
    for name in names:
        if name == "all":
            found.update(dict.fromkeys(QUERIES))
        elif name in QUERIES:
            found[name] = None
        else:
            raise UserError(
                f"there is no NEXMark query '{name}'", None, f"Choose all, or some of {', '.join(QUERIES)}."
            )
    return list(found)


# Outcomes


class Status(Enum):
    """How a query ended."""

    FINISHED = "finished"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query's figures. `verdicts` is by sink, or None where nothing was compared."""

    query: str
    status: Status
    workload: Workload
    engine: str
    workers: int
    spark_app_id: str
    rows: int | None = None
    elapsed_s: float | None = None
    latency_ms: Mapping[str, float | None] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] | None = None
    error: str | None = None
    shards_moved: int | None = None
    """How many shards have moved, counted over the last decisions; None if no function was to be elastic."""

    @property
    def match(self) -> bool | None:
        """True only when every row was compared and equal; None when there was no comparison."""
        if not self.verdicts:
            return None
        return all(verdict.match is Match.MATCH for verdict in self.verdicts.values())

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong; a query that the engine cannot express is not a mismatch."""
        return self.status is not Status.FAILED and self.match is not False

    @property
    def events_per_s(self) -> float | None:
        return stream_length(self.workload.config) / self.elapsed_s if self.elapsed_s else None

    def as_json(self) -> dict[str, Any]:
        """Returns the object that `--json` prints."""
        config = self.workload.config
        line: dict[str, Any] = {
            "query": self.query,
            "events": stream_length(config),
            "rows": self.rows,
            "match": self.match,
            "events_per_s": _rounded(self.events_per_s, 1),
            "latency_ms": {name: _rounded(self.latency_ms.get(name), 3) for name in LATENCIES},
            "workers": self.workers,
            "spark_app_id": self.spark_app_id,
            "engine": self.engine,
            "seed": config.seed,
            "parallelism": self.workload.parallelism or self.workers,
            "batch": self.workload.batch,
            "disorder_s": config.disorder_s,
            "event_rate": config.event_rate,
            "rate": self.workload.rate,
            "timezone": self.workload.timezone,
            "elapsed_s": _rounded(self.elapsed_s, 3),
        }
        if self.workload.sql:
            line["sql"] = True
        if self.shards_moved is not None:
            line["shards_moved"] = self.shards_moved
        if self.error is not None:
            line["error"] = self.error
        return line

    def complaints(self) -> list[str]:
        """Returns the problems: failures, mismatches with witnesses, empty comparisons."""
        problems = [f"{self.query}: {self.error}"] if self.error else []
        for sink, verdict in (self.verdicts or {}).items():
            if verdict.match is Match.MISMATCH or not verdict.rows_expected:
                problems.append(f"{self.query}: sink '{sink}': {verdict.describe()}")
        return problems


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 when every query is right or was not checked, 1 when one is wrong or failed, or there was none."""
    return 0 if outcomes and all(outcome.is_good for outcome in outcomes) else 1


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


# Checking


class Answers(Protocol):
    """Provides the right answers."""

    def answer(self, query: str, ingested: pa.Table | None = None) -> pa.Table:
        """Returns a query's answer; query 12 needs the recorded bids."""

    def bids(self, columns: Sequence[str]) -> pa.Table:
        """Returns the generated bids."""


def verify(query: str, results: Mapping[str, pa.Table], answers: Answers) -> dict[str, Verdict]:
    """Compare a query's results, by sink, with the right ones.

    Query 12 depends on when bids arrived, so its reference is computed over the bids that it recorded, and the record
    must hold exactly the generated bids."""
    verdicts: dict[str, Verdict] = {}
    ingested = results.get(INGESTED)
    if ingested is not None:
        columns = [name for name in ingested.column_names if name != "ingestTime"]
        verdicts[INGESTED] = compare(ingested.select(columns), answers.bids(columns))
    verdicts[OUT] = compare(results[OUT], answers.answer(query, ingested))
    return verdicts


class SparkAnswers:
    """Spark SQL's answers. The events are written once, as Parquet, and removed when the `with` block ends."""

    def __init__(self, spark: SparkSession, config: NexmarkConfig, timezone: str = "UTC") -> None:
        self._directory = scratch_directory("nexmark")
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.session.timeZone", timezone)
        try:
            oracle.write_events(config, self._directory)
            oracle.load_views(self._session, self._directory)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def __enter__(self) -> SparkAnswers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def answer(self, query: str, ingested: pa.Table | None = None) -> pa.Table:
        if ingested is not None:
            target = self._directory / "bid_ingested"
            target.mkdir(exist_ok=True)
            pq.write_table(ingested, target / "events.parquet")
            oracle.load_views(self._session, self._directory)
        return self._session.sql(oracle.QUERIES[query]).toArrow()

    def bids(self, columns: Sequence[str]) -> pa.Table:
        return self._session.table("bid").select(*columns).toArrow()


# Running


@dataclass(frozen=True, slots=True)
class Running:
    """A started query; if the engine refused it, it has a reason instead of a job."""

    query: str
    job: Job | None
    refusal: str | None = None
    files: Path | None = None
    """Where a query writes whose answer is files."""

    @property
    def has_ended(self) -> bool:
        return self.job is None or self.job.status.ended


class Bench:
    """Runs queries of one workload on one cluster, and checks them if `answers` is given."""

    def __init__(self, cluster: Cluster, workload: Workload, answers: Answers | None = None) -> None:
        self.cluster = cluster
        self.workload = workload
        self.answers = answers

    def start(self, query: str) -> Running:
        """Submit a query. If its engine cannot express it, the refusal is kept."""
        files = scratch_directory("logged") if query in PARTITIONED else None
        try:
            return Running(query, self.cluster.submit(built(query, replace(self.workload, files=files))), files=files)
        except EngineError as error:
            return Running(query, None, str(error), files)

    def finish(self, running: Running) -> Outcome:
        """Returns the checked outcome of a query. A query that has not ended is stopped and counts as failed."""
        try:
            return self._finished(running)
        finally:
            if running.files is not None:
                shutil.rmtree(running.files, ignore_errors=True)

    def _finished(self, running: Running) -> Outcome:
        job = running.job
        if job is None:
            return self._outcome(running, Status.UNSUPPORTED, error=running.refusal)
        if not job.status.ended:
            return self._outcome(running, Status.FAILED, error=_stop(job))
        if job.error is not None:
            return self._outcome(running, Status.FAILED, error=str(job.error))
        results = {sink.name: job.results(sink.name) for sink in job.plan.sinks if sink.sink.collects}
        if running.files is not None:
            results[OUT] = read_back(running.files, job.plan.sink_named(OUT).schema, PARTITIONED[running.query])
        metrics = job.metrics()
        return self._outcome(
            running,
            Status.FINISHED,
            rows=results[OUT].num_rows if OUT in results else None,
            elapsed_s=metrics.elapsed_s,
            latency_ms=metrics.latency_ms,
            verdicts=None if self.answers is None else verify(running.query, results, self.answers),
            shards_moved=shards_moved(job) if self.workload.elastic else None,
        )

    def run(self, query: str, on_tick: Callable[[Running], None], timeout_s: float | None = None) -> Outcome:
        """Start a query, wait for it and check it."""
        running = self.start(query)
        wait_for([running], lambda: on_tick(running), timeout_s)
        return self.finish(running)

    def _outcome(self, running: Running, status: Status, **figures: Any) -> Outcome:
        engine = running.job.engine.value if running.job else self.workload.engine
        workers = len(self.cluster.workers)
        app_id = str(self.cluster.spark.sparkContext.applicationId)
        return Outcome(running.query, status, self.workload, engine, workers, app_id, **figures)


def shards_moved(job: Job) -> int:
    """Returns how many shards of a job have moved, as far as its decisions are kept."""
    return round(sum((record.spent or {}).get("shards", 0.0) for record in job.decisions()))


def wait_for(running: Sequence[Running], on_tick: Callable[[], None], timeout_s: float | None = None) -> None:
    """Return when all have ended, or at the timeout; `on_tick` is called about fifty times a second."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while not all(one.has_ended for one in running):
        if deadline is not None and time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)
        on_tick()


def rows_expected(running: Running) -> int | None:
    """Returns how many rows the sources of a query will read, for the progress display."""
    if running.job is None:
        return None
    sources = [
        getattr(node.source, "source", node.source) for node in running.job.plan.sources
    ]  # Behind a gate or not.
    return sum(count_events(source.config, source.kind) for source in sources if isinstance(source, NexmarkSource))


def read_back(directory: Path, schema: pa.Schema, partition_by: Sequence[str]) -> pa.Table:
    """Returns the rows of Parquet files in directories by columns, such as `dt=2015-07-15/`."""
    named = dataset.partitioning(pa.schema([schema.field(name) for name in partition_by]), flavor="hive")
    table: pa.Table = dataset.dataset(directory, schema, format="parquet", partitioning=named).to_table()
    return table


def _stop(job: Job) -> str:
    """Stop a job that took too long; returns the error message."""
    message = f"it was still {job.status.value} at the timeout"
    try:
        job.stop(timeout=10.0)
    except StrettoError as error:
        message += f", and {error}"
    return message
