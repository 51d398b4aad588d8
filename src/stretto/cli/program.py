"""The commands, their options and their help. Other modules implement the commands."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated

import typer

from stretto.api.engines import Engine
from stretto.cli.bench.commands import bench
from stretto.cli.control import scale, status
from stretto.cli.functions import functions
from stretto.cli.loading import see_current_directory
from stretto.cli.logs import log_as_json
from stretto.cli.nexmark import DEMO_EVENTS, demo_request, run_at_once
from stretto.cli.nexmark_command import NEXMARK_EXAMPLES, nexmark
from stretto.cli.options import Json, PageAt, Report, Workers
from stretto.cli.querying import query
from stretto.cli.reporting import reported
from stretto.cli.running import RunRequest, explain_app, run_app
from stretto.cli.serving import ServeRequest, serve_app
from stretto.cli.simulate.commands import simulate
from stretto.cli.sql import SQL_EXAMPLES, sql
from stretto.cli.state import state
from stretto.elasticity.naming import CONTROLLERS
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
program.command(
    epilog="Examples:  [bold]stretto scale --out 2[/]   [bold]stretto scale --in 1 --app highest-bid --json[/]"
)(scale)
program.command(
    epilog='Examples:  [bold]stretto query "SELECT count(*) FROM bids_by_minute"[/]   '
    '[bold]stretto query "SELECT * FROM state.Jumps WHERE key = 7" --json[/]'
)(query)
program.command(epilog="Examples:  [bold]stretto status[/]   [bold]stretto status --json[/]")(status)
program.command(epilog="Example:  [bold]stretto state /shared/checkpoints/bids[/]")(state)

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
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log to stderr as JSON, an object on each line, with what is decided.")
    ] = False,
) -> None:
    """Run stateful streaming jobs as actors inside Spark tasks, each job with a latency objective."""
    see_current_directory()  # Apps, policies and strategies are given as module:name.
    if log_json:
        log_as_json(sys.stderr)


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
    elasticity: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"What decides about elastic functions: auto, off, {', '.join(CONTROLLERS)}, or module:Class; "
            "several are parted by commas.",
        ),
    ] = "auto",
    parked: Annotated[int, typer.Option(min=0, help="Number of spare workers; a spare replaces a lost worker.")] = 0,
    page: Annotated[
        bool, typer.Option("--page", help="Show what happens and why on a web page; its address is printed.")
    ] = False,
    page_at: PageAt = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Run an app and show its progress and its results.

    Progress goes to stderr: rates, latency, queue lengths per function, and a line for each decision about an elastic
    function when it is made and when its effect is known. With --json, these are objects of their own on stdout, before
    that of the result. The rows of collecting sinks are printed at the end. Ctrl-C stops the app. The exit code is 2
    when the app is invalid or fails."""
    with reported():
        chosen_engine = engine.value if engine else None
        request = RunRequest(target, workers, chosen_engine, master, json, timeout, rows, policy, strategy)
        durable = replace(request, checkpoint=checkpoint, every=every, start=start, drop_state=drop_state)
        run_app(replace(durable, parked=parked, elasticity=elasticity, page=page_at or page, report=report))


@program.command(
    epilog="Examples:  [bold]stretto serve examples.bank:app --checkpoint /shared/bank[/]   "
    "[bold]stretto serve examples.bank:app --in-process[/]"
)
def serve(
    target: Target,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 has the system choose one.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Callers need a token unless it is a loopback address.")
    ] = "127.0.0.1",
    token: Annotated[bool, typer.Option("--token", help="Callers need a token, on a loopback address too.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which a call that waits is given up.")] = 30.0,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Try the app out: no Spark, in memory, each transaction twice.")
    ] = False,
    workers: Workers = 2,
    master: Annotated[
        str | None, typer.Option(help="Spark master URL; by default a local Spark with two spare slots.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Keep the entities here, and have those that are there; otherwise they are in memory only.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Interval between snapshots, at most 4 s.")] = "4 s",
    parked: Annotated[int, typer.Option(min=0, help="Number of spare workers; a spare replaces a lost worker.")] = 0,
) -> None:
    """Serve the entities of an app over HTTP: POST /ENTITY/KEY/METHOD with a JSON object of arguments.

    Methods that only read are answered to GET too. The API is a page at /, and an OpenAPI document at /openapi.json.
    The address, and the token if one is needed, are printed on stdout when calls are answered. Ctrl-C and SIGTERM end
    the server when the calls in flight are answered. The exit code is 2 when the app is invalid or fails."""
    with reported():
        serve_app(
            ServeRequest(target, host, port, token, timeout, in_process, workers, master, checkpoint, every, parked)
        )


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


program.command(epilog=NEXMARK_EXAMPLES)(nexmark)
program.command(epilog=SQL_EXAMPLES)(sql)


@program.command(epilog="Example:  [bold]stretto demo[/]")
def demo(
    workers: Workers = 2,
    events: Annotated[
        int, typer.Option(min=1000, help="Number of events per query, sent at 10,000 per second.")
    ] = DEMO_EVENTS,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the page open at the end, until Ctrl-C.")] = False,
    page_at: PageAt = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Run several NEXMark queries concurrently on one local cluster with live progress, and check them with Spark SQL.

    Takes about a minute. The address of a web page that shows the cluster is printed on stderr. The exit code is 1 when
    an answer is wrong."""
    with reported():
        code = run_at_once(demo_request(workers, events, json, page_at or True, report, stay))
    raise typer.Exit(code)
