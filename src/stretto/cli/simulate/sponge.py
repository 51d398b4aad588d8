"""`stretto simulate sponge`: bursts on transient workers at the size of the paper, with its figures beside."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.figures import print_figures_of, show_paper_figure
from stretto.errors import UserError
from stretto.simulator.experiments.sponge.figures import SPONGE_FIGURES, burst_scale
from stretto.simulator.experiments.sponge.queries import QUERIES


def sponge(
    machines: Annotated[int, typer.Option(min=1, help="Number of virtual machines of 4 cores each.")] = 5,
    transient: Annotated[int, typer.Option(min=1, help="Number of transient workers, each a core.")] = 200,
    burst: Annotated[float, typer.Option(min=2, help="Virtual seconds that a burst lasts.")] = 60.0,
    window: Annotated[int, typer.Option(min=1, help="Seconds of the queries' windows, which slide by one.")] = 60,
    row_ms: Annotated[float, typer.Option(min=1, help="What a row, which is a batch of events, takes a core.")] = 50.0,
    query: Annotated[
        list[str] | None, typer.Option(metavar="QUERY", help=f"Run only this: {', '.join(QUERIES)}.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FIGURE", help=f"Make only this figure: {', '.join(SPONGE_FIGURES)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare ways to scale in a burst: none, new machines, functions, idle machines, too many machines, and Sponge.

    Repeats the figures of sponge.txt 6 with the real machines in virtual time, with the rates and state sizes of its
    table 1, and prints what the paper says next to ours, and which of its claims hold here. A row stands for a batch of
    events, so latencies begin at that of a batch; with much longer rows, loads look uneven, and are redirected early. A
    run at the paper's size takes one to five minutes of one core, so make figures one by one (--only 10 is 36 runs,
    --only 12 is 252); runs that several figures share are made once. Smaller sizes take seconds: --machines 1
    --transient 40 --burst 10 --window 5."""
    chosen = query or list(QUERIES)
    with reported():
        unknown = [name for name in chosen if name not in QUERIES]
        if unknown:
            raise UserError(f"there is no query '{unknown[0]}'", None, f"Choose one of {', '.join(QUERIES)}.")
    scale = burst_scale(chosen, machines, transient, burst, window, row_ms, seed)
    print_figures_of(SPONGE_FIGURES, only, scale, json, show_paper_figure)
