"""`stretto bench henge`: what the controller of objectives brings on Spark."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench.henge.comparison import Comparison, compare
from stretto.bench.henge.conflict import Conflict
from stretto.cli.options import Json
from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, complain, note, print_json, reported
from stretto.runtime.session import local_master, spark_session


def henge(
    seconds: Annotated[
        float, typer.Option(min=15, help="Length of each of the two runs; the last third of it is judged.")
    ] = Conflict.seconds,
    controller: Annotated[
        str, typer.Option(help="Who decides in the second run: henge, henge-fair, or your own as module:Class.")
    ] = Conflict.controller,
    json: Json = False,
) -> None:
    """Measure the total utility of three jobs whose objectives conflict: nobody decides, or a controller does.

    One job promises a latency and is worth most, one a throughput and wants most of the workers, one is modest. Their
    functions wait for each row, so that five workers run side by side on fewer cores. Utility is worked out from when
    rows were due and when their results arrived at the driver. utility has the mean of the total in the judged part,
    most what it could be at best, ratio the second by the first, over_time all slices of time, decisions the records of
    the controller. match is whether every row of every job was right, by a model; the exit code is 1 if not."""
    asked = Conflict(seconds=seconds, controller=controller)
    with reported(), spark_session("stretto bench henge", local_master(asked.workers)) as spark, steps_bar() as bar:
        task = bar.add_task("slices of both runs", total=2 * asked.slices)
        found = compare(spark, asked, note, lambda: bar.advance(task))
    if json:
        print_json(found.as_dict())
    else:
        _print(found)
    for wrong in found.wrong:
        complain(wrong)
    if found.wrong:
        raise typer.Exit(WRONG_ANSWER)


def _print(found: Comparison) -> None:
    console, asked = Console(), found.asked
    title = f"{asked.workers} workers, the last {asked.judged * asked.slice_s:g} of {asked.seconds:g} s"
    table = Table("who decides", "job", "objective", "utility", "latency ms", "juice", "partitions", title=title)
    objectives = {intent.name: intent.slo.describe() for intent in asked.intents}
    for way, jobs in found.jobs().items():
        for name, job in jobs.items():
            shown = ("-" if job[what] is None else f"{job[what]:g}" for what in ("utility", "latency_ms", "juice"))
            table.add_row(way, name, objectives[name], *shown, str(job["partitions"]))
        table.add_row(way, "all", "", f"{found.utility[way]:.2f} of {asked.most:g}", end_section=True)
    console.print(table)
    for record in found.decisions:
        console.print(str(record), markup=False, highlight=False, soft_wrap=True)
