"""`stretto bench parked`: what transient workers cost that wait for a burst."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.bench.burst import parked as measuring
from stretto.bench.burst.parked import ParkedSetup
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.errors import UserError
from stretto.runtime.session import local_master, spark_session


def parked(
    query: Annotated[list[str] | None, typer.Option(help="Measure only this query: q5 or q7.")] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Number of NEXMark events of a run.")] = 40_000_000,
    transient: Annotated[int, typer.Option(min=1, help="Number of transient workers that wait.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; each runs a query with them and without.")] = 5,
    rest: Annotated[float, typer.Option(min=1, help="Seconds to watch them without a job.")] = 5.0,
    json: Json = False,
) -> None:
    """Measure what transient workers cost while there is no burst: throughput of NEXMark queries with some beside two
    ordinary workers and without, and how much of a core one of them takes.

    throughput_ratio is the median over the rounds, cpu_ratio that of the ordinary workers' processor time, and
    parked_cpu_share the share of a core of the busiest transient worker, without a job or beside one. The exit code is
    1 if more than 2 percent of the throughput are lost, or more than 0.5 percent of a core is taken: measure on an idle
    machine."""
    with reported():
        unknown = [name for name in query or () if name not in measuring.QUERIES]
        if unknown:
            raise UserError(f"there is no query '{unknown[0]}' here", None, "Choose q5 or q7.")
        setup = ParkedSetup(tuple(query or measuring.QUERIES), events, transient, rounds, rest)
        with spark_session("stretto bench parked", local_master(measuring.WORKERS + transient)) as spark:
            found = {name: cost.as_dict() for name, cost in measuring.measure(spark, setup, note).items()}
    (print_json if json else print_figures)(found)
    if not all(all(figures["within"].values()) for figures in found.values()):
        raise typer.Exit(WRONG_ANSWER)
