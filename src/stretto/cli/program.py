"""The commands, their options and their help. Each body is in a module of its own."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Annotated

import typer

from stretto.api.engines import Engine
from stretto.api.slo import objective
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import chosen
from stretto.cli.bench.commands import bench
from stretto.cli.loading import see_current_directory
from stretto.cli.nexmark import DEMO_EVENTS, Request, demo_request, run_at_once, run_in_turn
from stretto.cli.reporting import reported
from stretto.cli.running import RunRequest, explain_app, run_app
from stretto.cli.simulate.commands import simulate
from stretto.cli.state import state
from stretto.scheduling import POLICIES, STRATEGIES

program = typer.Typer(
    name="stretto",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

program.add_typer(bench)
program.add_typer(simulate)
program.command(epilog="Example:  [bold]stretto state /shared/checkpoints/bids[/]")(state)

SPREAD_LESSEES = 4

Workers = Annotated[int, typer.Option(min=1, help="Workers to start, each in a Spark task of its own.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP",
        help="A module that Python can import from here, and the App in it (or a function that returns one).",
        show_default=False,
    ),
]


def main() -> None:
    """The `stretto` command."""
    program()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stretto {version('stretto')}")
        raise typer.Exit


@program.callback(
    epilog="Examples:  [bold]stretto demo[/]   [bold]stretto nexmark q5 --verify[/]   "
    "[bold]stretto run examples.highest_bid:app[/]   A command's own help: [bold]stretto run --help[/]"
)
def about(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Streaming dataflows on Spark: stateful jobs on actors inside Spark tasks, each with a latency objective."""
    see_current_directory()  # Apps, policies and strategies are named as module:Class.


@program.command(epilog="Example:  [bold]stretto run examples.highest_bid:app --workers 2[/]")
def run(
    target: Target,
    workers: Workers = 2,
    engine: Annotated[
        Engine | None, typer.Option(help="What runs it, instead of what the app says.", show_default=False)
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master URL; by default a local Spark with two spare slots.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="After so many seconds, end the sources and see their rows through to the sinks."),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Rows to print of each collecting sink.")] = 20,
    policy: Annotated[
        str, typer.Option(help=f"Which message runs first: {', '.join(POLICIES)}, or a module:Class of your own.")
    ] = "llf",
    strategy: Annotated[
        str, typer.Option(help=f"Where a spread function's run: {', '.join(STRATEGIES)}, or a module:Class.")
    ] = "reject",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Keep checkpoints here (a directory, s3:// or hdfs://), and go on from the last one that is there.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often to take a checkpoint.")] = "10 s",
    start: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go on from this savepoint of the directory.", show_default=False)
    ] = None,
    drop_state: Annotated[
        bool, typer.Option("--drop-state", help="Go on also if what functions knew that are gone is lost.")
    ] = False,
    parked: Annotated[int, typer.Option(min=0, help="Workers that wait to take the place of a lost one.")] = 0,
    json: Json = False,
) -> None:
    """Run an app and show its progress and its results.

    Progress is on stderr: rates, latency, queue lengths per function. What collecting sinks hold is printed at the end.
    Ctrl-C stops the app. The exit code is 2 when the app is wrong or fails."""
    with reported():
        chosen_engine = engine.value if engine else None
        request = RunRequest(target, workers, chosen_engine, master, json, timeout, rows, policy, strategy)
        durable = replace(request, checkpoint=checkpoint, every=every, start=start, drop_state=drop_state)
        run_app(replace(durable, parked=parked))


@program.command(epilog="Example:  [bold]stretto explain examples.highest_bid:app[/]")
def explain(
    target: Target,
    workers: Workers = 2,
    measure: Annotated[
        bool, typer.Option("--measure", help="Start Spark and measure its trigger time, by which `auto` chooses.")
    ] = False,
) -> None:
    """Show what an app becomes: its functions, how rows travel between them, the engine, and why that one."""
    with reported():
        typer.echo(explain_app(target, workers, measure))


@program.command(
    epilog="Examples:  [bold]stretto nexmark q5 --verify[/]   "
    "[bold]stretto nexmark all --events 200000 --workers 2 --seed 7 --verify --json[/]"
)
def nexmark(
    queries: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="q0 to q8, q11, q12, or all.", show_default=False)
    ],
    events: Annotated[int, typer.Option(min=1, help="Length of the stream: persons, auctions and bids.")] = 200_000,
    workers: Workers = 2,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal events.")] = 7,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every row with Spark SQL's answer.")] = False,
    json: Json = False,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Partitions of each function; by default as many as workers.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Events that a source reads at once, at most.")] = 4096,
    disorder: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Let events come out of order by up to so much.")
    ] = 0.0,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events per second to send; by default as fast as it goes.")
    ] = None,
    event_rate: Annotated[int, typer.Option(min=1, help="Events per second of event time.")] = 10_000,
    engine: Annotated[Engine, typer.Option(help="What runs the queries.")] = Engine.ACTORS,
    latency: Annotated[
        str | None, typer.Option(metavar="DURATION", help="An objective for the p99 latency, such as '200 ms'.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a query has failed.")] = 600.0,
    spread: Annotated[
        bool, typer.Option("--spread", help=f"Run all that can go parallel on {SPREAD_LESSEES} lessees per partition.")
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(help=f"With --spread, who gets messages: {', '.join(STRATEGIES)}; by default lessees, in turn."),
    ] = None,
) -> None:
    """Run NEXMark queries, an online auction's, and check their answers against Spark SQL.

    With --json, one object per query: query, events, rows, match (true only after a row-by-row comparison with Spark
    SQL), events_per_s, latency_ms, workers, spark_app_id and more. The exit code is 1 when an answer is wrong or a
    query fails. What the micro-batch engine cannot express is reported with the reason, and is no mismatch. --spread
    starts at least one worker more than there are lessees, so that each lessee is on a worker of its own."""
    if spread:
        workers = max(workers, SPREAD_LESSEES + 1)
    with reported():
        config = NexmarkConfig(seed=seed, events=events, event_rate=event_rate, disorder_s=disorder)
        slo = objective(latency=latency) if latency else None
        lessees = SPREAD_LESSEES if spread else 0
        workload = Workload(
            config, rate, parallelism, batch, slo=slo, engine=engine.value, lessees=lessees, strategy=strategy
        )
        code = run_in_turn(Request(chosen(queries), workload, workers, verify, json, timeout))
    raise typer.Exit(code)


@program.command(epilog="Example:  [bold]stretto demo[/]")
def demo(
    workers: Workers = 2,
    events: Annotated[
        int, typer.Option(min=1000, help="Events of each query's stream, 10,000 a second.")
    ] = DEMO_EVENTS,
    json: Json = False,
) -> None:
    """See it work: several NEXMark queries at once on one local cluster, live, then checked against Spark SQL.

    It takes about a minute. The exit code is 1 when an answer is wrong."""
    with reported():
        code = run_at_once(demo_request(workers, events, json))
    raise typer.Exit(code)
