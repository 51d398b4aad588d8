"""`stretto bench strangers`: measures what connections that never authenticate cost a running job."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import strangers as besieging
from stretto.bench.strangers import Report, Setup
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

THROUGHPUT_RATIO_MIN = 0.9
DEFAULT = Setup()


def strangers(
    connections: Annotated[
        int, typer.Option(min=1, help="Half-open connections, over all ports of the cluster.")
    ] = DEFAULT.connections,
    seconds: Annotated[
        float, typer.Option(min=2, help="Measured seconds with strangers, and as many without.")
    ] = DEFAULT.seconds,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of interleaved rounds; the ratio is the median over them.")
    ] = DEFAULT.rounds,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Measure a job beside strangers: connections to all ports of the cluster that never authenticate.

    The job counts bids per auction at full speed, with a checkpoint every second. Phases with and without strangers
    alternate. Half of the strangers say nothing, half begin a greeting; each connects again when it is cut. They are
    processes of their own on this machine and use loopback only; they end with their phase.

    The exit code is 1 when throughput falls by more than 10 percent or a checkpoint is lost."""
    with (
        reported(),
        spark_session("stretto bench strangers", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        report = besieging.measure(cluster, Setup(connections, seconds, rounds), note)
    good = report.throughput_ratio >= THROUGHPUT_RATIO_MIN and report.is_undisturbed
    if json:
        limits = {"throughput_ratio_min": THROUGHPUT_RATIO_MIN}
        print_json({"workers": workers, "limits": limits, "within_limits": good, **report.as_dict()})
    else:
        Console().print(_table(report))
        Console().print(f"throughput beside strangers: {report.throughput_ratio:.3f} of that without")
    if not good:
        raise typer.Exit(WRONG_ANSWER)


def _table(report: Report) -> Table:
    table = Table("strangers", "rows/s", "checkpoints", "descriptors at most", "open at once", "cut", "their CPU s")
    for phase in report.phases:
        table.add_row(
            f"{report.connections:,}" if phase.strangers else "none",
            f"{phase.rows_per_s:,.0f}",
            str(phase.checkpoints),
            str(phase.descriptors_max),
            f"{phase.established_max:,}",
            f"{phase.cut:,}",
            f"{phase.strangers_cpu_s:.1f}",
        )
    return table
