"""`stretto bench chaos`: injects faults into a running query and checks its answer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Annotated

import typer

from stretto.bench import chaos as chaotic
from stretto.bench import neighbours as neighbourly
from stretto.bench.burst import vanishing
from stretto.bench.burst.vanishing import Vanishing
from stretto.bench.chaos import Chaos, Fault
from stretto.bench.deadly import Deadly
from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.bench.neighbours import Neighbours
from stretto.bench.nexmark.run import chosen
from stretto.bench.scaling import blows
from stretto.bench.scaling.blows import Blows, BlowsReport
from stretto.bench.standalone import standalone_cluster
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import SPARE_SLOTS, local_master, spark_session

KINDS = [kind.name.lower() for kind in Deadly]


def chaos(
    query: Annotated[str, typer.Option(help="A NEXMark query: q0 to q8, q11 or q12.")] = "q5",
    kills: Annotated[int, typer.Option(min=1, help="Number of faults to inject.")] = 20,
    workers: Annotated[int, typer.Option(min=2, help="Number of workers; each runs in its own Spark task.")] = 3,
    parked: Annotated[int, typer.Option(min=0, help="Number of spare workers; a spare replaces a lost worker.")] = 1,
    rate: Annotated[float, typer.Option(min=100, help="Events sent per second.")] = 20_000,
    every: Annotated[str, typer.Option(metavar="TIME", help="Interval between checkpoints.")] = "500 ms",
    lost_after: Annotated[
        str, typer.Option(metavar="TIME", help="Time without heartbeat after which a worker is lost.")
    ] = "1500 ms",
    master: Annotated[
        str | None, typer.Option(help="Spark master URL; on local-cluster[...], one fault kills a whole executor.")
    ] = None,
    standalone: Annotated[
        bool,
        typer.Option(
            "--standalone",
            help="Start a standalone Spark with two workers on this machine; one fault then kills an executor, and one "
            "a Spark worker with all its processes.",
        ),
    ] = False,
    neighbours: Annotated[
        bool,
        typer.Option(
            "--neighbours",
            help="Instead, run deadly functions (exits, crashes, sys.exit(), endless runs and others) beside three "
            "queries, which must keep their answers; the bad jobs must fail by name.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help=f"With --neighbours, a kind of deadly function: {', '.join(KINDS)}."),
    ] = None,
    elastic: Annotated[
        bool,
        typer.Option(
            "--elastic",
            help="Let keyed functions be elastic, and move random shards to random workers every 50 to 200 ms.",
        ),
    ] = False,
    scaling: Annotated[
        bool,
        typer.Option(
            "--scaling",
            help="Instead, kill a worker in the middle of a drain, and then the driver in the middle of a scale-out, "
            "--kills times each.",
        ),
    ] = False,
    transient: Annotated[
        bool,
        typer.Option(
            "--transient",
            help="Instead, kill transient workers while batches of a query (q1, q4, q5 or q8) run there, without "
            "checkpoints.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds inject the same faults.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Kill, suspend and disconnect workers while a query runs with checkpoints, and check its answer with Spark SQL.

    A suspended worker is resumed only after it has been replaced. Prints recovery times; with --elastic, also how
    many shards have moved. The exit code is 1 when a row is wrong."""
    if scaling:
        _run_scaling(query, kills, workers, every, seed, json)
        return
    if transient:
        _run_vanishing(query, kills, seed, json)
        return
    if neighbours:
        _run_neighbours(workers, parked, lost_after, only, json)
        return
    asked = Chaos(query, kills, rate, every, seed=seed, elastic=elastic)
    _run_faults(asked, workers, parked, lost_after, master, standalone, json)


def _run_faults(
    asked: Chaos, workers: int, parked: int, lost_after: str, master: str | None, standalone: bool, json: bool
) -> None:
    with reported(), ExitStack() as stack:
        (name,) = chosen([asked.query])
        once: tuple[Fault, ...] = ()
        where = master or local_master(workers + parked)
        if standalone:
            # Each Spark worker has enough slots for all workers, in case the other one is killed.
            where = stack.enter_context(standalone_cluster(2, workers + parked + SPARE_SLOTS))
            once = (Fault.JVM, Fault.NODE)
        elif where.startswith("local-cluster"):
            once = (Fault.JVM,)
        spark = stack.enter_context(spark_session("stretto bench chaos", where))
        elasticity = SHUFFLING if asked.elastic else "auto"
        cluster = stack.enter_context(
            Cluster.on_spark(spark, workers=workers, parked=parked, lost_after=lost_after, elasticity=elasticity)
        )
        report = chaotic.run(spark, cluster, replace(asked, query=name, once=once), note)
    found = report.as_dict()
    if json:
        print_json(found)
    else:
        print_figures(found)
    if not report.match:
        raise typer.Exit(WRONG_ANSWER)


def _run_scaling(query: str, kills: int, workers: int, every: str, seed: int, json: bool) -> None:
    with reported():
        (name,) = chosen([query])
        asked = Blows(name, kills, kills, workers, every=every, seed=seed)
        # A worker that is drained and one that replaces a lost one hold their slots at the same time.
        with spark_session("stretto bench chaos", local_master(workers + 1)) as spark:
            report = BlowsReport(name)
            blows.kill_workers(spark, asked, report, note)
            blows.kill_drivers(spark, asked, report, note)
    found = report.as_dict()
    (print_json if json else print_figures)(found)
    if not found["match"]:
        raise typer.Exit(WRONG_ANSWER)


def _run_vanishing(query: str, kills: int, seed: int, json: bool) -> None:
    asked = Vanishing(query, kills, seed=seed)
    # One that replaces a lost one may hold its slot at the same time.
    slots = local_master(asked.workers + asked.transient + 1)
    with reported(), spark_session("stretto bench chaos", slots) as spark:
        report = vanishing.run(spark, asked, note)
    (print_json if json else print_figures)(report.as_dict())
    if not report.match:
        raise typer.Exit(WRONG_ANSWER)


def _run_neighbours(workers: int, parked: int, lost_after: str, only: list[str] | None, json: bool) -> None:
    with reported():
        unknown = sorted(set(only or ()) - set(KINDS))
        if unknown:
            raise UserError(f"there is no deadly function '{unknown[0]}'", None, f"Choose one of {', '.join(KINDS)}.")
        kinds = tuple(kind for kind in Deadly if not only or kind.name.lower() in only)
        with (
            spark_session("stretto bench chaos", local_master(workers + parked)) as spark,
            Cluster.on_spark(spark, workers=workers, parked=parked, lost_after=lost_after) as cluster,
        ):
            report = neighbourly.run(spark, cluster, Neighbours(kinds), note)
    if json:
        print_json(report.as_dict())
    else:
        for each in report.rounds:
            print_figures({"passed": each.passed, **asdict(each)})
    if not report.passed:
        raise typer.Exit(WRONG_ANSWER)
