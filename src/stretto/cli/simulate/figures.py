"""Shared by the commands that make the figures of a paper: which ones, the runs with their progress, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import print_json, reported
from stretto.errors import UserError
from stretto.simulator.experiments.paper_figures import PaperFigure


def print_figures_of(
    experiments: Mapping[str, Any],
    only: list[str] | None,
    scale: Any,
    json: bool,
    show: Callable[[str, Any], None],
) -> None:
    """Make the figures of these experiments at a scale, all or only some, and print them: as JSON, or each with
    `show`. An experiment has the number of its `runs`, or of its `runs_of` a scale, and is called with the scale and
    what to call after each."""
    with reported(), steps_bar() as bar:
        chosen = _chosen(experiments, only)
        task = bar.add_task("runs", total=sum(_runs(experiments[name], scale) for name in chosen))
        figures = {}
        for name in chosen:
            bar.update(task, description=f"figure {name}")
            figures[name] = experiments[name].make(scale, lambda: bar.advance(task))
    if json:
        print_json({name: asdict(figure) for name, figure in figures.items()})
        return
    for name, figure in figures.items():
        show(name, figure)


def _runs(experiment: Any, scale: Any) -> int:
    found: int = experiment.runs_of(scale) if hasattr(experiment, "runs_of") else experiment.runs
    return found


def _chosen(experiments: Mapping[str, Any], only: list[str] | None) -> list[str]:
    unknown = [name for name in only or () if name not in experiments]
    if unknown:
        raise UserError(f"there is no figure '{unknown[0]}'", None, f"Choose one of {', '.join(experiments)}.")
    return only or list(experiments)


def show_paper_figure(name: str, figure: PaperFigure) -> None:
    """Prints a figure with the paper's beside it."""
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
