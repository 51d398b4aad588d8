"""Transient workers that are added to a running cluster on real Spark, and leave it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.test_bursts import FUNCTION, KEYS, ROWS, ROWS_PER_WINDOW, busy_ns, counted, feed
from tests.waiting import WAIT_S

from stretto.bench.gates import Gate
from stretto.elasticity.decisions import AddWorkers, DrainWorker
from stretto.elasticity.records import Outcome
from stretto.errors import ClusterError
from stretto.protocol.membership import MemberRole
from stretto.runtime.cluster import Cluster


def test_a_cold_one_takes_batches_and_leaves_in_the_middle_of_it(
    spark: SparkSession, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    gate = Gate(tmp_path / "gate", 0.1)
    with Cluster.on_spark(spark, workers=1, elasticity="off") as cluster:
        job = cluster.submit(counted(gate))
        eventually(lambda: job.metrics().rows_in > 0, what="rows")
        with pytest.raises(ClusterError, match="no transient worker has loaded the job"):
            job.redirect(FUNCTION, 0.9)
        (guest,) = cluster.scale_out(1, transient=True, timeout=WAIT_S)
        assert (guest.name, guest.role, guest.endpoint) == ("t0~1", MemberRole.TRANSIENT, "")
        assert [member.name for member in cluster.workers] == ["w0~1"]
        coordinator = cluster._coordinator._machine
        eventually(lambda: coordinator.transients.warm(coordinator.jobs[job.name]) == ["t0~1"], what="the code there")
        job.redirect(FUNCTION, 0.9)
        feed(gate, job, lambda: busy_ns(cluster, job), eventually)
        gate.allow(0.7)
        cluster.drain("t0~1", timeout=WAIT_S)
        assert not cluster.transient_workers
        gate.open()
        job.wait(WAIT_S)
        found = {(row["k"], row["window_start"]): row["n"] for row in job.results("out").to_pylist()}
        records = cluster.decisions()
    assert sum(found.values()) == ROWS
    assert len(found) == KEYS * ROWS // ROWS_PER_WINDOW
    assert [(record.decision, record.outcome) for record in records] == [
        (AddWorkers(1, transient=True), Outcome.DONE),
        (DrainWorker("t0~1"), Outcome.DONE),
    ]
