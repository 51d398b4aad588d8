"""`stretto bench checkpoint`: measures what checkpoints cost, and which share of a large state they write."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench import checkpoint_cost
from stretto.bench.checkpoint_cost import Cost, Setup
from stretto.cli.reporting import WRONG_ANSWER, fail, note, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

THROUGHPUT_RATIO_MIN = 0.9
P99_RATIO_MAX = 2.0
WRITTEN_SHARE_MAX = 0.05
DEFAULT = Setup()


def checkpoint(
    sizes: Annotated[str, typer.Option(metavar="MB,...", help="State sizes to measure, in megabytes.")] = "10,100,1000",
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of interleaved rounds; figures are medians over them.")
    ] = DEFAULT.rounds,
    seconds: Annotated[float, typer.Option(min=2, help="Measured seconds of each run.")] = DEFAULT.seconds,
    rate: Annotated[float, typer.Option(min=1000, help="Rows per second in the latency runs.")] = DEFAULT.rate,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Measure what one checkpoint per second costs: throughput and latency with checkpoints, relative to without.

    The job keeps four running aggregates (count, sum, min, max) per key, 48 bytes for each key. After all keys are
    loaded, rows update one percent of the keys in each second, scattered over the state, and other keys in the next
    second. Throughput is measured at full speed. Latency is measured at a fixed rate, from when a row was due at the
    source until its result left the last function. Runs with and without checkpoints alternate; measuring starts after
    the first checkpoint, which writes the whole state. Ratios are medians over the rounds. The share written is the
    bytes of a checkpoint with one second of changes, divided by the bytes of the first one.

    The exit code is 1 when throughput falls by more than 10 percent, p99 more than doubles, or the share written
    exceeds 5 percent. Takes about ten minutes."""
    with reported():
        chosen = _chosen(sizes)
        with (
            spark_session("stretto bench checkpoint", local_master(workers)) as spark,
            Cluster.on_spark(spark, workers=workers) as cluster,
        ):
            setup = Setup(rounds, seconds, rate)
            costs = [checkpoint_cost.measure(cluster, size, setup, note) for size in chosen]
    good = all(map(_is_good, costs))
    if json:
        limits = {
            "throughput_ratio_min": THROUGHPUT_RATIO_MIN,
            "p99_ratio_max": P99_RATIO_MAX,
            "written_share_max": WRITTEN_SHARE_MAX,
        }
        print_json(
            {
                "workers": workers,
                "rate": rate,
                "limits": limits,
                "within_limits": good,
                "sizes": [each.as_dict() for each in costs],
            }
        )
    else:
        Console().print(_table(costs))
    if not good:
        raise typer.Exit(WRONG_ANSWER)


def _chosen(sizes: str) -> list[int]:
    parts = [part.strip() for part in sizes.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        fail(f"--sizes must be a list of megabytes such as 10,100, not '{sizes}'")
    return [int(part) for part in parts]


def _is_good(cost: Cost) -> bool:
    return (
        cost.throughput_ratio >= THROUGHPUT_RATIO_MIN
        and cost.p99_ratio <= P99_RATIO_MAX
        and cost.sizes.share <= WRITTEN_SHARE_MAX
    )


def _table(costs: list[Cost]) -> Table:
    table = Table(
        *("state MB", "rows/s without", "rows/s with", "ratio", "p99 ms without", "p99 ms with", "ratio"),
        *("checkpoint s", "share written", "first checkpoint s"),
        title="a checkpoint every second",
        title_justify="left",
    )
    for cost in costs:
        rows = [cost.median(False, durable, lambda run: run["rows_per_s"]) for durable in (False, True)]
        p99 = [cost.median(True, durable, lambda run: run["latency_ms"]["p99"]) for durable in (False, True)]
        table.add_row(
            f"{cost.state_mb:,}",
            *(f"{each:,.0f}" for each in rows),
            f"{cost.throughput_ratio:.3f}",
            *(f"{each:.1f}" for each in p99),
            f"{cost.p99_ratio:.2f}",
            f"{cost.median(True, True, lambda run: run['took_s']):.2f}",
            f"{cost.sizes.share:.2%}",
            f"{cost.sizes.full_s:.2f}",
        )
    return table
