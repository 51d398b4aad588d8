"""`stretto simulate tenants`: many jobs on one simulated cluster, compared with the papers' figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.simulate.figures import print_figures_of
from stretto.simulator.experiments.tenancy import Figure, Scale
from stretto.simulator.experiments.tenants import EXPERIMENTS


def tenants(
    workers: Annotated[int, typer.Option(min=4, help="Number of workers; the jobs scale with it.")] = 128,
    seconds: Annotated[
        float, typer.Option(min=2, help="Virtual seconds per run; some runs last a multiple of it.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE", help=f"Make only this figure: {', '.join(EXPERIMENTS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare scheduling by deadline (LLF) with FIFO for many jobs: bulk load, bursts, skewed sources, fewer workers.

    Repeats the figures 5.7 to 5.10 of the thesis and figure 10 of dirigo.txt. Runs the real worker machines in virtual
    time, and prints the paper's numbers next to ours. Takes about five minutes."""
    print_figures_of(EXPERIMENTS, only, Scale(workers, seconds, seed), json, _print)


def _print(name: str, figure: Figure) -> None:
    """Print one column per point: a point has too many figures for a row."""
    console = Console()
    table = Table("", title=f"{name}: {figure.title}", show_header=False)
    columns = [dict(_flat(point)) for point in figure.points]
    for _ in columns:
        table.add_column(justify="right")
    for row in columns[0]:
        table.add_row(row, *(_shown(column[row]) for column in columns))
    console.print(table)
    for title, found in (("ours", figure.ours), ("paper", figure.paper), ("settings", figure.settings)):
        shown = ", ".join(f"{key} {_shown(value)}" for key, value in _flat(found))
        console.print(f"  {title}: {shown}", markup=False, highlight=False)


def _flat(nested: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key} ")
        else:
            yield f"{above}{key}", value


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
