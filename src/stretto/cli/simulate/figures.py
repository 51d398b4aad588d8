"""Shared by the commands that make the figures of a paper: which ones, the runs with their progress, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import print_json, reported
from stretto.errors import UserError


def print_figures_of(
    experiments: Mapping[str, Any],
    only: list[str] | None,
    scale: Any,
    json: bool,
    show: Callable[[str, Any], None],
) -> None:
    """Make the figures of these experiments at a scale, all or only some, and print them: as JSON, or each with
    `show`. An experiment has the number of its `runs`, and is called with the scale and what to call after each."""
    with reported(), steps_bar() as bar:
        chosen = _chosen(experiments, only)
        task = bar.add_task("runs", total=sum(experiments[name].runs for name in chosen))
        figures = {}
        for name in chosen:
            bar.update(task, description=f"figure {name}")
            figures[name] = experiments[name].make(scale, lambda: bar.advance(task))
    if json:
        print_json({name: asdict(figure) for name, figure in figures.items()})
        return
    for name, figure in figures.items():
        show(name, figure)


def _chosen(experiments: Mapping[str, Any], only: list[str] | None) -> list[str]:
    unknown = [name for name in only or () if name not in experiments]
    if unknown:
        raise UserError(f"there is no figure '{unknown[0]}'", None, f"Choose one of {', '.join(experiments)}.")
    return only or list(experiments)
