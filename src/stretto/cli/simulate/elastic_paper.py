"""`stretto simulate elastic-paper`: elastic executors at the size of the paper's cluster, with its figures beside."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from stretto.cli.simulate.figures import print_figures_of, show_paper_figure
from stretto.simulator.experiments.elastic_paper import ELASTIC_FIGURES
from stretto.simulator.experiments.paper_figures import PaperScale


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
    print_figures_of(
        ELASTIC_FIGURES, only, PaperScale(nodes, seconds, warm, seed, time.process_time), json, show_paper_figure
    )
