"""`stretto simulate henge`: many jobs with objectives share a cluster that their diurnal loads overload."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, print_json, reported
from stretto.simulator.experiments.henge import HOURS, UNITS_PER_JOB, HengeFigures, henge_figures


def henge(
    jobs: Annotated[int, typer.Option(min=2, help="Number of jobs.")] = 10,
    units: Annotated[
        float, typer.Option(min=3, help="Workers per job, of which it needs 6 at its peak.")
    ] = UNITS_PER_JOB,
    hours: Annotated[int, typer.Option(min=1, help="Hours of the traces, of 10 virtual minutes each.")] = HOURS,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    records: Annotated[int, typer.Option(min=0, help="Number of decision records in the JSON.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare the controller of objectives with fixed shares and with a clairvoyant bound, as in thesis 3.5.

    Jobs have objectives for latency, throughput or both. Utility is in percent of what all objectives are worth
    together. The effect of a decision is measured by running the job again with its new units, and each costs its job
    half a second without results. The exit code is 1 if the controller is more than 5 points below the bound, or takes
    0.5 percent of the time for its actions."""
    with reported(), steps_bar() as bar:
        task = bar.add_task("cases", total=None)
        figures = henge_figures(jobs, units, hours, seed, records, lambda: bar.advance(task))
    if json:
        print_json(asdict(figures))
    else:
        _print(figures)
    if figures.violations:
        raise typer.Exit(WRONG_ANSWER)


def _print(figures: HengeFigures) -> None:
    console = Console()
    columns = ("utility", "p15", "p50", "p90", "least", "objectives_met", "decisions", "time_in_actions")
    table = Table(
        "", *columns, title=f"{figures.jobs} jobs on {figures.units} units, {figures.hours} hours; in percent"
    )
    for name, found in figures.ours.items():
        table.add_row(name, *("-" if found[each] is None else f"{found[each]:g}" for each in columns))
    for name, thesis in figures.thesis.items():
        table.add_row(f"thesis: {name}", *(f"{thesis[each]:g}" if each in thesis else "-" for each in columns))
    console.print(table)
    console.print(f"  {figures.points_below_bound} points below the clairvoyant bound.", markup=False, highlight=False)
    for violation in figures.violations:
        console.print(f"  {violation}", markup=False, highlight=False)
