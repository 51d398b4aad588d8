"""Runs apps that are written in SQL, by workers in virtual time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto import App
from stretto.api.changes import final_rows
from stretto.api.lowering import lowered
from stretto.coordinator.records import JobStatus
from stretto.simulator.engine.cluster import SimulatedCluster


def simulated(app: App, sink: str | None = None) -> pa.Table:
    """Returns the rows that a sink of an app has in the end, of two workers."""
    plan = app.plan()
    cluster = SimulatedCluster(2, seed=1)
    job = cluster.submit(lowered(plan, app.name, 2, 16))
    cluster.run()
    assert job.status is JobStatus.FINISHED, job.failure
    node = plan.sink_named(sink)
    return final_rows(job.writers[node.name].table(), node)


def rows_of(text: str, sink: str | None = None, **tables: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of a script as tuples, sorted."""
    table = simulated(App.sql(text, tables=tables), sink)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)
