"""The workloads of elastic executors on a real cluster: the answers are the models', also after a worker was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.elastic_runs import EXCHANGE, MICRO
from tests.waiting import WAIT_S

from stretto import Job
from stretto.bench.elastic.costs import Cost, Spending
from stretto.bench.elastic.exchange import Exchange
from stretto.bench.elastic.micro import Microbenchmark
from stretto.bench.gates import Gate
from stretto.bench.verify import Match
from stretto.runtime.cluster import Cluster

WORKERS = 3
Workload = Microbenchmark | Exchange


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=WORKERS) as cluster:
        yield cluster


def assert_right(job: Job, workload: Workload) -> None:
    verdicts = workload.check({sink.name: job.results(sink.name) for sink in job.plan.sinks})
    wrong = {name: verdict.describe() for name, verdict in verdicts.items() if verdict.match is not Match.MATCH}
    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert all(verdict.rows_expected for verdict in verdicts.values())


WORKLOADS: dict[str, Workload] = {
    "one hot calculator that waits": replace(MICRO, calculators=1, batch=500, cost=Cost(batch_us=1_000)),
    "calculators that compute": replace(MICRO, cost=Cost(row_us=5, deviation=0.7, spending=Spending.COMPUTE)),
    "exchange": replace(EXCHANGE, batch=500),
    "exchange at its pace": replace(EXCHANGE, paced=True),
}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_answer_is_the_models(cluster: Cluster, workload: Workload) -> None:
    assert_right(cluster.submit(workload.app()).wait(WAIT_S), workload)


@pytest.mark.parametrize("workload", [MICRO, EXCHANGE], ids=["micro", "exchange"])
def test_a_killed_worker_changes_nothing(
    cluster: Cluster, workload: Workload, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    app = replace(workload, gate=gate).app()
    job = cluster.submit(app, checkpoint=tmp_path / "checkpoints", every="100 ms")
    eventually(lambda: job.metrics().rows_in > 2_000 and job.checkpoints.complete, what="a complete checkpoint")
    victim = min(cluster.busy_workers & {member.name for member in cluster.workers})
    os.kill(next(member.pid for member in cluster.workers if member.name == victim), signal.SIGKILL)
    eventually(lambda: job.checkpoints.recoveries >= 1, what="a recovery")
    gate.open()
    assert_right(job.wait(WAIT_S), workload)
