"""`stretto bench spread` and `stretto bench barriers`: what dual-mode actors gain for a hot key, and what they cost."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import barrier_cost
from stretto.bench import spread as spreading
from stretto.cli.options import Json
from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

SPREAD_LATENCY_MS_MAX = 1_000.0


def spread(
    rate: Annotated[float, typer.Option(min=1, help="Messages per second, all with the same key.")] = 600.0,
    cost: Annotated[float, typer.Option(min=0.1, help="Milliseconds that the function waits per message.")] = 5.0,
    lessees: Annotated[int, typer.Option(min=1, help="Maximum number of lessees of the hot actor.")] = 6,
    seconds: Annotated[
        float, typer.Option(min=3, help="Length of the stream in seconds; a third of it for one instance.")
    ] = 15.0,
    json: Json = False,
) -> None:
    """Measure latency for a hot key that overloads one instance: without lessees, and with lessees.

    The query is a windowed maximum. Latency is from when the end of a window was due until its result is at the driver.
    The windows are compared with Spark SQL's. The exit code is 1 when an answer is wrong, or when the run with lessees
    does not keep up."""
    workers = lessees + 2
    with (
        reported(),
        spark_session("stretto bench spread", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        report = spreading.measure(cluster, rate, cost / 1e3, lessees, seconds, note)
    if json:
        print_json(report.as_dict())
    else:
        Console().print(_spread_table(report))
    good = report.alone.match and report.spread.match
    if not good or not report.spread.keeps_up or report.spread.latency_ms["p99"] >= SPREAD_LATENCY_MS_MAX:
        raise typer.Exit(WRONG_ANSWER)


def _spread_table(report: spreading.SpreadReport) -> Table:
    table = Table(
        *("lessees", "p50 ms", "p99 ms", "growth ms/s", "first lessee after ms", "barrier p50 ms", "answer"),
        title=f"{report.rate:g} messages/s of {report.cost_ms:g} ms each",
        title_justify="left",
    )
    for run in (report.alone, report.spread):
        first = "-" if run.first_lessee_ms is None else f"{run.first_lessee_ms:.1f}"
        barrier = run.barrier_ms.get("p50")
        table.add_row(
            str(run.lessees),
            *(f"{run.latency_ms[name]:,.0f}" for name in ("p50", "p99")),
            f"{run.growth_ms_per_s:,.0f}",
            first,
            "-" if barrier is None else f"{barrier:.2f}",
            "right" if run.match else "wrong",
        )
    return table


def barriers(
    spark: Annotated[bool, typer.Option("--spark/--simulated", help="Measure on Spark too, or only simulate.")] = True,
    json: Json = False,
) -> None:
    """Measure how long a barrier takes, from BLOCKED to the last UNSYNC, by number of lessees and by state size.

    Simulated for 1 to 64 lessees, with state costs that are measured first; on Spark for up to 8 lessees."""
    with reported(), steps_bar() as bar:
        task = bar.add_task("barriers", total=barrier_cost.STEPS)

        def done(what: str) -> None:
            bar.update(task, advance=1, description=what)

        if spark:
            master = local_master(barrier_cost.WORKERS)
            with (
                spark_session("stretto bench barriers", master) as session,
                Cluster.on_spark(session, workers=barrier_cost.WORKERS) as cluster,
            ):
                report = barrier_cost.measure(cluster, done)
        else:
            report = barrier_cost.measure(None, done)
    if json:
        print_json(report.as_dict())
        return
    console = Console()
    for title, costs in (
        ("by number of lessees, state 1 KB", report.by_lessees),
        ("by state size, 4 lessees", report.by_size),
    ):
        table = Table("lessees", "state KB", "simulated p50 ms", "Spark p50 ms", "Spark p95 ms", title=title)
        for cost in costs:
            table.add_row(
                str(cost.lessees),
                f"{cost.size // barrier_cost.KB:,}",
                _ms(cost.simulated_ms, "p50"),
                _ms(cost.spark_ms, "p50"),
                _ms(cost.spark_ms, "p95"),
            )
        console.print(table)


def _ms(found: dict[str, Any] | None, name: str) -> str:
    value = (found or {}).get(name)
    return "-" if value is None else f"{value:.2f}"
