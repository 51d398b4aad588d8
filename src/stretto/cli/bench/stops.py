"""`stretto bench stops`: a Spark query that continues from a job is stopped and started at random."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stretto.bench import stops as stopping
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

WORKERS, PARKED = 2, 1


def stops(
    stops: Annotated[int, typer.Option(min=1, help="How often the query is stopped and started again.")] = 50,
    rows: Annotated[int, typer.Option(min=100, help="Number of rows of the job.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the moments.")] = 1,
    json: Json = False,
) -> None:
    """Stop and start a Spark query over a job's output, at random, while the job runs and loses a worker.

    The query writes Parquet with foreachBatch. The exit code is 1 if a row is missing or there twice."""
    with (
        reported(),
        tempfile.TemporaryDirectory(prefix="stretto-stops-", ignore_cleanup_errors=True) as directory,
        spark_session("stretto bench stops", local_master(WORKERS + PARKED)) as spark,
        Cluster.on_spark(spark, workers=WORKERS, parked=PARKED, lost_after="30 s") as cluster,
    ):
        found = stopping.run(spark, cluster, Path(directory), stops, rows, seed)
    (print_json if json else print_figures)({**asdict(found), "right": found.is_right})
    if not found.is_right:
        raise typer.Exit(WRONG_ANSWER)
