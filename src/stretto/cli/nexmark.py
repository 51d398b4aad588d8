"""`stretto nexmark`: queries one after the other on one cluster, each compared with Spark SQL when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import Bench, Outcome, Running, SparkAnswers, Status, exit_code, rows_expected, wait_for
from stretto.cli.progress import Display, Watch, job_line, jobs_table, met, ms
from stretto.cli.reporting import complain, errors, print_json
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how to tell about it."""

    queries: Sequence[str]
    workload: Workload
    workers: int
    verify: bool
    json: bool
    timeout_s: float | None = None


def run_nexmark(request: Request) -> int:
    """Run the queries and print what came out; returns the exit code."""
    import time

    console = errors if request.json else Console()
    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        say(console, f"Starting Spark with {request.workers} workers ...", request.json)
        spark = stack.enter_context(spark_session("stretto-nexmark", local_master(request.workers)))
        cluster = stack.enter_context(Cluster.on_spark(spark, workers=request.workers))
        answers = None
        if request.verify:
            answers = stack.enter_context(SparkAnswers(spark, request.workload.config))
        bench = Bench(cluster, request.workload, answers)
        for query in request.queries:
            running = bench.start(query)
            watch_all([running], console, quiet=request.json, timeout_s=request.timeout_s, clock=time.monotonic)
            outcomes.append(bench.finish(running))
            tell(outcomes[-1], console, request.json)
    if not request.json:
        console.print(summary(outcomes))
    return exit_code(outcomes)


def watch_all(
    running: Sequence[Running], console: Console, *, quiet: bool, timeout_s: float | None, clock: Callable[[], float]
) -> None:
    """Wait for queries, with live progress. `quiet` leaves the lines out where there is no terminal."""
    watches = [Watch(one.query, one.job, rows_expected(one)) for one in running if one.job is not None]

    def samples() -> list[Sample]:
        return [watch.sample(clock()) for watch in watches]

    if quiet and not console.is_terminal:
        wait_for(running, lambda: None, timeout_s)
        return
    with Display(console, lambda: jobs_table(samples()), lambda: "\n".join(map(job_line, samples()))) as display:
        wait_for(running, display.tick, timeout_s)


def tell(outcome: Outcome, console: Console, json: bool) -> None:
    """One query's line; what is wrong with it goes to stderr."""
    if json:
        print_json(outcome.as_json())
    else:
        console.print(outcome_line(outcome), highlight=False)
    for complaint in outcome.complaints():
        complain(complaint)


def outcome_line(outcome: Outcome) -> str:
    if outcome.status is not Status.FINISHED:
        return f"{outcome.query:<4} {outcome.status.value}"
    return f"{outcome.query:<4} {outcome.rows:,} rows, {outcome.events_per_s:,.0f} events/s, {match_text(outcome.match)}"


def summary(outcomes: Sequence[Outcome]) -> Table:
    """The table at the end."""
    table = Table(header_style="bold", caption=_caption(outcomes))
    table.add_column("query")
    table.add_column("rows", justify="right")
    table.add_column("against Spark SQL")
    for heading in ("events/s", "p50 ms", "p95 ms", "p99 ms", "max ms"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        finished = outcome.status is Status.FINISHED
        table.add_row(
            outcome.query,
            f"{outcome.rows:,}" if outcome.rows is not None else "-",
            match_text(outcome.match) if finished else f"[yellow]{outcome.status.value}[/]",
            f"{outcome.events_per_s:,.0f}" if outcome.events_per_s is not None else "-",
            *(ms(outcome.latency_ms.get(name)) for name in ("p50", "p95", "p99", "max")),
        )
    return table
