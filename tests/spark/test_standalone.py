"""Standalone Spark clusters, which the tests start themselves: a whole Spark worker dies, an executor comes with a new
worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Job, sinks, sources, tumbling
from stretto.bench import chaos
from stretto.bench.chaos import Chaos, Fault
from stretto.bench.gates import Gate
from stretto.bench.standalone import standalone_cluster
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import spark_session
from stretto.scheduling.spreading import ForwardAll

ROWS = 20_000
KEYS = 50


def test_a_query_survives_the_death_of_a_spark_worker() -> None:
    told: list[str] = []
    # Either Spark worker has enough slots for all three workers and for Spark's own query.
    with (
        standalone_cluster(2, slots=5) as master,
        spark_session("stretto-tests", master) as spark,
        Cluster.on_spark(spark, workers=2, parked=1, lost_after="5 s", start_timeout=WAIT_S) as cluster,
    ):
        asked = Chaos("q5", kills=3, faults=(Fault.KILL, Fault.STOP), once=(Fault.NODE,))
        report = chaos.run(spark, cluster, asked, told.append)
    assert report.match, report.complaint
    assert report.blows[Fault.NODE.value] == 1, told
    assert report.kills == 3, told


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
                eventually(lambda: added.name in cluster.observation.jobs[job.name].members, what="the code there")
                _feed(gate, job, lambda: _runs_at(cluster, job, "totals", added.name), eventually)
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


def _feed(gate: Gate, job: Job, there: Callable[[], int], eventually: Callable[..., Any]) -> None:
    """Lets rows through, a few at a time, until some have come where they should: who sends them hears of a new worker
    a little later than the coordinator knows of it."""
    for percent in range(31, 95):
        gate.allow(percent / 100)
        eventually(lambda limit=percent * ROWS // 100: job.metrics().rows_in >= limit, what="these rows")
        if there():
            return
    raise AssertionError("no row has come to the new worker")


def _runs_at(cluster: Cluster, job: Job, function: str, member: str) -> int:
    """Returns how many rows an instance of a function on a worker has processed."""
    actors = cluster.observation.jobs[job.name].functions[function].actors
    return sum(actor.totals.rows_in for actor in actors if actor.member == member)


def executors(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # Without the driver.
