"""Shards that move all the time change no answer: windows, joins and running aggregates on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import Bench, SparkAnswers
from stretto.runtime.cluster import Cluster

CONFIG = NexmarkConfig(seed=7, events=20_000)


@pytest.fixture(scope="module")
def bench(spark: SparkSession) -> Iterator[Bench]:
    workload = Workload(CONFIG, rate=10_000, parallelism=2, elastic=True)
    with (
        Cluster.on_spark(spark, workers=3, elasticity=SHUFFLING) as cluster,
        SparkAnswers(spark, CONFIG) as answers,
    ):
        yield Bench(cluster, workload, answers)


@pytest.mark.parametrize("query", ["q4", "q8", "q18"])
def test_the_answer_is_spark_sqls(bench: Bench, query: str) -> None:
    outcome = bench.run(query, lambda running: None, WAIT_S)
    assert outcome.match is True, outcome.complaints()
    assert outcome.shards_moved
    assert outcome.as_json()["shards_moved"] == outcome.shards_moved
