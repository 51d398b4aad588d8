"""A job of three functions: a source of rows with keys, a function with state per key, and a sink."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.simulator.engine.sources import SimulatedSource, Swallow
from stretto.state import MapState

SCHEMA = pa.schema([("k", pa.int64())])


class Counts(Function):
    """Counts the rows of each key, and sends every row on."""

    def __init__(self) -> None:
        self.counts: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for key in batch.column(0).to_pylist():
            self.counts[key] = self.counts.get(key, 0) + 1
        ctx.send(batch)


def keyed_flow(job: str, source: SimulatedSource) -> Deployment:
    """Returns a job whose keyed function has one instance."""
    keyed = FunctionSpec("keyed", Counts(), 1, {"out": Stage("keyed", SCHEMA, edges=[Edge("sink", "in", Rebalance())])})
    keyed.partitioned_by["in"] = SCHEMA
    read = Stage("source", SCHEMA, edges=[Edge("keyed", "in", ByKey(("k",)))])
    specs = [FunctionSpec("source", source, 1, {"out": read}), keyed, FunctionSpec("sink", Swallow(), 1)]
    return Deployment(job, {spec.name: spec for spec in specs})
