"""`stretto simulate social`: a social network on shared objects, by strategy, with and without copies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import print_json, reported
from stretto.errors import UserError
from stretto.simulator.experiments.social.figures import FIGURES, SocialFigures, number_of_runs, social_figures
from stretto.simulator.experiments.social.workload import CLIENTS, Setting


def social(
    figure: Annotated[
        list[str] | None, typer.Option(metavar="N", help=f"Only this figure; may be repeated: {', '.join(FIGURES)}.")
    ] = None,
    workers: Annotated[int, typer.Option(min=2, help="Number of workers.")] = Setting.workers,
    requests: Annotated[int, typer.Option(min=100 * CLIENTS, help="Requests in each run.")] = Setting.requests,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = Setting.seed,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare strategies on a social network whose posts and timelines are on a server (thesis 6.7.3): static binding,
    binding late and offloading, with and without copies of objects at the workers.

    Figures 6.12 to 6.15, with those of the thesis beside ours. All of them take some ten minutes."""
    names = list(figure or FIGURES)
    with reported():
        unknown = [name for name in names if name not in FIGURES]
        if unknown:
            raise UserError(f"there is no figure '{unknown[0]}'", None, f"Choose among {', '.join(FIGURES)}.")
    setting = Setting(workers, 5 * workers, requests, seed=seed)
    with reported(), steps_bar() as bar:
        task = bar.add_task("runs", total=number_of_runs(names))
        found = social_figures(setting, names, lambda: bar.advance(task))
    if json:
        print_json(asdict(found))
    else:
        _print(found)


def _print(found: SocialFigures) -> None:
    console = Console()
    for figure, rows in found.figures.items():
        table = Table("", "strategy", "p50 ms", "p99 ms", "in time", "remote reads", title=f"figure {figure}")
        for name, ways in rows.items():
            for strategy, each in ways.items():
                remote = f"{each['fetches']} of {each['reads']}"
                table.add_row(name, strategy, f"{each['p50']:g}", f"{each['p99']:g}", f"{each['success']:.1%}", remote)
                name = ""
        console.print(table)
    for name, times in found.accesses_saved.items():
        console.print(f"  remote accesses saved {name}: {times:g} times", markup=False, highlight=False)
    for name, text in found.thesis.items():
        console.print(f"  thesis, {name}: {text}", markup=False, highlight=False)
    for claim, holds in found.claims.items():
        console.print(f"  {'holds' if holds else 'does not hold'}: {claim}", markup=False, highlight=False)
    console.print(f"  {found.note}", markup=False, highlight=False)
