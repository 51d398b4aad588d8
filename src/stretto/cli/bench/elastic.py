"""`stretto bench elastic` and `stretto bench shard-moves`: what elastic functions gain, and what a move costs."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.bench.elastic import hot_partition as hot
from stretto.bench.elastic import shard_moves as moving
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session


def shard_moves(
    moves: Annotated[
        int,
        typer.Option(min=10, help="Moves to measure for each size and each number of upstream partitions."),
    ] = 100,
    workers: Annotated[int, typer.Option(min=2, help="Number of workers; each runs in its own Spark task.")] = 2,
    json: Json = False,
) -> None:
    """Measure how long rows wait while a shard of an elastic function moves to another worker with its state.

    One shard at a time, at a rate that leaves the workers mostly idle. wait_ms has the time in which the shard's own
    rows wait, by the bytes of its state; by_upstreams the median for 32 KB by the number of source partitions.
    others_wait_ms is by how much later rows of other shards arrive at the driver than in stretches without moves. The
    exit code is 1 when a row is lost, repeated or out of order."""
    with (
        reported(),
        spark_session("stretto bench shard-moves", local_master(workers)) as spark,
        Cluster.on_spark(spark, workers=workers, elasticity="off") as cluster,
    ):
        report = moving.measure(cluster, moves, note)
    (print_json if json else print_figures)(report.as_dict())
    if not report.match:
        raise typer.Exit(WRONG_ANSWER)


def elastic(
    workers: Annotated[int, typer.Option(min=2, help="Number of workers; each runs in its own Spark task.")] = 8,
    seconds: Annotated[float, typer.Option(min=2, help="Length of the stream whose hot keys shift.")] = 20.0,
    row_us: Annotated[float, typer.Option(min=1, help="What a row costs, in microseconds.")] = 250.0,
    batch: Annotated[int, typer.Option(min=1, help="Maximum number of rows that the source reads at once.")] = 128,
    load: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Rate of the shift, as a share of what all workers can take.")
    ] = 0.6,
    shift: Annotated[float, typer.Option(min=0.5, help="Seconds after which other keys are hot.")] = 5.0,
    compute: Annotated[
        bool, typer.Option("--compute", help="Rows take processor time, instead of waiting as for a service.")
    ] = False,
    exchange: Annotated[
        bool, typer.Option("--exchange", help="For the shift, run the stock exchange instead of the micro-benchmark.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure one hot partition: how it scales with its shards on more workers, and what happens when hot keys shift.

    scaling has the rows per second with the shards spread evenly over 1, 2, 4, 8 workers. throughput and p99_ms are
    those of the shift in the second half of the stream: static, where the partition stays on one worker,
    resource_centric, where the function gets other partitions while it runs, and elastic, where controllers move its
    shards; repartitioned and shards_moved say how often. match is whether every row of every run was right, and each
    key's rows in order; the exit code is 1 if not.

    Functions that wait run side by side on few cores; with --compute, no more workers help than there are cores."""
    asked = hot.HotPartition(
        workers=workers,
        row_us=row_us,
        batch=batch,
        compute=compute,
        seconds=seconds,
        load=load,
        shift_s=shift,
        exchange=exchange,
    )
    with reported(), spark_session("stretto bench elastic", local_master(workers)) as spark:
        report = hot.measure(spark, asked, note)
    (print_json if json else print_figures)(report.as_dict())
    if report.wrong:
        raise typer.Exit(WRONG_ANSWER)
