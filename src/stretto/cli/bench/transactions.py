"""`stretto bench transactions`: how many transactions of entities a second, verified, and what the protocol's parts
bring."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from stretto.bench.transactions import measure, open_loop
from stretto.bench.transactions.ablation import ablate
from stretto.bench.transactions.measure import Named, Report
from stretto.bench.transactions.moving import moved
from stretto.bench.transactions.on_spark import OnSpark
from stretto.bench.transactions.workload import Run, Workload
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session


def transactions(
    workload: Annotated[Named, typer.Option(help="The workload.")] = Named.YCSB_T,
    skew: Annotated[float, typer.Option(min=0, max=2, help="ycsb-t: Zipf's coefficient of the creditors.")] = 0.0,
    hot: Annotated[bool, typer.Option("--hot", help="ycsb-t: all transfers go to one account.")] = False,
    warehouses: Annotated[int, typer.Option(min=1, help="tpcc: number of warehouses.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    calls: Annotated[int, typer.Option(min=100, help="Number of transactions to measure at full load.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each of the other loads.")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the calls.")] = 1,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Only the machines of the workers, in one process, without Spark."),
    ] = False,
    ablation: Annotated[
        bool,
        typer.Option(
            "--ablation",
            help="In one process, leave out each part of the protocol in turn, and compare.",
        ),
    ] = False,
    moves: Annotated[
        int, typer.Option(min=0, help="In one process, have a place move so often under load, and say what calls wait.")
    ] = 0,
    entities: Annotated[int, typer.Option(min=0, help="--moves: how many entities the place has.")] = 100_000,
    json: Json = False,
) -> None:
    """Measure transactions of entities on a cluster: how many a second it sustains, and how long calls wait at 25, 50
    and 80 percent of that.

    The loads are open: a call is made when it is due, whatever those before it do, and its latency is from that moment
    until its reply is at the driver. per_cpu_s is per second of the workers' processor time at full load. aborted
    counts transactions that their own logic aborted, conflicts those that lost against others and ran again.

    With --moves, waited_ms is the processor time for which calls wait while the place is handed over, by move.

    With --in-process and --ablation, frames are encoded and decoded, but nothing is sent or stored, and latency_ms is
    in virtual time, in which a turn of all machines is 0.1 ms: it shows how many rounds calls wait, not how long.

    The answers are verified: replies and entities against a sequential model, in the order that the replies say; of
    ycsb-t also that money is conserved; of tpcc the consistency conditions 1 to 4 of its specification. The exit code
    is 1 when something is wrong."""
    with reported():
        asked = measure.workload_named(workload, skew, hot, warehouses)
        if moves:
            moving = moved(asked, entities, moves, seed)
            found, match = moving.as_dict(), moving.match
        elif ablation:
            compared = ablate(asked, workers, calls, seed)
            found, match = compared.as_dict(), compared.match
        else:
            report = (
                measure.in_process(asked, workers, calls, seed)
                if in_process
                else _on_spark(asked, workers, calls, seconds, seed)
            )
            found, match = report.as_dict(), report.match
    (print_json if json else print_figures)(found)
    if not match:
        raise typer.Exit(WRONG_ANSWER)


def _on_spark(workload: Workload, workers: int, calls: int, seconds: float, seed: int) -> Report:
    with (
        spark_session("stretto bench transactions", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers, elasticity="off") as cluster,
        TemporaryDirectory(prefix="stretto-transactions-") as directory,
    ):
        service = OnSpark(cluster, workload, Path(directory))
        report = open_loop.measure(Run(service, workload, seed), service, calls, seconds)
        service.stop()
        return report
