"""The commands, their options and their help. Other modules implement the commands."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Annotated

import typer

from stretto.api.engines import Engine
from stretto.api.slo import objective
from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import chosen
from stretto.cli.bench.commands import bench
from stretto.cli.functions import functions
from stretto.cli.loading import see_current_directory
from stretto.cli.nexmark import DEMO_EVENTS, Request, demo_request, query_list, run_at_once, run_in_turn, run_twins
from stretto.cli.reporting import reported
from stretto.cli.running import RunRequest, explain_app, run_app
from stretto.cli.simulate.commands import simulate
from stretto.cli.state import state
from stretto.errors import UserError
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
program.command(epilog="Example:  [bold]stretto functions --json[/]")(functions)
program.command(epilog="Example:  [bold]stretto state /shared/checkpoints/bids[/]")(state)

SPREAD_LESSEES = 4
SHUFFLE_RATE = 20_000.0

Workers = Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP",
        help="An importable module, and the App in it (or a function that returns an App).",
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
    "[bold]stretto run examples.highest_bid:app[/]   Help on a command: [bold]stretto run --help[/]"
)
def about(
    show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run stateful streaming jobs as actors inside Spark tasks, each job with a latency objective."""
    see_current_directory()  # Apps, policies and strategies are given as module:name.


@program.command(epilog="Example:  [bold]stretto run examples.highest_bid:app --workers 2[/]")
def run(
    target: Target,
    workers: Workers = 2,
    engine: Annotated[
        Engine | None, typer.Option(help="Engine to use instead of the app's own choice.", show_default=False)
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark master URL; by default a local Spark with two spare slots.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Stop the sources after this many seconds; rows already read still reach the sinks."),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Maximum number of rows to print per collecting sink.")] = 20,
    policy: Annotated[
        str, typer.Option(help=f"Order in which a worker runs messages: {', '.join(POLICIES)}, or module:Class.")
    ] = "llf",
    strategy: Annotated[
        str, typer.Option(help=f"Placement of a spread function's messages: {', '.join(STRATEGIES)}, or module:Class.")
    ] = "reject",
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Store checkpoints here (a directory, s3:// or hdfs://), and resume from the last one found.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Interval between checkpoints.")] = "10 s",
    start: Annotated[
        str | None, typer.Option(metavar="NAME", help="Resume from this savepoint in DIR.", show_default=False)
    ] = None,
    drop_state: Annotated[
        bool, typer.Option("--drop-state", help="Resume even if functions were removed; their state is lost.")
    ] = False,
    parked: Annotated[int, typer.Option(min=0, help="Number of spare workers; a spare replaces a lost worker.")] = 0,
    json: Json = False,
) -> None:
    """Run an app and show its progress and its results.

    Progress goes to stderr: rates, latency, queue lengths per function. The rows of collecting sinks are printed at the
    end. Ctrl-C stops the app. The exit code is 2 when the app is invalid or fails."""
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
        bool, typer.Option("--measure", help="Start Spark and measure the trigger time that engine `auto` decides by.")
    ] = False,
) -> None:
    """Show an app's plan: its functions, how rows are routed between them, and the chosen engine with the reason."""
    with reported():
        typer.echo(explain_app(target, workers, measure))


@program.command(
    epilog=f"{query_list()}\n\nExamples:  [bold]stretto nexmark q5 --verify[/]   "
    "[bold]stretto nexmark all --events 200000 --workers 2 --seed 7 --verify --json[/]"
)
def nexmark(
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY...", help="Queries: q0 to q22 (listed below), or all.", show_default=False),
    ],
    events: Annotated[int, typer.Option(min=1, help="Number of events: persons, auctions and bids.")] = 200_000,
    workers: Workers = 2,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal events.")] = 7,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every row with Spark SQL's answer.")] = False,
    json: Json = False,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Partitions per function; by default the number of workers.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum number of events that a source reads at once.")] = 4096,
    disorder: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Let events arrive out of order by up to this much.")
    ] = 0.0,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events to send per second; by default full speed.")
    ] = None,
    event_rate: Annotated[
        int, typer.Option(min=1, help="Events per second of event time (density of the stream).")
    ] = 10_000,
    engine: Annotated[Engine, typer.Option(help="Engine that runs the queries.")] = Engine.ACTORS,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run each query as its batch twin, a DataFrame over all events.")
    ] = False,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of the queries and of Spark's answers.")
    ] = "UTC",
    latency: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Objective for the p99 latency, such as '200 ms'.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Fail a query after this many seconds.")] = 600.0,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help=f"Run functions that allow it on {SPREAD_LESSEES} lessees (extra instances) per partition.",
        ),
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(help=f"With --spread, placement of messages: {', '.join(STRATEGIES)}; by default round robin."),
    ] = None,
    elastic: Annotated[
        bool, typer.Option("--elastic", help="Let keyed functions have their shards on several workers.")
    ] = False,
    shuffle_shards: Annotated[
        bool,
        typer.Option(
            "--shuffle-shards",
            help="With --elastic, move random shards to random workers every 50 to 200 ms. Without --rate, "
            f"{SHUFFLE_RATE:,.0f} events per second are sent, so that there is time for it.",
        ),
    ] = False,
) -> None:
    """Run NEXMark queries (an online auction) and print throughput and latency; --verify checks the answers.

    --json prints one object per query: query, events, rows, match (true only after a row-by-row comparison with Spark
    SQL), events_per_s, latency_ms, workers, spark_app_id and more. The exit code is 1 when an answer is wrong or a
    query fails. A query that the micro-batch engine cannot express is reported with the reason and does not count as a
    mismatch. --spread starts at least one worker more than there are lessees, so that each lessee has a worker. With
    --elastic, an object has shards_moved too."""
    if spread:
        workers = max(workers, SPREAD_LESSEES + 1)
    with reported():
        if shuffle_shards and not elastic:
            raise UserError("--shuffle-shards needs --elastic", "no function has shards that can move")
        config = NexmarkConfig(seed=seed, events=events, event_rate=event_rate, disorder_s=disorder)
        slo = objective(latency=latency) if latency else None
        lessees = SPREAD_LESSEES if spread else 0
        workload = Workload(
            config,
            rate or (SHUFFLE_RATE if shuffle_shards else None),
            parallelism,
            batch,
            slo=slo,
            engine=engine.value,
            lessees=lessees,
            strategy=strategy,
            elastic=elastic,
            timezone=timezone,
        )
        elasticity = SHUFFLING if shuffle_shards else "auto"
        run = run_twins if twin else run_in_turn
        code = run(Request(chosen(queries), workload, workers, verify, json, timeout, elasticity))
    raise typer.Exit(code)


@program.command(epilog="Example:  [bold]stretto demo[/]")
def demo(
    workers: Workers = 2,
    events: Annotated[
        int, typer.Option(min=1000, help="Number of events per query, sent at 10,000 per second.")
    ] = DEMO_EVENTS,
    json: Json = False,
) -> None:
    """Run several NEXMark queries concurrently on one local cluster with live progress, and check them with Spark SQL.

    Takes about a minute. The exit code is 1 when an answer is wrong."""
    with reported():
        code = run_at_once(demo_request(workers, events, json))
    raise typer.Exit(code)
