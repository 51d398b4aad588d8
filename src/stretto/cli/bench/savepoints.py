"""`stretto bench savepoints`: stops queries and resumes them with other numbers of workers and partitions."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import savepoints as saved
from stretto.bench.nexmark.run import chosen
from stretto.bench.savepoints import Trip, legs_of
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.session import local_master, spark_session


def savepoints(
    query: Annotated[list[str] | None, typer.Option(help="NEXMark query; may be repeated; all by default.")] = None,
    legs: Annotated[str, typer.Option(help="Workers x partitions before and after each savepoint.")] = "2x1,5x4,1x1",
    events: Annotated[int, typer.Option(min=1_000, help="Number of events.")] = 40_000,
    rate: Annotated[float, typer.Option(min=100, help="Events sent per second.")] = 8_000,
    master: Annotated[
        str | None, typer.Option(help="Spark master URL; by default a local Spark.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal events.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Stop queries with a savepoint in the middle of the stream, resume them with another number of workers and another
    parallelism, and compare the final results with Spark SQL's answer.

    A leg is the part of the stream that one cluster processes. All queries run concurrently on each leg. The exit code
    is 1 when a row of any query is wrong."""
    with reported():
        trip = Trip(tuple(chosen(query or ["all"])), legs_of(legs), events, rate, seed)
        where = master or local_master(max(leg.workers for leg in trip.legs))
        with spark_session("stretto bench savepoints", where) as spark:
            reports = saved.run(spark, trip, note)
    if json:
        print_json({"legs": legs, "queries": [report.as_dict() for report in reports]})
    else:
        table = Table("query", "match", "rows", "rows read per leg")
        for report in reports:
            table.add_row(report.query, str(report.match), str(report.rows), str(report.rows_read))
        Console().print(table)
    for report in reports:
        if report.complaint is not None:
            note(f"{report.query}: {report.complaint}")
    if not all(report.match for report in reports):
        raise typer.Exit(WRONG_ANSWER)
