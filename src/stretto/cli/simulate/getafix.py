"""`stretto simulate getafix`: how many copies of segments it takes to answer questions, by the way to replicate."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import print_json, reported
from stretto.errors import UserError
from stretto.simulator.experiments.getafix.figures import CLIENTS, WAYS, GetafixFigures, getafix_figures
from stretto.simulator.experiments.getafix.queues import Setting

BASE = "getafix"


def getafix(
    clients: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Number of clients; may be repeated. 5, 10, 15 and 20.")
    ] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WAY", help=f"Compare only with this: {', '.join(name for name in WAYS if name != BASE)}."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes of 4 cores each.")] = Setting.nodes,
    slow: Annotated[int, typer.Option(min=0, help="Nodes of half the speed.")] = 0,
    deaths: Annotated[int, typer.Option(min=0, help="Nodes that die, one after the other.")] = 0,
    segments: Annotated[int, typer.Option(min=1, help="Number of segments, each of an hour.")] = Setting.segments,
    questions: Annotated[
        int, typer.Option(min=700, help="Questions of each client, 70 in a second.")
    ] = Setting.questions,
    hour: Annotated[
        float, typer.Option(min=0.5, help="Virtual seconds after which a new hour begins.")
    ] = Setting.hour_s,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare ways to replicate segments: Getafix, Scarlett, the same number of copies of each, and all everywhere.

    Clients ask about recent hours of a table, which newer hours follow, so popularity shifts (thesis chapter 4). What
    decides is the production code; nodes are a model of queues. Ratios are by Getafix: a memory ratio of 2 is twice
    its memory. Takes some seconds."""
    with reported():
        names = [BASE, *(way or [name for name in WAYS if name != BASE])]
        unknown = [name for name in names if name not in WAYS]
        if unknown:
            raise UserError(f"there is no way '{unknown[0]}'", None, f"Choose one of {', '.join(WAYS)}.")
        if deaths >= nodes:
            raise UserError("some nodes must live", f"there are {nodes}", f"Use --deaths {nodes - 1} at most.")
        if slow > nodes:
            raise UserError("there are fewer nodes than slow ones", f"{nodes} and {slow}")
    asked = Setting(0, nodes, segments, questions=questions, hour_s=hour, slow_nodes=slow, deaths=deaths, seed=seed)
    counts = clients or list(CLIENTS)
    with reported(), steps_bar() as bar:
        task = bar.add_task("runs", total=len(counts) * len(names))
        figures = getafix_figures(asked, counts, names, lambda: bar.advance(task))
    if json:
        print_json(asdict(figures))
    else:
        _print(figures)


def _print(figures: GetafixFigures) -> None:
    console = Console()
    columns = ("copies", "memory", "memory of one node", "makespan", "mean latency", "p99")
    for count, ways in figures.clients.items():
        table = Table("", *columns, title=f"{count} clients; in times Getafix'")
        for name, found in ways.items():
            latency = found["latency_ratio"]
            ratios = (found["memory_ratio"], found["memory_max_ratio"], found["makespan_ratio"], *latency.values())
            table.add_row(name, f"{found['replication']:g}", *(f"{ratio:g}" for ratio in ratios))
        console.print(table)
    for name, text in figures.thesis.items():
        console.print(f"  thesis: {name}: {text}", markup=False, highlight=False)
    for claim, holds in figures.claims.items():
        console.print(f"  {'holds' if holds else 'does not hold'}: {claim}", markup=False, highlight=False)
    console.print(f"  {figures.note}", markup=False, highlight=False)
