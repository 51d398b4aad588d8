"""Windows after joins: no row of a join is late for them, whatever the schedule, the kind of join and the partitions.

The reference is a nested loop.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from stretto.api.app import App
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink, MemorySource
from stretto.coordinator.records import JobStatus
from stretto.expressions import parse_schema
from stretto.operators.windows import tumbling
from stretto.simulator.engine.cluster import SimulatedCluster

SCHEMA = parse_schema("t timestamp, k int, id int")
ROWS = 300
SECOND = 1_000_000


def rows(seed: int) -> list[tuple[int, int, int]]:
    chance = random.Random(seed)
    return [(i * 200_000 + chance.randrange(900_000), chance.randrange(12), i) for i in range(ROWS)]


def table(found: list[tuple[int, int, int]]) -> pa.Table:
    columns = [pa.array(list(values), pa.int64()) for values in zip(*found, strict=True)]
    return pa.table([column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti", "right"])
def test_no_row_of_a_join_is_late_for_a_window_that_follows(how: str, seed: int) -> None:
    lefts, rights = rows(seed), rows(seed + 10)
    app = App("app")
    left, right = (
        app.source(name, MemorySource(table(found), batch_rows=7), time="t", delay="1 s")
        for name, found in (("left", lefts), ("right", rights))
    )
    joined = left.interval_join(
        right, "k", lower="t - INTERVAL 4 SECONDS", upper="t + INTERVAL 3 SECONDS", how=how, name="joined"
    )
    own = "k_right" if how == "right" else "k"
    joined.key_by(own).window(tumbling("2 s")).aggregate(n="count(*)").sink(CollectSink(), name="out")
    cluster = SimulatedCluster(3, seed)
    job = cluster.submit(lowered(app.plan(), "app", 3, 20))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    expected: Counter[tuple[int, int]] = Counter()
    mine, theirs = (rights, lefts) if how == "right" else (lefts, rights)
    low, high = (-3, 4) if how == "right" else (-4, 3)
    for time, key, _ in mine:
        matches = sum(k == key and low * SECOND <= t - time <= high * SECOND for t, k, _ in theirs)
        sent = {"inner": matches, "semi": min(matches, 1), "anti": int(not matches)}.get(how, max(matches, 1))
        if sent:
            expected[key, time // (2 * SECOND)] += sent
    found = Counter[tuple[int, int]]()
    for row in job.writers["out"].table().to_pylist():
        start = row["window_start"] - datetime(1970, 1, 1, tzinfo=UTC)
        found[row[own], round(start.total_seconds()) // 2] += row["n"]
    assert found == expected
