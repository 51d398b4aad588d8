"""`stretto bench`: the benchmark commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from stretto.bench import memory as memories
from stretto.bench import message_path, profiling
from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import chosen
from stretto.cli.bench.burst import burst
from stretto.cli.bench.chaos import chaos
from stretto.cli.bench.checkpoint import checkpoint
from stretto.cli.bench.compare import compare
from stretto.cli.bench.elastic import elastic, shard_moves
from stretto.cli.bench.fuzz import fuzz
from stretto.cli.bench.henge import henge
from stretto.cli.bench.kafka import kafka
from stretto.cli.bench.page import page
from stretto.cli.bench.parked import parked
from stretto.cli.bench.queries import queries
from stretto.cli.bench.report import report
from stretto.cli.bench.savepoints import savepoints
from stretto.cli.bench.scaling import scaling
from stretto.cli.bench.scheduling import scheduling
from stretto.cli.bench.social import social
from stretto.cli.bench.spread import barriers, spread
from stretto.cli.bench.stops import stops
from stretto.cli.bench.strangers import strangers
from stretto.cli.bench.tenants import tenants
from stretto.cli.bench.transactions import transactions
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

MEMORY_GROWTH_PERCENT_MAX = 5.0

bench = typer.Typer(name="bench", no_args_is_help=True, help="Benchmark stretto, alone and against other engines.")


@bench.callback()
def about() -> None:
    """Benchmark stretto, alone and against other engines."""


bench.command()(compare)
bench.command()(report)
bench.command()(spread)
bench.command()(social)
bench.command()(barriers)
bench.command()(scheduling)
bench.command()(tenants)
bench.command()(queries)
bench.command()(chaos)
bench.command()(savepoints)
bench.command()(checkpoint)
bench.command()(strangers)
bench.command()(fuzz)
bench.command()(burst)
bench.command()(parked)
bench.command()(kafka)
bench.command()(stops)
bench.command()(page)
bench.command()(elastic)
bench.command()(shard_moves)
bench.command()(scaling)
bench.command()(transactions)
bench.command()(henge)


@bench.command()
def path(
    messages: Annotated[int, typer.Option(min=100, help="Messages per round.")] = 20_000,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Measure the CPU time of one message through a worker: receive, enqueue, schedule, apply a no-op, send.

    Prints microseconds, the median of five rounds: within the process, over a socket, by the number of actors, and by
    the number of waiting messages. Takes about a minute and needs no Spark."""
    with reported():
        report = message_path.measure(messages, note)
    if json:
        print_json(report.as_dict())
        return
    console = Console()
    for title, found in (("locally", report.local), ("over a socket", report.remote)):
        table = Table("step", "us", title=f"one message {title}: {found.total_us:.1f} us", title_justify="left")
        for step, cost in found.steps_us.items():
            table.add_row(step, f"{cost:.2f}")
        console.print(table)
    for title, growth in (("actors", report.by_actors_us), ("waiting messages", report.by_pending_us)):
        table = Table(title, "us per message", title_justify="left")
        for count, cost in growth.items():
            table.add_row(f"{count:,}", f"{cost:.2f}")
        console.print(table)


@bench.command()
def memory(
    events: Annotated[int, typer.Option(min=1000, help="Number of events to send.")] = 20_000_000,
    seconds: Annotated[float, typer.Option(min=1, help="Time that the slow sink needs for all events.")] = 180.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Measure whether memory grows when a sink is slower than its sources: each worker's resident memory, every second.

    The exit code is 1 when it grows by 5 percent or more after the first minute."""
    with (
        reported(),
        spark_session("stretto bench memory", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
        Progress(console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("sending", total=1.0)
        report = memories.measure(
            cluster,
            events,
            seconds,
            lambda share, sample: bar.update(task, completed=share, description=_megabytes(sample)),
        )
    if json:
        print_json(report.as_dict())
    else:
        table = Table("worker", "MB after the first minute", "growth since")
        settled = next((s for s in report.series if s.elapsed_s >= report.warm_up_s), report.series[-1])
        for name, percent in report.growth_percent.items():
            table.add_row(name, f"{settled.rss_mb[name]:.0f}", f"{percent:.1f} %")
        Console().print(table)
    if any(percent >= MEMORY_GROWTH_PERCENT_MAX for percent in report.growth_percent.values()):
        raise typer.Exit(WRONG_ANSWER)


@bench.command()
def profile(
    query: Annotated[str, typer.Option(help="A NEXMark query: q0 to q8, q11 or q12.")] = "q5",
    seconds: Annotated[float, typer.Option(min=1, help="Sampling time in seconds.")] = 10.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")] = 2,
    batch: Annotated[int, typer.Option(min=1, help="Maximum number of events that a source reads at once.")] = 4096,
    stacks: Annotated[
        Path | None, typer.Option(help="Write the collapsed stacks to this file, for a flame graph viewer.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Profile the workers while a query runs at full speed: py-spy samples their stacks from outside."""
    with (
        reported(),
        spark_session("stretto bench profile", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        (name,) = chosen([query])
        note(f"sampling {workers} workers for {seconds:g} s while {name} runs")
        found = profiling.profile(cluster, name, Workload(batch=batch), seconds, stacks)
    if json:
        print_json(found.as_dict())
        return
    console = Console()
    console.print(f"{name}: {found.events_per_s:,.0f} rows/s read, {found.samples} samples")
    table = Table("room", "time", title_justify="left")
    for room, percent in found.rooms_percent.items():
        table.add_row(room, f"{percent:.1f} %")
    console.print(table)
    table = Table("function", "self", "total")
    for share in found.functions:
        table.add_row(escape(share.function), f"{share.self_percent:.1f} %", f"{share.total_percent:.1f} %")
    console.print(table)


def _megabytes(sample: memories.Sample) -> str:
    return "  ".join(f"{name} {rss:.0f} MB" for name, rss in sample.rss_mb.items())
