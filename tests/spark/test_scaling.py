"""Workers come and go on real Spark while a gated job runs: the answers are the models', and slots are free again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.elastic_runs import MICRO
from tests.waiting import WAIT_S

from stretto import Job
from stretto.actors.shards import SHARDS
from stretto.bench.gates import Gate
from stretto.bench.verify import Match
from stretto.elasticity.records import Outcome
from stretto.errors import ClusterError
from stretto.runtime.cluster import Cluster
from stretto.runtime.slots import free_slots

SLOTS = 8


def test_shards_move_to_an_added_worker_and_all_leaves_a_drained_one(
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    gate = Gate(tmp_path / "gate", 0.3)
    workload = replace(MICRO, calculators=1, gate=gate)
    with Cluster.on_spark(spark, workers=2, elasticity="off") as cluster:
        with pytest.raises(ClusterError, match=f"7 more workers were asked for, and 6 of Spark's {SLOTS} slots"):
            cluster.scale_out(SLOTS - 1)
        job = cluster.submit(workload.app().elastic("calculator"), checkpoint=tmp_path / "checkpoints", every=None)
        eventually(lambda: job.metrics().rows_in > 1_000, what="rows")
        (added,) = cluster.scale_out(1, timeout=WAIT_S)
        assert sorted(member.name for member in cluster.workers) == ["w0~1", "w1~1", "w2~1"]
        assert free_slots(spark) == SLOTS - 3
        eventually(lambda: added.name in cluster.observation.jobs[job.name].members, what="the code there")
        moved = job.move_shards("calculator", dict.fromkeys(range(SHARDS), added.name), timeout=WAIT_S)
        assert moved.spent is not None
        assert moved.spent["shards"] == SHARDS
        gate.allow(0.6)
        eventually(lambda: rows_at(cluster, job, "calculator", added.name), what="rows at the new worker")
        assert cluster.scale_in(1, timeout=WAIT_S) == [added.name]
        assert sorted(member.name for member in cluster.workers) == ["w0~1", "w1~1"]
        assert free_slots(spark) == SLOTS - 2
        home = cluster.observation.jobs[job.name].placement["calculator"][0]
        gate.allow(0.8)
        cluster.drain(home, timeout=WAIT_S)
        assert home not in {member.name for member in cluster.workers}
        with pytest.raises(ClusterError, match="it is the only worker"):
            cluster.drain(cluster.workers[0].name)
        assert free_slots(spark) == SLOTS - 1
        gate.open()
        job.wait(WAIT_S)
        verdicts = workload.check({"results": job.results("results")})
        assert verdicts["results"].match is Match.MATCH, verdicts["results"].describe()
        assert job.checkpoints.recoveries == 0
        outcomes = [record.outcome for record in cluster.decisions()]
        assert outcomes == [Outcome.DONE, Outcome.DONE, Outcome.DONE, Outcome.REFUSED]
    assert free_slots(spark) == SLOTS


def rows_at(cluster: Cluster, job: Job, function: str, member: str) -> int:
    """Returns how many rows an instance of a function on a worker has processed."""
    actors = cluster.observation.jobs[job.name].functions[function].actors
    return sum(actor.totals.rows_in for actor in actors if actor.member == member)
