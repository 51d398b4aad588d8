"""`stretto bench page`: what the web page costs, and how fast a browser draws it."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.bench.page import overhead
from stretto.bench.page.drawing import DrawingSetup, measure_drawing
from stretto.bench.page.overhead import OverheadSetup, measure_overhead
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.errors import UserError
from stretto.runtime.session import local_master, spark_session


def page(
    query: Annotated[list[str] | None, typer.Option(help="Measure only this query: q5 or q7.")] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Number of NEXMark events of a run.")] = 20_000_000,
    rounds: Annotated[int, typer.Option(min=0, help="Number of rounds with the page open and without.")] = 5,
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs of the made-up cluster that is drawn.")] = 200,
    workers: Annotated[int, typer.Option(min=1, help="Number of its workers.")] = 100,
    openings: Annotated[int, typer.Option(min=1, help="How often the page is opened.")] = 5,
    updates: Annotated[int, typer.Option(min=1, help="How often it is updated.")] = 20,
    json: Json = False,
) -> None:
    """Measure the page: how fast a browser draws a large made-up cluster, and the throughput of NEXMark queries with
    the page open beside without.

    first_paint_ms is the time from the navigation to the frame with all jobs, update_ms that of a drawing, and
    throughput_ratio the median over the rounds; those with _cpu_ms are processor time of the page's thread, which does
    not depend on what else runs. The exit code is 1 if the first paint takes more than a second, an
    update more than 100 ms, or more than 2 percent of the throughput are lost: measure on an idle machine. It needs
    Chromium."""
    with reported():
        unknown = [name for name in query or () if name not in overhead.QUERIES]
        if unknown:
            raise UserError(f"there is no query '{unknown[0]}' here", None, "Choose q5 or q7.")
        found = {"drawing": measure_drawing(DrawingSetup(jobs, workers, openings=openings, updates=updates)).as_dict()}
        note(f"first paint {found['drawing']['first_paint_ms']} ms, update {found['drawing']['update_ms']} ms")
        if rounds:
            setup = OverheadSetup(tuple(query or overhead.QUERIES), events, rounds)
            with spark_session("stretto bench page", local_master(overhead.WORKERS)) as spark:
                found |= {name: cost.as_dict() for name, cost in measure_overhead(spark, setup, note).items()}
    (print_json if json else print_figures)(found)
    if not all(all(figures["within"].values()) for figures in found.values()):
        raise typer.Exit(WRONG_ANSWER)
