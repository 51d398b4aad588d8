"""Questions about a week of results, beside a running stream that has an objective, and beside Spark.

One Spark hosts the workers and answers the same questions over the same Parquet files, cached in its memory. First each
question is asked of both, and the answers are compared. Then clients ask as fast as they are answered, and questions
per second, their latencies and the latency of the stream's results are measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stretto import sinks, sources
from stretto.api.app import App
from stretto.api.memory import MemorySource
from stretto.api.slo import SLO
from stretto.bench.questions.asking import Asking, Names
from stretto.bench.questions.comparing import difference, is_refusal, rows_of
from stretto.bench.questions.rows import BEGIN, random_rows, small_rows
from stretto.errors import ClusterError
from stretto.operators.windows import tumbling
from stretto.queries.copying import MEMORY_BYTES
from stretto.runtime.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stretto.runtime.job import Job

RESULTS, SMALL = "results", "small"
STREAM_WINDOW_MS = 200
STREAM_ROWS = 50
LOADED_S = 120.0
TIMEOUT_S = 120.0
PERCENTILES = (50, 99)


@dataclass(frozen=True)
class Setup:
    """What is measured."""

    workers: int = 4
    hours: int = 168
    rows_per_hour: int = 2_000
    compared: int = 100
    seconds: float = 10.0
    clients: int = 2
    objective_ms: float = 100.0
    seed: int = 0


@dataclass
class Report:
    """What was found."""

    questions: int = 0
    refused_by_both: int = 0
    wrong: list[str] = field(default_factory=list)
    per_s: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)
    spark_ms: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    stream_ms: dict[str, float | None] = field(default_factory=dict)
    stream_slo_satisfied: bool | None = None
    copies: int = 0
    rows: int = 0

    @property
    def match(self) -> bool:
        return not self.wrong and not self.failed

    def as_dict(self) -> dict[str, Any]:
        return {
            "match": self.match,
            "questions": self.questions,
            "refused_by_both": self.refused_by_both,
            "rows": self.rows,
            "per_s": round(self.per_s, 1),
            "latency_ms": percentiles(self.alone_ms),
            "spark_latency_ms": percentiles(self.spark_ms),
            "saturated_latency_ms": percentiles(self.latencies_ms),
            "stream_latency_ms": self.stream_ms,
            "stream_slo_satisfied": self.stream_slo_satisfied,
            "copy_decisions": self.copies,
            "memory_mb_max": MEMORY_BYTES >> 20,
            "wrong": self.wrong[:3],
            "failed": self.failed[:3],
        }


def measure(
    spark: SparkSession, cluster: Cluster, setup: Setup, directory: Path, told: Callable[[str], None]
) -> Report:
    """Publishes the results, then asks."""
    rng, report = Random(setup.seed), Report()
    rows = random_rows(rng, setup.hours * setup.rows_per_hour, setup.hours).sort_by("start")
    small = small_rows(rng)
    report.rows = rows.num_rows
    app = App("results")
    app.source("rows", sources.memory(rows), time="start").publish(RESULTS, segment="1 hour", name="published")
    timed = small.append_column("at", [[BEGIN] * small.num_rows])
    app.source("small rows", sources.memory(timed)).publish(SMALL, time="at", segment="1 day")
    job = cluster.submit(app, checkpoint=directory, every="1 s")
    job.wait(TIMEOUT_S + LOADED_S)
    told(f"{rows.num_rows} rows are published")
    stream = _stream(cluster, setup)
    tables = directory / "tables"
    for name, dropped in ((RESULTS, ("segment",)), (SMALL, ("segment", "at"))):
        frame = spark.read.parquet(str(tables / name)).drop(*dropped).cache()
        frame.count()
        frame.createOrReplaceTempView(name)
    asking = Asking(Names(RESULTS, SMALL, hours=setup.hours), rng)
    texts = [asking.question() for _ in range(setup.compared)]
    _compare(spark, cluster, texts, report)
    told(f"{report.questions} answers are compared")
    _saturate(cluster, texts, setup, report)
    metrics = stream.metrics()
    report.stream_ms = {name: metrics.latency_ms.get(name) for name in ("p50", "p99")}
    report.stream_slo_satisfied = metrics.objective.latency_met
    stream.stop()
    report.copies = sum(each.controller == "copies" for each in cluster.decisions())
    return report


def _stream(cluster: Cluster, setup: Setup) -> Job:
    """Starts a stream of small windows with an objective, which runs as long as everything else."""
    app = App("stream", slo=SLO(latency_ms=setup.objective_ms))
    step = timedelta(milliseconds=STREAM_WINDOW_MS)
    count = int(2 * (setup.seconds + TIMEOUT_S + LOADED_S) * 1_000 / STREAM_WINDOW_MS)
    items: list[Any] = []
    for number in range(count):
        at = BEGIN + number * step
        keys = range(STREAM_ROWS)
        items += [pa.record_batch({"at": [at for _ in keys], "key": list(keys)}), MemorySource.Pause(STREAM_WINDOW_MS)]
    rows = app.source("ticks", sources.memory(items), time="at")
    rows.window(tumbling(f"{STREAM_WINDOW_MS} ms")).aggregate("count(*) AS c").sink(sinks.null())
    return cluster.submit(app)


def _compare(spark: SparkSession, cluster: Cluster, texts: Sequence[str], report: Report) -> None:
    for text in texts:
        report.questions += 1
        began = time.perf_counter()
        try:
            theirs = rows_of(spark.sql(text).toArrow())
        except Exception:
            theirs = None
        report.spark_ms.append((time.perf_counter() - began) * 1_000)
        began = time.perf_counter()
        try:
            mine = rows_of(cluster.query(text, timeout=TIMEOUT_S))
        except Exception as error:
            if theirs is None and is_refusal(error):
                report.refused_by_both += 1
            else:
                report.wrong.append(f"{text}: {error}")
            continue
        report.alone_ms.append((time.perf_counter() - began) * 1_000)
        found = "Spark fails" if theirs is None else difference(mine, theirs, " ORDER BY " in text)
        if found is not None:
            report.wrong.append(f"{text}: {found}")


def _saturate(cluster: Cluster, texts: Sequence[str], setup: Setup, report: Report) -> None:
    """Has clients ask the same questions as fast as they can; later ones more often than earlier ones."""
    ends = time.perf_counter() + setup.seconds
    lock = threading.Lock()

    def client(number: int) -> None:
        rng = Random(number)
        while time.perf_counter() < ends:
            text = texts[int(len(texts) * rng.random() ** 3)]
            began = time.perf_counter()
            try:
                cluster.query(text, timeout=TIMEOUT_S)
            except ClusterError as error:
                with lock:
                    report.failed.append(f"{text}: {error}")
            except Exception:  # Those that both refuse fail here as well; they were compared before.
                continue
            with lock:
                report.latencies_ms.append((time.perf_counter() - began) * 1_000)

    threads = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(setup.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.per_s = len(report.latencies_ms) / setup.seconds


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Returns the 50th and the 99th percentile."""
    if not values:
        return {f"p{each}": None for each in PERCENTILES}
    return {f"p{each}": round(float(np.percentile(values, each)), 2) for each in PERCENTILES}
