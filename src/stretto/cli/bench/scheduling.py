"""`stretto bench scheduling`: measures what deadlines and the urgency queue cost per message."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import scheduling_cost
from stretto.cli.reporting import note, print_json, reported


def scheduling(
    messages: Annotated[int, typer.Option(min=100, help="Messages per worker for each figure.")] = 10_000,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Measure what priorities and the urgency queue cost per message, relative to executing a local aggregation.

    Compares the worker under LLF with the same worker with a plain FIFO queue and without priorities, for several
    batch sizes, and measures how the cost grows with the number of waiting jobs. Overhead is the time of a message
    outside its function. Takes about half a minute and needs no Spark."""
    with reported():
        report = scheduling_cost.measure(messages, note)
    if json:
        print_json(report.as_dict())
        return
    console = Console()
    table = Table(
        *("rows", "execution us", "overhead LLF us", "overhead FIFO us", "LLF adds", "LLF adds, without quantum"),
        title="one message of a windowed aggregation",
        title_justify="left",
    )
    for cost in report.batches:
        figures = (cost.execution_us, cost.with_deadlines_us, cost.bare_fifo_us)
        percents = (cost.percent, cost.percent_deciding_each)
        table.add_row(f"{cost.rows:,}", *(f"{us:.1f}" for us in figures), *(f"{percent:.1f} %" for percent in percents))
    console.print(table)
    table = Table(
        "part", "us", title=f"parts of LLF alone: {report.parts_percent:.1f} % at batch size 1", title_justify="left"
    )
    for part, us in report.parts_us.items():
        table.add_row(part, f"{us:.2f}")
    console.print(table)
    growth = report.growth
    lines = {
        "queue alone, us": growth.queue_us,
        "queue alone, comparisons": growth.queue_comparisons,
        "overhead LLF us": growth.with_deadlines_us,
        "overhead FIFO us": growth.bare_fifo_us,
    }
    sizes = (f"{jobs:,} jobs" for jobs in growth.queue_us.points)
    table = Table("per message", *sizes, "per doubling", "max deviation", "power law")
    for name, line in lines.items():
        costs = (f"{cost:.2f}" for cost in line.points.values())
        table.add_row(
            name, *costs, f"{line.per_doubling:+.2f}", f"{line.log_error_percent:.0f} %", f"n^{line.exponent:.2f}"
        )
    console.print(table)
