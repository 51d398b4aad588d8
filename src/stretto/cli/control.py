"""`stretto scale` and `stretto status`: ask a running `stretto run` over its control socket."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from stretto.cli.reporting import print_json, reported
from stretto.errors import ProtocolError
from stretto.protocol.control import AskScale, AskStatus, Scaled, Status
from stretto.runtime.control_socket import ask, the_driver

STATUS_TIMEOUT_S = 30.0

AppName = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="The driver that runs this app.", show_default=False)
]
Pid = Annotated[
    int | None, typer.Option("--pid", help="The driver with this process id, if several run.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]


def scale(
    out: Annotated[int, typer.Option("--out", min=0, help="Number of workers to add.")] = 0,
    leave: Annotated[int, typer.Option("--in", min=0, help="Number of workers to have leave.")] = 0,
    drain: Annotated[
        str | None, typer.Option(metavar="WORKER", help="Have this worker leave, such as w1~1.", show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="Give up after this many seconds.", show_default=False)
    ] = None,
    app: AppName = None,
    pid: Pid = None,
    json: Json = False,
) -> None:
    """Add workers to a running `stretto run`, or have some leave, while its jobs go on.

    Returns when the new workers have joined, and when those that leave have given their Spark slots back. Workers
    without actors of their own leave first. The exit code is 2 when Spark has too few slots, when no worker can leave,
    or when no cluster of this user is running."""
    with reported():
        driver = the_driver(app, pid)
        reply = ask(driver.path, AskScale(out, leave, drain, timeout), None)
        if not isinstance(reply, Scaled):
            raise ProtocolError("the driver answered something else", type(reply).__name__)
        if json:
            print_json({"pid": driver.about.pid, **msgspec.structs.asdict(reply)})
            return
        for what, names in (("joined", reply.joined), ("left", reply.left)):
            if names:
                typer.echo(f"{', '.join(names)} {what}")
        typer.echo(f"{reply.workers} workers")


def status(app: AppName = None, pid: Pid = None, json: Json = False) -> None:
    """Show what a running `stretto run` does: its workers with their load, its jobs and their functions with rates.

    --json prints cluster, workers_wanted, workers (name, role, state, host, pid, busy, queued, jobs) and jobs (name,
    status, attempt, workers, rows_per_s, functions). `busy` counts cores. The exit code is 2 when no cluster of this
    user is running."""
    with reported():
        driver = the_driver(app, pid)
        reply = ask(driver.path, AskStatus(), STATUS_TIMEOUT_S)
        if not isinstance(reply, Status):
            raise ProtocolError("the driver answered something else", type(reply).__name__)
        if json:
            lists = {"workers": msgspec.to_builtins(reply.workers), "jobs": msgspec.to_builtins(reply.jobs)}
            print_json({"pid": driver.about.pid, **msgspec.structs.asdict(reply), **lists})
            return
        console = Console()
        console.print(_workers(reply))
        console.print(_functions(reply))


def _workers(status: Status) -> Table:
    table = Table(box=SIMPLE_HEAD, title=f"{status.workers_wanted} workers wanted", title_justify="left")
    for heading in ("worker", "role", "state", "pid", "busy", "waiting", "jobs"):
        table.add_column(heading, justify="right" if heading in ("pid", "busy", "waiting") else "left")
    for worker in status.workers:
        busy, jobs = f"{worker.busy:.2f}", ", ".join(worker.jobs)
        table.add_row(worker.name, worker.role, worker.state, str(worker.pid), busy, str(worker.queued), jobs)
    return table


def _functions(status: Status) -> Table:
    table = Table(box=SIMPLE_HEAD, title="rows per second", title_justify="left")
    for heading in ("job", "status", "function", "instances", "in", "out", "busy", "waiting"):
        table.add_column(heading, justify="left" if heading in ("job", "status", "function") else "right")
    for job in status.jobs:
        for number, each in enumerate(job.functions):
            first = (job.name, job.status) if number == 0 else ("", "")
            rates = (f"{each.rows_in_per_s:,.0f}", f"{each.rows_out_per_s:,.0f}", f"{each.busy:.2f}")
            table.add_row(*first, each.name, str(each.instances), *rates, str(each.queued))
    return table
