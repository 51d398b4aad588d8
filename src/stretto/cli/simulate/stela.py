"""`stretto simulate stela`: which functions get new workers, which workers leave, and the thesis' figures beside."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, print_json, reported
from stretto.errors import UserError
from stretto.simulator.experiments.stela import CASES, StelaFigures, runs_of, stela_figures


def stela(
    seconds: Annotated[float, typer.Option(min=2, help="Virtual seconds of each run.")] = 4.0,
    groups: Annotated[int, typer.Option(min=1, help="Number of random groups of machines that leave.")] = 8,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPOLOGY", help=f"Run only this: {', '.join(CASES)}, or scale-in."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare Stela with round robin and least link load, on the topologies and at the sizes of thesis 2.4.

    Each topology runs as it is, then on one machine more, by each strategy. The strategies see what the first run has
    measured. Page load also runs with half of its machines: those that Stela removes, and random ones. A change is
    modelled by starting again with the new placement, so interruptions are not measured. What is less than in the
    thesis is printed with its cause. The exit code is 1 if Stela is neither as far above the others as in the thesis
    nor near the best that any choice could reach."""
    with reported(), steps_bar() as bar:
        chosen = only or [*CASES, "scale-in"]
        unknown = [name for name in chosen if name not in (*CASES, "scale-in")]
        if unknown:
            raise UserError(
                f"there is no topology '{unknown[0]}'", None, f"Choose one of {', '.join(CASES)}, scale-in."
            )
        names, inward = [name for name in chosen if name in CASES], "scale-in" in chosen
        task = bar.add_task("runs", total=runs_of(names, groups, inward))
        figures = stela_figures(names, seconds, groups, seed, inward, lambda: bar.advance(task))
    if json:
        print_json(asdict(figures))
    else:
        _print(figures)
    if figures.violations:
        raise typer.Exit(WRONG_ANSWER)


def _print(figures: StelaFigures) -> None:
    console = Console()
    columns = ("topology", "before", "stela", "round robin", "link load", "bound", "above round robin", "thesis")
    table = Table(*columns, title="rows per second before and after a scale-out by one machine")
    for name, found in figures.scale_out.items():
        after = (f"{found.after[each]:,.0f}" for each in ("stela", "round-robin", "least-link-load"))
        above = f"{found.above_percent['round-robin']:.0f} %"
        thesis = f"{found.thesis_above_storm_percent:.0f} %"
        table.add_row(name, f"{found.before:,.0f}", *after, f"{found.bound:,.0f}", above, thesis)
    console.print(table)
    inward = figures.scale_in
    if inward is not None:
        groups = ", ".join(f"{rate:,.0f}" for rate in inward.random)
        console.print(
            f"  8 to 4 machines: {inward.before:,.0f} rows/s before, {inward.stela:,.0f} with Stela, {groups} with"
            f" random groups: {inward.by_random_mean:.2f} times their mean. Thesis: {figures.thesis['scale_in']}.",
            markup=False,
            highlight=False,
        )
    for text in (*figures.falls_short, *figures.violations):
        console.print(f"  {text}", markup=False, highlight=False)
