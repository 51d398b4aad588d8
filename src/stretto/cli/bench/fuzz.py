"""`stretto bench fuzz`: random expressions and aggregates, each answer compared with Spark's."""

from __future__ import annotations

import re
import time
from types import TracebackType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stretto.bench.fuzz import fuzzing
from stretto.bench.fuzz.findings import Finding, Report
from stretto.bench.fuzz.fuzzing import Setup
from stretto.cli.progress import Display
from stretto.cli.reporting import INTERRUPTED, WRONG_ANSWER, errors, note, print_json, reported
from stretto.runtime.session import local_master, spark_session

DEFAULT = Setup()
LINE_EVERY_S = 10.0
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn600m -XX:ReservedCodeCacheSize=240m "
    "-Xlog:disable -Xlog:all=warning:stderr"
)
"""Without the first, half of the time would be Java's optimizing compiler, whose code is hardly used again. The next
two keep the collection of garbage rare and on one core. A long run fills the usual 48 MB of compiled code, which ends
the compiler, and Java says so on stdout unless it is told to use stderr."""


def fuzz(
    expressions: Annotated[
        int, typer.Option(min=1, help="Number of random expressions; one aggregate is added for every twenty.")
    ] = DEFAULT.expressions,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal expressions and rows.")] = DEFAULT.seed,
    timezone: Annotated[str, typer.Option(help="Time zone of the Spark session.")] = DEFAULT.timezone,
    only: Annotated[
        str, typer.Option(help="Functions, operators, casts and aggregates to try, by comma: upper,lower,cast as int.")
    ] = "",
    part: Annotated[
        str, typer.Option(help="Only a part of the run, 2/4 for the second of four: processes can share a long run.")
    ] = "1/1",
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare random expressions and aggregates with Spark: every value, every type and every failure.

    The rows have nulls, NaN, infinities, the limits of all types, far dates and odd characters. Expressions are up to
    four deep, over all functions, operators and casts; which arguments a function takes is found by trial. A
    disagreement is made small and printed with a query that shows it in Spark. Differences that are meant are counted
    by name.

    `--only upper,lower` makes expressions of these and of columns and constants: quick, while one writes a function.
    Names are those of Spark's functions and aggregates, operators (`+`, `IN`, `CASE`) and casts (`cast as int`).

    Each disagreement is printed on stderr when it is found, and the report at the end. Ctrl-C ends the run early, and
    prints what was found so far.

    The exit code is 1 when there is a disagreement."""
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    setup = Setup(expressions, seed, timezone, names, *_part(part))
    with (
        reported(),
        spark_session("stretto bench fuzz", local_master(0), JAVA_OPTIONS) as spark,
        _Progress() as progress,
    ):
        report = fuzzing.run(spark, setup, progress.at, progress.found)
        # Before Spark is stopped, which may take long after Ctrl-C.
        if json:
            print_json(report.as_dict())
        else:
            _print(report)
    if report.interrupted:
        raise typer.Exit(INTERRUPTED)
    if report.findings:
        raise typer.Exit(WRONG_ANSWER)


def _part(text: str) -> tuple[int, int]:
    """Returns the number of a part and that of all parts."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise typer.BadParameter(f"{text!r} is no part of a run. Write 2/4 for the second of four", param_hint="--part")
    return int(match[1]), int(match[2])


class _Progress:
    """Shows on stderr how far a run is, and what it finds: a line that is redrawn in a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._what, self._share, self._ways = "starting", 0.0, 0
        self._display = Display(errors, lambda: Text(self._line()), self._line, LINE_EVERY_S)

    def __enter__(self) -> _Progress:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def at(self, what: str, share: float) -> None:
        self._what, self._share = what, share
        self._display.tick()

    def found(self, finding: Finding) -> None:
        self._ways += 1
        for line in _lines(finding):
            self._display.say(line)

    def _line(self) -> str:
        elapsed_s = time.monotonic() - self._began_s
        return f"{self._what}: {self._share:.0%}, {elapsed_s:,.0f} s, {self._ways:,} ways to disagree so far"


def _lines(found: Finding) -> list[str]:
    named = (("here", found.ours), ("Spark", found.sparks), ("see", found.select))
    return [f"{found.kind}, {found.count}x: {found.expression}", *(f"    {name:<6}{text}" for name, text in named)]


def _print(report: Report) -> None:
    console = Console()
    for found in sorted(report.findings, key=lambda found: -found.count):
        for line in _lines(found):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for text in report.unsettled:
        note(f"differed when the run was interrupted, not settled: {text}")
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
