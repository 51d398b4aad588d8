"""`stretto bench chaos`: a query that is hit again and again, and whether its answer survives."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from stretto.bench import chaos as chaotic
from stretto.bench.chaos import Blow, Chaos
from stretto.bench.nexmark.run import chosen
from stretto.bench.standalone import standalone_cluster
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import SPARE_SLOTS, local_master, spark_session


def chaos(
    query: Annotated[str, typer.Option(help="A NEXMark query: q0 to q8, q11 or q12.")] = "q5",
    kills: Annotated[int, typer.Option(min=1, help="How often a worker is hit.")] = 20,
    workers: Annotated[int, typer.Option(min=2, help="Workers to start, each in a Spark task of its own.")] = 3,
    parked: Annotated[int, typer.Option(min=0, help="Workers that wait to take the place of a lost one.")] = 1,
    rate: Annotated[float, typer.Option(min=100, help="Events per second.")] = 20_000,
    every: Annotated[str, typer.Option(metavar="TIME", help="How often to take a checkpoint.")] = "500 ms",
    lost_after: Annotated[str, typer.Option(metavar="TIME", help="A silent worker is lost after so long.")] = "1500 ms",
    master: Annotated[
        str | None, typer.Option(help="Spark's master URL; on a local-cluster[...], an executor is killed whole once.")
    ] = None,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Start a Spark master and two Spark workers as processes here; once an executor is killed, and once a "
            "Spark worker with all that it has started.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Equal seeds hit the same workers in the same way.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """Kill, stop and cut off workers while a query runs with checkpoints, and compare its answer with Spark SQL's.

    A worker that was stopped wakes up when it is replaced already. The exit code is 1 when a row is wrong."""
    with reported():
        (name,) = chosen([query])
        with ExitStack() as stack:
            once: tuple[Blow, ...] = ()
            where = master or local_master(workers + parked)
            if standalone:
                # Either Spark worker has room for everything, for when the other one is gone.
                where = stack.enter_context(standalone_cluster(2, workers + parked + SPARE_SLOTS))
                once = (Blow.JVM, Blow.NODE)
            elif where.startswith("local-cluster"):
                once = (Blow.JVM,)
            asked = Chaos(name, kills, rate, every, once=once, seed=seed)
            spark = stack.enter_context(spark_session("stretto bench chaos", where))
            cluster = stack.enter_context(
                Cluster.on_spark(spark, workers=workers, parked=parked, lost_after=lost_after)
            )
            report = chaotic.run(spark, cluster, asked, note)
    found = report.as_dict()
    if json:
        print_json(found)
    else:
        print_figures(found)
    if not report.match:
        raise typer.Exit(WRONG_ANSWER)
