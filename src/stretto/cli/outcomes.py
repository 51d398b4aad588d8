"""Prints the outcomes of NEXMark queries: a line per query as it ends, problems on stderr, a table at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from stretto.bench.nexmark.events import stream_length
from stretto.bench.nexmark.run import Outcome, Status
from stretto.cli.progress import ms
from stretto.cli.reporting import complain, print_json


def print_outcome(outcome: Outcome, console: Console, json: bool) -> None:
    """Print one query's outcome on stdout, and its problems on stderr."""
    if json:
        print_json(outcome.as_json())
    else:
        console.print(outcome_line(outcome), highlight=False)
    for complaint in outcome.complaints():
        complain(complaint)


def outcome_line(outcome: Outcome) -> str:
    if outcome.status is not Status.FINISHED:
        return f"{outcome.query:<4} {outcome.status.value}"
    return f"{outcome.query:<4} {outcome.rows:>9,} rows   {match_text(outcome.match)}"


def match_text(match: bool | None) -> str:
    if match is None:
        return "not compared"
    return "[green]equal[/]" if match else "[bold red]DIFFERENT[/]"


def summary(outcomes: Sequence[Outcome]) -> Table:
    """Returns the table with one row per query."""
    table = Table(header_style="bold", title=_conditions(outcomes[0]), title_justify="left", title_style="")
    table.add_column("query")
    table.add_column("rows", justify="right")
    table.add_column("Spark SQL")
    for heading in ("events/s", "p50 ms", "p95 ms", "p99 ms", "max ms"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        finished = outcome.status is Status.FINISHED
        table.add_row(
            outcome.query,
            f"{outcome.rows:,}" if outcome.rows is not None else "-",
            match_text(outcome.match) if finished else f"[yellow]{outcome.status.value}[/]",
            f"{outcome.events_per_s:,.0f}" if outcome.events_per_s is not None else "-",
            *(ms(outcome.latency_ms.get(name)) for name in ("p50", "p95", "p99", "max")),
        )
    return table


def _conditions(outcome: Outcome) -> str:
    config = outcome.workload.config
    text = f"{stream_length(config):,} events, seed {config.seed}, {outcome.workers} workers"
    if config.disorder_s:
        text += f", out of order by up to {config.disorder_s:g} s"
    if outcome.workload.rate:
        text += f", at {outcome.workload.rate:,.0f} events/s"
    return text
