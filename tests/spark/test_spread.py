"""Dual-mode actors on a real cluster: lessees do all the work and results still equal Spark SQL's; lessees help a hot
actor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.bench import barrier_cost
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload
from stretto.bench.nexmark.run import Bench, SparkAnswers, Status
from stretto.bench.spread import run
from stretto.runtime.cluster import Cluster

LESSEES = 4
CONFIG = NexmarkConfig(seed=7, events=20_000, event_rate=1000, disorder_s=1.0)


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=LESSEES + 1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> Iterator[SparkAnswers]:
    with SparkAnswers(spark, CONFIG) as answers:
        yield answers


# The queries that are left out have only functions that remaining ones have too.
@pytest.mark.parametrize("query", [q for q in QUERIES if q not in ("q10", "q14", "q16", "q17", "q21", "q22")])
def test_answers_do_not_change_when_all_messages_run_on_lessees(
    cluster: Cluster, answers: SparkAnswers, query: str
) -> None:
    workload = Workload(CONFIG, parallelism=2, batch=200, lessees=LESSEES)
    outcome = Bench(cluster, workload, answers).run(query, lambda running: None, WAIT_S)
    assert outcome.status is Status.FINISHED, outcome.error
    assert outcome.match is True, "\n".join(outcome.complaints())


def test_a_hot_actor_falls_behind_alone_and_gets_lessees(cluster: Cluster) -> None:
    """How far lessees help it depends on the machine's free cores; `stretto bench spread` measures it."""
    alone = run(cluster, rate=200, cost_s=0.01, lessees=0, seconds=2)
    spread = run(cluster, rate=200, cost_s=0.01, lessees=LESSEES, seconds=4)
    assert alone.match
    assert spread.match
    assert (alone.instances, alone.forwarded, alone.first_lessee_ms) == (1, 0, None)
    assert spread.instances > 1
    assert spread.forwarded > 0
    # One instance needs two seconds for a second of the stream, so that each adds a second of delay.
    assert alone.growth_ms_per_s > 300
    assert spread.first_lessee_ms is not None


def test_barriers_over_lessees_are_timed(cluster: Cluster) -> None:
    found = barrier_cost.on_spark(cluster, LESSEES, 8 * barrier_cost.KB)
    assert found["p50"] is not None
    assert found["p50"] > 0
