"""`stretto bench tenants`: measures how bulk jobs affect latency-sensitive jobs on the same workers."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import tenant_shares
from stretto.bench import tenants as tenancy
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

SHARES_WORKERS = 2


def tenants(
    loads: Annotated[
        str,
        typer.Option(help="Bulk input rates to try, relative to bulk capacity; 1 or more means unlimited input."),
    ] = "0.25,0.5,0.75,2",
    seconds: Annotated[float, typer.Option(min=4, help="Length of each run in seconds.")] = 20.0,
    repeats: Annotated[int, typer.Option(min=1, help="Runs per load and policy, alternating.")] = 2,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers per cluster; by default the number of cores minus one.", show_default=False),
    ] = None,
    bulk_jobs: Annotated[int, typer.Option(min=1, help="Number of bulk jobs.")] = 8,
    bulk_ms: Annotated[float, typer.Option(min=0.1, help="Computation per bulk batch in milliseconds.")] = 2.0,
    shares: Annotated[
        bool, typer.Option("--shares", help="Measure fair shares instead: three jobs with weights 20, 40 and 40.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure the latency of two sensitive jobs that share workers with growing bulk load: FIFO against LLF.

    LLF is least laxity first. The objective of the sensitive jobs is measured first: twice their p95 latency when
    copies of them alone keep the workers about half busy. Latency is from when a window's last event was due until its
    result is at the driver. Sums are compared with Spark SQL's; the exit code is 1 when an answer is wrong. Each worker
    and the driver needs a core; with fewer cores, the operating system's scheduling distorts the latencies.

    With --shares, three jobs that could each use all workers get 20, 40 and 40 percent of their time under the policy
    `fair`; one job pauses and then resumes."""
    if shares:
        _fair(workers or SHARES_WORKERS, seconds, bulk_ms, json)
        return
    workers = workers or max(1, (os.cpu_count() or 1) - 1)
    setup = tenancy.Setup(
        workers=workers,
        seconds=seconds,
        repeats=repeats,
        bulk_jobs=bulk_jobs,
        bulk_ms=bulk_ms,
        loads=_loads(loads),
    )
    with (
        reported(),
        spark_session("stretto bench tenants", local_master(2 * workers)) as spark,
        Cluster.on_spark(spark, workers=workers, policy="fifo") as fifo,
        Cluster.on_spark(spark, workers=workers, policy="llf") as llf,
    ):
        report = tenancy.measure({"fifo": fifo, "llf": llf}, setup, note)
    found = report.as_dict()
    if json:
        print_json(found)
    else:
        Console().print(_table(found))
    if not all(one.fifo.right and one.llf.right for one in report.comparisons):
        raise typer.Exit(WRONG_ANSWER)


def _fair(workers: int, seconds: float, cost_ms: float, json: bool) -> None:
    with (
        reported(),
        spark_session("stretto bench tenants", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers, policy="fair") as cluster,
    ):
        phases = tenant_shares.measure(cluster, workers, seconds, cost_ms, note)
    if json:
        print_json({"shares": tenant_shares.SHARES, "phases": [phase.as_dict() for phase in phases]})
        return
    table = Table("phase", "worker", *(f"{name} %" for name in tenant_shares.SHARES), "max deviation, points")
    for phase in phases:
        expected = (f"{phase.expected.get(name, 0.0):.1f}" for name in tenant_shares.SHARES)
        table.add_row(phase.name, "expected", *expected, f"{phase.points_off:.2f}")
        for process, found in phase.found.items():
            table.add_row("", process, *(f"{percent:.1f}" for percent in found.values()), "")
        table.add_section()
    Console().print(table)


def _loads(text: str) -> tuple[float, ...]:
    with reported():
        try:
            loads = tuple(float(part) for part in text.split(","))
        except ValueError as error:
            raise UserError(
                f"--loads must be a list of numbers, not '{text}'", str(error), "Write them as 0.5,0.75,2."
            ) from error
        if min(loads) <= 0:
            raise UserError(f"every load must be greater than zero, but one of '{text}' is not", None)
    return loads


def _table(found: dict[str, Any]) -> Table:
    objective = found["objective"]
    table = Table(
        *("load", "policy", "p50 ms", "p95 ms", "p99 ms", "within objective", "bulk rows/s", "bulk time", "answers"),
        title=f"objective {objective['latency_ms']:.1f} ms: twice the p95 of {objective['copies']} copies alone, "
        f"which keep the workers {objective['utilisation']:.0%} busy; bulk capacity "
        f"{found['capacity_rows_per_s']:,} rows/s",
        title_justify="left",
    )
    for load in found["loads"]:
        for policy in tenancy.POLICIES:
            run = load[policy]
            table.add_row(
                f"{run['load']:g}",
                policy,
                *(f"{run['latency_ms'][name]:,.1f}" for name in ("p50", "p95", "p99")),
                f"{run['slo_satisfied']:.1%}",
                f"{run['bulk_rows_per_s']:,}",
                f"{run['bulk_time_share']:.1%}",
                "right" if run["answers_right"] else "wrong",
            )
        ratios = load["fifo_by_llf"]
        percentiles = (f"{ratios[name]:.1f} x" for name in ("p50", "p95", "p99"))
        table.add_row("", "fifo / llf", *percentiles, "", f"llf {ratios['bulk']:.1%} of fifo", "", end_section=True)
    return table
