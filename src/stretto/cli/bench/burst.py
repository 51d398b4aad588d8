"""`stretto bench burst`: what a burst does to a query, with transient workers, with cold ones and with neither."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.bench.burst import comparing
from stretto.bench.burst.load import BurstLoad
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.session import local_master, spark_session


def burst(
    query: Annotated[str, typer.Option(help="The NEXMark query: q1, q4, q5 or q8.")] = "q5",
    before: Annotated[float, typer.Option(min=4, help="Seconds before the burst.")] = 20.0,
    length: Annotated[float, typer.Option(min=4, help="Seconds that the burst lasts.")] = 15.0,
    after: Annotated[float, typer.Option(min=4, help="Seconds after the burst.")] = 15.0,
    times: Annotated[int, typer.Option(min=2, help="How many times as many events come in the burst.")] = 5,
    transient: Annotated[int, typer.Option(min=1, help="Number of transient workers.")] = 12,
    busy: Annotated[
        float, typer.Option(min=0.1, max=0.9, help="How busy rows keep the two workers before the burst.")
    ] = 0.55,
    row_us: Annotated[float, typer.Option(min=100, help="How long a row waits, in microseconds.")] = 5_000.0,
    json: Json = False,
) -> None:
    """Measure a burst of five times the usual load of a NEXMark query on two workers.

    p99_ms has the latency before, during and after the burst with transient workers; no_scaling and cold_workers have
    the same without, and where as many ordinary workers as it takes are started a second after the burst began and take
    over (after added_s seconds). first_transient_row_s is the time from the start of the burst until a row that ran on
    a transient worker was seen, decision_to_redirect_ms that from the decision until the first batch was sent there,
    and ended_s that from the end of the burst until all was to run at home again. match is whether every row of each
    run equals Spark SQL's; the exit code is 1 if not.

    Rows wait instead of computing, as for the answer of a service, so that many workers run side by side on few
    cores."""
    load = BurstLoad(query, before, length, after, times, busy, row_us, transient=transient)
    with (
        reported(),
        spark_session("stretto bench burst", local_master(load.workers + max(transient, load.cores))) as spark,
    ):
        report = comparing.run(spark, load, note)
    (print_json if json else print_figures)(report.as_dict())
    if not report.all_match:
        raise typer.Exit(WRONG_ANSWER)
