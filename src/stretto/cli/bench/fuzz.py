"""`stretto bench fuzz`: random expressions and aggregates, each answer compared with Spark's."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto.bench.fuzz import fuzzing
from stretto.bench.fuzz.findings import Report
from stretto.bench.fuzz.fuzzing import Setup
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.runtime.session import local_master, spark_session

DEFAULT = Setup()
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn600m"
"""Without the first, half of the time would be Java's optimizing compiler, whose code is hardly used again. The others
keep the collection of garbage rare and on one core."""


def fuzz(
    expressions: Annotated[
        int, typer.Option(min=1, help="Number of random expressions; one aggregate is added for every twenty.")
    ] = DEFAULT.expressions,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal expressions and rows.")] = DEFAULT.seed,
    timezone: Annotated[str, typer.Option(help="Time zone of the Spark session.")] = DEFAULT.timezone,
    only: Annotated[
        str, typer.Option(help="Functions, operators, casts and aggregates to try, by comma: upper,lower,cast as int.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare random expressions and aggregates with Spark: every value, every type and every failure.

    The rows have nulls, NaN, infinities, the limits of all types, far dates and odd characters. Expressions are up to
    four deep, over all functions, operators and casts; which arguments a function takes is found by trial. A
    disagreement is made small and printed with a query that shows it in Spark. Differences that are meant are counted
    by name.

    `--only upper,lower` makes expressions of these and of columns and constants: quick, while one writes a function.
    Names are those of Spark's functions and aggregates, operators (`+`, `IN`, `CASE`) and casts (`cast as int`).

    The exit code is 1 when there is a disagreement."""
    with (
        reported(),
        spark_session("stretto bench fuzz", local_master(0), JAVA_OPTIONS) as spark,
        Progress(console=Console(stderr=True)) as bar,
    ):
        task = bar.add_task("starting", total=1.0)
        names = tuple(name.strip() for name in only.split(",") if name.strip())
        setup = Setup(expressions, seed, timezone, names)
        report = fuzzing.run(spark, setup, lambda what, share: bar.update(task, completed=share, description=what))
    if json:
        print_json(report.as_dict())
    else:
        _print(report)
    if report.findings:
        raise typer.Exit(WRONG_ANSWER)


def _print(report: Report) -> None:
    console = Console()
    for found in sorted(report.findings, key=lambda found: -found.count):
        console.print(
            f"{found.kind}, {found.count}x: {found.expression}", markup=False, highlight=False, soft_wrap=True
        )
        for name, text in (("here", found.ours), ("Spark", found.sparks), ("see", found.select)):
            console.print(f"    {name:<6}{text}", markup=False, highlight=False, soft_wrap=True)
    table = Table("documented difference", "rows")
    for name, count in report.documented.items():
        table.add_row(name, f"{count:,}")
    console.print(table)
    table = Table("refused here, accepted by Spark", "of those asked", "example")
    for reason, entry in sorted(report.refused_but_spark_accepts.items(), key=lambda each: -each[1]["count"]):
        table.add_row(reason, str(entry["count"]), entry["example"])
    console.print(table)
    note(f"never exercised: {', '.join(report.never_exercised) or 'none'}")
    total = report.expressions + report.aggregates
    per_second = total / report.seconds if report.seconds else 0.0
    console.print(
        f"{total:,} evaluations ({report.answers_compared:,} values), {report.agreed:,} agree, "
        f"{report.disagreements:,} disagree in {len(report.findings):,} ways; "
        f"{per_second:,.0f} per second",
        highlight=False,
    )
