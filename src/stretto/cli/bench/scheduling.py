"""`stretto bench scheduling`: what deadlines and a queue by urgency cost per message."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import scheduling_cost
from stretto.cli.reporting import note, print_json, reported


def scheduling(
    messages: Annotated[int, typer.Option(min=100, help="Messages of each worker for each figure.")] = 10_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """What priorities and the queue by urgency cost per message, by the execution of a local aggregation.

    The worker under LLF beside the same worker with a plain FIFO and without priorities, in turns, by batch size; and
    how the cost grows with the number of jobs that wait. Takes about half a minute and needs no Spark."""
    with reported():
        report = scheduling_cost.measure(messages, note)
    if json:
        print_json(report.as_dict())
        return
    console = Console()
    table = Table(
        *("rows", "execution us", "outside, LLF us", "outside, bare FIFO us", "scheduling adds", "deciding each time"),
        title="one message of a windowed aggregation",
        title_justify="left",
    )
    for cost in report.batches:
        figures = (cost.execution_us, cost.with_deadlines_us, cost.bare_fifo_us)
        percents = (cost.percent, cost.percent_deciding_each)
        table.add_row(f"{cost.rows:,}", *(f"{us:.1f}" for us in figures), *(f"{percent:.1f} %" for percent in percents))
    console.print(table)
    table = Table("part", "us", title=f"by itself: {report.parts_percent:.1f} % at batch size 1", title_justify="left")
    for part, us in report.parts_us.items():
        table.add_row(part, f"{us:.2f}")
    console.print(table)
    growth = report.growth
    lines = {
        "the queue alone, us": growth.queue_us,
        "the queue alone, comparisons": growth.queue_comparisons,
        "outside of the function, LLF us": growth.with_deadlines_us,
        "outside of the function, bare FIFO us": growth.bare_fifo_us,
    }
    sizes = (f"{jobs:,} jobs" for jobs in growth.queue_us.points)
    table = Table("per message", *sizes, "per doubling", "off the line", "as a power")
    for name, line in lines.items():
        costs = (f"{cost:.2f}" for cost in line.points.values())
        table.add_row(
            name, *costs, f"{line.per_doubling:+.2f}", f"{line.log_error_percent:.0f} %", f"n^{line.exponent:.2f}"
        )
    console.print(table)
