"""Workers come and go on real Spark while a gated job runs: the answers are the models', and slots are free again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.elastic_runs import MICRO
from tests.waiting import WAIT_S

from stretto import App, Job, sinks, sources, tumbling
from stretto.actors.shards import SHARDS
from stretto.bench.gates import Gate
from stretto.bench.standalone import standalone_cluster
from stretto.bench.verify import Match
from stretto.elasticity.records import Outcome
from stretto.errors import ClusterError
from stretto.runtime.cluster import Cluster
from stretto.runtime.slots import free_slots
from stretto.scheduling.spreading import ForwardAll

SLOTS = 8
ROWS = 20_000
KEYS = 50


def test_shards_move_to_an_added_worker_and_away_again(
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
        with pytest.raises(ClusterError, match="home to actors"):
            cluster.drain(cluster.observation.jobs[job.name].placement["calculator"][0])
        assert cluster.scale_in(1, timeout=WAIT_S) == [added.name]
        assert sorted(member.name for member in cluster.workers) == ["w0~1", "w1~1"]
        assert free_slots(spark) == SLOTS - 2
        gate.open()
        job.wait(WAIT_S)
        verdicts = workload.check({"results": job.results("results")})
        assert verdicts["results"].match is Match.MATCH, verdicts["results"].describe()
        assert job.checkpoints.recoveries == 0
        assert [record.outcome for record in cluster.decisions()] == [Outcome.DONE, Outcome.REFUSED, Outcome.DONE]
    assert free_slots(spark) == SLOTS


def test_with_dynamic_allocation_a_worker_comes_with_its_executor(
    tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    """A standalone cluster of processes; each executor has one slot, so that the new worker needs a new one."""
    gate = Gate(tmp_path / "gate", 0.3)
    with standalone_cluster(3, slots=1) as master:
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.dynamicAllocation.enabled", "true")
            .config("spark.dynamicAllocation.initialExecutors", "2")
            .config("spark.executor.cores", "1")
            .config("spark.executor.memory", "512m")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        try:
            with Cluster.on_spark(spark, workers=2) as cluster:
                job = cluster.submit(counting(gate), checkpoint=tmp_path / "checkpoints", every="200 ms")
                eventually(lambda: job.metrics().rows_in > 1_000, what="rows")
                before = executors(spark)
                (added,) = cluster.scale_out(1, timeout=WAIT_S)
                assert executors(spark) == before + 1
                gate.allow(0.6)
                eventually(lambda: rows_at(cluster, job, "totals", added.name), what="a lessee at the new worker")
                assert cluster.scale_in(1, timeout=WAIT_S) == [added.name]
                gate.open()
                job.wait(WAIT_S)
                got = {(row["k"], row["window_end"]): row["n"] for row in job.results("out").to_pylist()}
                assert job.checkpoints.recoveries == 0
            assert sorted(got.values()) == sorted(expected().values())
        finally:
            spark.stop()


def counting(gate: Gate) -> App:
    """Returns an app whose windows run on lessees only, wherever there is one."""
    times = pa.array([i * 1_000 for i in range(ROWS)], pa.timestamp("us", tz="UTC"))
    table = pa.table({"k": [i % KEYS for i in range(ROWS)], "t": times})
    app = App("counting", engine="actors", parallelism=1, batch_rows=100)
    rows = app.source("rows", gate.before(sources.memory(table)), time="t")
    rows.key_by("k").window(tumbling("1 s")).aggregate(n="count(*)", name="totals").sink(sinks.collect(), name="out")
    return app.spread("totals", lessees=2, strategy=ForwardAll())


def expected() -> Counter[tuple[int, int]]:
    return Counter((i % KEYS, i // 1_000) for i in range(ROWS))


def rows_at(cluster: Cluster, job: Job, function: str, member: str) -> int:
    """Returns how many rows an instance of a function on a worker has processed."""
    actors = cluster.observation.jobs[job.name].functions[function].actors
    return sum(actor.totals.rows_in for actor in actors if actor.member == member)


def executors(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # Without the driver.
