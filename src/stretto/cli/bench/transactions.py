"""`stretto bench transactions`: how many transactions of entities a second, verified, and what the protocol's parts
bring."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.bench.transactions import measure
from stretto.bench.transactions.ablation import ablate
from stretto.bench.transactions.measure import Named
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, print_figures, print_json, reported


def transactions(
    workload: Annotated[Named, typer.Option(help="The workload.")] = Named.YCSB_T,
    skew: Annotated[float, typer.Option(min=0, max=2, help="ycsb-t: Zipf's coefficient of the creditors.")] = 0.0,
    hot: Annotated[bool, typer.Option("--hot", help="ycsb-t: all transfers go to one account.")] = False,
    warehouses: Annotated[int, typer.Option(min=1, help="tpcc: number of warehouses.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    calls: Annotated[int, typer.Option(min=100, help="Number of transactions to measure.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the calls.")] = 1,
    ablation: Annotated[
        bool,
        typer.Option(
            "--ablation",
            help="Leave out the fallback, early replies, batching, local calls and reordering in turn, and compare.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Measure transactions of entities: the machines of the workers in one process, without Spark.

    per_cpu_s is per second of the workers' processor time, with all frames encoded and decoded. latency_ms is in
    virtual time, in which a turn of all machines is 0.1 ms: it shows how many rounds calls wait, not how long. aborted
    counts transactions that their own logic aborted, conflicts those that lost against others and ran again.

    The answers are verified: replies and entities against a sequential model, in the order that the replies say; of
    ycsb-t also that money is conserved; of tpcc the consistency conditions 1 to 4 of its specification. The exit code
    is 1 when something is wrong."""
    with reported():
        asked = measure.workload_named(workload, skew, hot, warehouses)
        report = ablate(asked, workers, calls, seed) if ablation else measure.in_process(asked, workers, calls, seed)
    (print_json if json else print_figures)(report.as_dict())
    if not report.match:
        raise typer.Exit(WRONG_ANSWER)
