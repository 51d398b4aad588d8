"""`stretto simulate elastic-paper`: elastic executors at the size of the paper's cluster, with its figures beside."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.simulate.figures import print_figures_of
from stretto.simulator.experiments.elastic_paper import ELASTIC_FIGURES
from stretto.simulator.experiments.paper_figures import PaperFigure, PaperScale


def elastic_paper(
    nodes: Annotated[int, typer.Option(min=2, help="Number of nodes of 8 cores each; the paper has 32.")] = 8,
    seconds: Annotated[float, typer.Option(min=2, help="Virtual seconds that are measured in each run.")] = 10.0,
    warm: Annotated[float, typer.Option(min=1, help="Virtual seconds before them.")] = 6.0,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE", help=f"Make only this figure: {', '.join(ELASTIC_FIGURES)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare static, resource-centric, naive and elastic executors on a simulated cluster: throughput, latency, moves.

    Repeats the figures of elasticutor.txt 5 with the real machines and controllers in virtual time, and prints what the
    paper says next to ours, and which of its claims hold here. Tuples travel in batches, so compare latencies with each
    other only. All figures take about half an hour of one core, and four to five times as long with --nodes 32, the
    paper's size; runs that several figures share are made once. Smaller clusters have fewer keys, so that a core has as
    many as in the paper. Controllers need about five virtual seconds until all executors have what they need."""
    print_figures_of(ELASTIC_FIGURES, only, PaperScale(nodes, seconds, warm, seed, time.process_time), json, _print)


def _print(name: str, figure: PaperFigure) -> None:
    console = Console()
    table = Table("", "ours", title=f"{name}: {figure.title}")
    for key, value in figure.ours.items():
        table.add_row(key, _shown(value))
    console.print(table)
    for key, value in figure.paper.items():
        console.print(f"  paper: {key}: {_shown(value)}", markup=False, highlight=False)
    for claim, holds in figure.claims.items():
        console.print(f"  {'holds' if holds else 'does not hold'}: {claim}", markup=False, highlight=False)
    console.print(f"  {figure.note}", markup=False, highlight=False)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_line(each)}" for key, each in value.items())
    return _line(value)


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_line(each)}" for key, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
