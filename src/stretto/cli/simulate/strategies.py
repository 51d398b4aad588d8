"""`stretto simulate strategies`: compares strategies by setting, and checks how close `auto` comes to the best."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import print_json, reported
from stretto.simulator.experiments import comparison
from stretto.simulator.experiments.comparison import AUTO_WITHIN, Central, Outcome


def strategies(
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare the latency of strategies in different settings, as in figures 6.9, 6.10, 6.18, 6.20 and 6.21a of the
    thesis.

    The settings are requests on 128 workers with varying size, state and skew; windows that close at barriers; and a
    central dispatcher. For each setting, prints the latencies, the winner between dynamic binding (ask two workers
    before sending) and offloading (send to the lessor, which forwards messages that would be late), and the latency of
    `auto` relative to the best. Takes several minutes."""
    with reported(), steps_bar() as bar:
        task = bar.add_task("runs", total=comparison.RUNS)

        def step() -> None:
            bar.advance(task)

        outcomes = [
            *comparison.by_skew(step),
            *comparison.by_task_size(step),
            *comparison.by_query(step),
            *comparison.by_range(step),
        ]
        central = list(comparison.central(step))
    if json:
        settings = [outcome.as_json() for outcome in outcomes]
        print_json({"settings": settings, "central": [asdict(point) for point in central], "auto_within": AUTO_WITHIN})
        return
    console = Console()
    console.print(_table(outcomes))
    console.print(_central_table(central))


def _table(outcomes: list[Outcome]) -> Table:
    names = (*comparison.COMPARED, "priority", "auto")
    table = Table(
        "figure", "setting", *names, "winner", "auto / best", title="latency in ms: mean of requests, or p50 of windows"
    )
    for outcome in outcomes:
        latencies = (f"{outcome.latency_ms[name]:,.4g}" for name in names)
        table.add_row(
            outcome.figure, outcome.setting, *latencies, f"{outcome.winner} ({outcome.kind})", str(outcome.auto_by_best)
        )
    return table


def _central_table(points: list[Central]) -> Table:
    table = Table("utilisation", "dispatcher p50 ms", "p99", "queue-direct p50 ms", "p99", title="central dispatcher")
    for point in points:
        figures = (point.dispatcher["p50"], point.dispatcher["p99"], point.decentral["p50"], point.decentral["p99"])
        table.add_row(f"{point.utilisation:g}", *(f"{figure:,.4g}" for figure in figures))
    return table
