"""`stretto bench queries`: questions about published results, beside a running stream and beside Spark SQL."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from stretto.bench.questions.freshness import measure_freshness
from stretto.bench.questions.killing import measure_kills
from stretto.bench.questions.measuring import Setup, measure
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session


def queries(
    questions: Annotated[int, typer.Option(min=1, help="Random questions that are compared with Spark SQL.")] = 100,
    workers: Annotated[int, typer.Option(min=1, help="Workers of the cluster.")] = 4,
    hours: Annotated[int, typer.Option(min=1, help="Hours of results, each a segment.")] = 168,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each hour.")] = 2_000,
    seconds: Annotated[float, typer.Option(min=1, help="How long clients ask as fast as they can.")] = 10.0,
    clients: Annotated[int, typer.Option(min=1, help="How many clients do.")] = 2,
    objective: Annotated[float, typer.Option(min=1, help="Latency objective of the stream beside, in ms.")] = 100.0,
    tries: Annotated[int, typer.Option(min=0, help="How often an answer is to have at least a given time.")] = 0,
    kills: Annotated[int, typer.Option(min=0, help="How many workers are killed while clients ask.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds give equal rows and questions.")] = 0,
    json: Json = False,
) -> None:
    """Publish results by the hour, and ask random questions about them: each answer is compared with Spark SQL over the
    same Parquet, cached in Spark's memory, and both are timed. Then clients saturate the workers with questions, while
    a stream with an objective runs there.

    With --tries, questions about a table that grows measure how old a row is in the first answer that has it, and ask
    with `at_least` for times that have not come yet. With --kills, workers are killed one after the other.

    The exit code is 1 when an answer differs or a question fails."""
    setup = Setup(workers, hours, rows, questions, seconds, clients, objective, seed)
    with (
        reported(),
        tempfile.TemporaryDirectory(prefix="stretto-queries-") as directory,
        spark_session("stretto bench queries", local_master(workers + 2)) as spark,
        Cluster.on_spark(spark, workers=workers) as cluster,
    ):
        report = measure(spark, cluster, setup, Path(directory) / "checkpoints", note)
        found, match = report.as_dict(), report.match
        if tries:
            freshness = measure_freshness(cluster, tries, seed, Path(directory) / "fresh", note)
            found["freshness"] = freshness.as_dict()
            match = match and not freshness.less
        if kills:
            killing = measure_kills(cluster, workers, kills, clients, seed, Path(directory) / "killed", note)
            found["kills"] = killing.as_dict()
            match = match and killing.match
        found["match"] = match
    (print_json if json else print_figures)(found)
    if not match:
        raise typer.Exit(WRONG_ANSWER)
