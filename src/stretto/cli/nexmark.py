"""`stretto nexmark` and `stretto demo`: run queries in turn or concurrently, and optionally check them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from rich.console import Console

from stretto.api.slo import objective
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload
from stretto.bench.nexmark.run import Bench, Outcome, Running, SparkAnswers, exit_code, rows_expected, wait_for
from stretto.bench.nexmark.twins import run_twin
from stretto.cli.outcomes import print_outcome, summary
from stretto.cli.progress import Display, Sample, Watch, jobs_line, jobs_table
from stretto.cli.reporting import errors
from stretto.cli.showing import shown
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

DEMO_QUERIES = ("q1", "q4", "q5", "q7", "q8", "q11")
DEMO_EVENTS = 200_000
DEMO_RATE = 10_000
"""Events per second for each query: equal to the event-time rate, so that windows close in real time."""
DEMO_LATENCY = "500 ms"


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how to print the results."""

    queries: Sequence[str]
    workload: Workload
    workers: int
    verify: bool
    json: bool
    timeout_s: float | None = None
    elasticity: str = "auto"
    page: bool | str = False
    report: str | None = None
    stay: bool = False


def query_list() -> str:
    """Returns what each query is, for the help: a line for each."""
    return "\n".join(f"[bold]{name:>3}[/]  {query.__doc__}" for name, query in QUERIES.items())


def demo_request(
    workers: int, events: int, json: bool, page: bool | str = True, report: str | None = None, stay: bool = False
) -> Request:
    """Returns the demo: queries of each kind at a fixed rate, with a latency objective."""
    workload = Workload(NexmarkConfig(seed=7, events=events), rate=DEMO_RATE, slo=objective(latency=DEMO_LATENCY))
    request = Request(DEMO_QUERIES, workload, workers, verify=True, json=json, timeout_s=120.0)
    return replace(request, page=page, report=report, stay=stay)


def run_in_turn(request: Request) -> int:
    """Run the queries one after the other and print each outcome; returns the exit code."""
    console = errors if request.json else Console()
    outcomes: list[Outcome] = []
    with _bench(request, console) as bench:
        for query in request.queries:
            running = bench.start(query)
            _watch([running], console, request)
            outcomes.append(bench.finish(running))
            print_outcome(outcomes[-1], console, request.json)
    return _end(outcomes, console, request)


def run_twins(request: Request) -> int:
    """Run the batch twins of the queries one after the other and print each outcome; returns the exit code."""
    console = errors if request.json else Console()
    outcomes: list[Outcome] = []
    with spark_session("stretto-nexmark", local_master(request.workers)) as spark, _answers(request, spark) as answers:
        for query in request.queries:
            outcomes.append(run_twin(query, request.workload, spark, answers, request.timeout_s))
            print_outcome(outcomes[-1], console, request.json)
    return _end(outcomes, console, request)


def run_at_once(request: Request) -> int:
    """Run all queries concurrently on the same workers, then check each answer; returns the exit code."""
    console = errors if request.json else Console()
    outcomes: list[Outcome] = []
    with _bench(request, console) as bench:
        running = [bench.start(query) for query in request.queries]
        _watch(running, console, request)
        _print_text("Comparing each result with Spark SQL over the same events ...", console, request)
        for one in running:
            outcomes.append(bench.finish(one))
            print_outcome(outcomes[-1], console, request.json)
    return _end(outcomes, console, request)


@contextmanager
def _bench(request: Request, console: Console) -> Iterator[Bench]:
    master = local_master(request.workers)
    _print_text(f"Starting Spark ({master}) with {request.workers} workers in its tasks ...", console, request)
    with (
        spark_session("stretto-nexmark", master) as spark,
        Cluster.on_spark(
            spark,
            request.workers,
            elasticity=request.elasticity,
            page=request.page,
            record=request.report is not None,
        ) as cluster,
        shown(cluster, request.page, request.report, request.stay),
        _answers(request, spark) as answers,
    ):
        yield Bench(cluster, request.workload, answers)


def _answers(request: Request, spark: SparkSession) -> AbstractContextManager[SparkAnswers | None]:
    """Returns Spark SQL's answers, if they are to be compared."""
    if not request.verify:
        return nullcontext()
    return SparkAnswers(spark, request.workload.config, request.workload.timezone)


def _watch(running: Sequence[Running], console: Console, request: Request) -> None:
    """Wait for the queries and show progress; with --json, only if stderr is a terminal."""
    if request.json and not console.is_terminal:
        wait_for(running, lambda: None, request.timeout_s)
        return
    watches = [Watch(one.query, one.job, rows_expected(one)) for one in running if one.job is not None]

    def samples() -> list[Sample]:
        now_s = time.monotonic()
        return [watch.sample(now_s) for watch in watches]

    with Display(console, lambda: jobs_table(samples()), lambda: jobs_line(samples())) as display:
        wait_for(running, display.tick, request.timeout_s)


def _print_text(text: str, console: Console, request: Request) -> None:
    if not request.json:
        console.print(text, highlight=False)


def _end(outcomes: Sequence[Outcome], console: Console, request: Request) -> int:
    if not request.json:
        console.print(summary(outcomes))
    return exit_code(outcomes)
