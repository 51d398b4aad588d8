"""`stretto bench scaling`: what scaling a running query costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from stretto.bench.nexmark.run import chosen
from stretto.bench.scaling import query as scaled
from stretto.bench.scaling import structured
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.session import local_master, spark_session


def scaling(
    query: Annotated[str, typer.Option(help="A NEXMark query: q4, q5, q7, q8, or another one with windows.")] = "q5",
    seconds: Annotated[
        float, typer.Option(min=0.5, help="Length of the stretches before, between and after the changes.")
    ] = 3.0,
    rate: Annotated[
        float | None, typer.Option(min=100, help="Events sent per second; by default as fast as they are taken.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum number of events that a source reads at once.")] = 250,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Do the same with Spark Structured Streaming, or not.")
    ] = True,
    json: Json = False,
) -> None:
    """Scale a running query from 2 to 4 to 1 workers at full input, and compare every row with Spark SQL's.

    gap_ms is the longest time without results around a change, beyond the usual time between two of them (normal_ms).
    dip is the share of the throughput that is missing in the worst half second. converged_s is the time from the
    request until the throughput is what it is afterwards; it includes the start of the new workers' processes. spark
    has the gap of the same query in Structured Streaming on the same events: it is stopped, its state repartitioned,
    and it is started again from its checkpoint. The exit code is 1 when a row is wrong."""
    with reported():
        (name,) = chosen([query])
        asked = scaled.Scaled(name, seconds, batch, rate=rate)
        with spark_session("stretto bench scaling", local_master(scaled.MOST)) as session:
            report = scaled.run(session, asked, note)
            if spark:
                config = replace(asked.config, events=report.events)
                report.spark = structured.restarted(session, name, config, note)
    (print_json if json else print_figures)(report.as_dict())
    if not report.match:
        note(report.complaint or "")
        raise typer.Exit(WRONG_ANSWER)
