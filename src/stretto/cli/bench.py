"""`stretto bench`: measurements of stretto itself."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import message_path
from stretto.cli.reporting import note, print_json, reported

bench = typer.Typer(name="bench", no_args_is_help=True, help="Measure stretto: what a message costs, and how it grows.")


@bench.callback()
def about() -> None:
    """Measure stretto: what a message costs, and how it grows."""


@bench.command()
def path(
    messages: Annotated[int, typer.Option(min=100, help="Messages of each round.")] = 20_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """The cost of one message through a worker: receive, enqueue, schedule, apply a no-op, send.

    Microseconds of the worker's own time, the median of five rounds: locally, over a socket, and as the number of
    actors and of waiting messages grows. Takes about a minute and needs no Spark."""
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
