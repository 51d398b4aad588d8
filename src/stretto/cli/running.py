"""`stretto run` and `stretto explain`: run a user's app on a cluster, or print its plan."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from stretto.api.app import App
from stretto.cli.deciding import DecisionNews, Moment, news_line, print_news_json
from stretto.cli.loading import Loaded, load, made, needs_spark
from stretto.cli.progress import Display, RateMeter, Watch, functions_table, job_line
from stretto.cli.reporting import errors, note, print_json
from stretto.cli.showing import shown
from stretto.elasticity.records import DecisionRecord
from stretto.rendering import values_of
from stretto.runtime.cluster import Cluster
from stretto.runtime.cluster_control import controlled
from stretto.runtime.job import Job
from stretto.runtime.session import local_master, spark_session

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Which app to run, where, and how to print the results."""

    target: str
    workers: int
    engine: str | None
    master: str | None
    json: bool
    timeout_s: float | None
    rows: int
    policy: str
    strategy: str
    checkpoint: str | None = None
    every: str = "10 s"
    parked: int = 0
    start: str | None = None
    drop_state: bool = False
    elasticity: str = "auto"
    page: bool | str = False
    report: str | None = None


def run_app(request: RunRequest) -> None:
    """Run an app until it ends or times out, and print the rows of its collecting sinks."""
    found = load(request.target)
    if not needs_spark(found):
        made(found).plan()  # Report errors in the plan before Spark starts.
    run_loaded(found, request)


def run_loaded(found: Loaded, request: RunRequest) -> None:
    """Run an app, or what makes it, and print its results."""
    tell = partial(print_news_json, sys.stdout) if request.json else None
    # Sinks and callbacks may print; with --json that goes to stderr.
    with redirect_stdout(sys.stderr) if request.json else nullcontext():
        job, report = _run(found, request, tell)
    if request.json:
        print_json(report)
    else:
        _print_results(job, request.rows, Console())


Tell = Callable[[Moment, DecisionRecord], None]
"""How what controllers decide is printed, if not as lines among the progress."""


def _run(found: Loaded, request: RunRequest, tell: Tell | None) -> tuple[Job, dict[str, Any]]:
    master = request.master or local_master(request.workers + request.parked)
    note(f"Starting Spark ({master}) with {request.workers} workers in its tasks ...")
    with spark_session("stretto-run", master) as spark:
        app = made(found, spark)
        with (
            Cluster.on_spark(
                spark,
                workers=request.workers,
                policy=request.policy,
                strategy=request.strategy,
                parked=request.parked,
                elasticity=request.elasticity,
                page=request.page,
                record=request.report is not None,
            ) as cluster,
            controlled(cluster),
            shown(cluster, request.page, request.report),
        ):
            engine = request.engine or ("actors" if request.checkpoint is not None else None)
            job = cluster.submit(
                app,
                engine=engine,
                checkpoint=request.checkpoint,
                every=request.every,
                start=request.start,
                drop_state=request.drop_state,
            )
            note(f"{job.name} runs on {job.engine.value}: {job.why}")
            with _stopped_on_interrupt(job):
                _watch(job, request.timeout_s, tell)
            job.wait(0)
            return job, report(job, len(cluster.workers), str(spark.sparkContext.applicationId))


@contextmanager
def _stopped_on_interrupt(job: Job) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        note(f"Stopping {job.name} ...")
        job.stop(timeout=10.0)
        raise


def _watch(job: Job, timeout_s: float | None, tell: Tell | None) -> None:
    """Wait for the job to end, with live progress and what controllers decide; at the timeout, stop the sources and
    drain."""
    began_s = time.monotonic()
    decided = DecisionNews(job.decisions)
    watch = Watch(job.name, job)
    meters: dict[str, RateMeter] = {}

    def table() -> Table:
        now_s = time.monotonic()
        sample = watch.sample(now_s)
        functions = sample.metrics.functions
        rates = {
            name: meters.setdefault(name, RateMeter(began_s)).rate(function.rows_in, now_s)
            for name, function in functions.items()
        }
        return functions_table(sample, rates)

    deadline_s = None if timeout_s is None else began_s + timeout_s
    with Display(errors, table, lambda: job_line(watch.sample(time.monotonic()))) as display:
        while not job.status.ended:
            if deadline_s is not None and time.monotonic() >= deadline_s:
                job.stop(drain=True)
                break
            time.sleep(POLL_S)
            _tell_news(decided, display, tell)
            display.tick()
        _tell_news(decided, display, tell)


def _tell_news(decided: DecisionNews, display: Display, tell: Tell | None) -> None:
    for moment, record in decided.news():
        if tell is None:
            display.say(news_line(moment, record))
        else:
            tell(moment, record)


def report(job: Job, workers: int, spark_app_id: str) -> dict[str, Any]:
    """Returns the object that `--json` prints."""
    return {
        "app": job.plan.app,
        "status": job.status.value,
        "engine": job.engine.value,
        "why": job.why,
        "workers": workers,
        "spark_app_id": spark_app_id,
        "rows": {node.name: job.results(node.name).num_rows for node in job.plan.sinks if node.sink.collects},
        "metrics": job.metrics().as_dict(),
        "decisions": [record.plain() for record in job.decisions()],
    }


def _print_results(job: Job, limit: int, console: Console) -> None:
    metrics = job.metrics()
    for node in job.plan.sinks:
        if node.sink.collects:
            console.print(rows_table(node.name, job.results(node.name), limit))
    console.print(
        f"{job.name} {job.status.value}: {metrics.rows_in:,} rows in {metrics.elapsed_s:.2f} s "
        f"({metrics.input_rate:,.0f} rows/s)",
        highlight=False,
    )


def rows_table(name: str, rows: pa.Table, limit: int) -> Table:
    """Returns a table with the first rows of a result."""
    rest = rows.num_rows - limit
    table = Table(title=f"{name}: {rows.num_rows:,} rows", title_justify="left", header_style="bold")
    if rest > 0:
        table.caption = f"and {rest:,} more rows (--rows shows more)"
    for column in rows.column_names:
        table.add_column(column)
    for row in zip(*map(values_of, rows.slice(0, limit).columns), strict=True):
        table.add_row(*map(_text, row))
    return table


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")  # All times are in UTC.
    return str(value)


def explain_app(target: str, workers: int, measure: bool) -> str:
    """Returns the plan, the engine and the reason. Starts Spark only to measure, or if the app needs it."""
    found = load(target)
    if not measure and not needs_spark(found):
        return made(found).explain(workers=workers)
    with spark_session("stretto-explain", local_master(workers)) as spark:
        app: App = made(found, spark)
        return app.explain(spark if measure else None, workers=workers)
