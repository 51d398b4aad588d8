"""From a function's output to its channels: fused stages run here, then each edge picks the partitions.

A stage tree is bound once, when an instance is made; emitting a batch walks it without lookups.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.channel import OutChannel, Payload
from stretto.actors.deployment import ByKey, Edge, FunctionSpec, Stage
from stretto.actors.partitioning import HashPartitioner
from stretto.errors import StrettoError

Sends = list[tuple[OutChannel, Payload]]


class StepFailed(Exception):
    """A fused step raised: the plan node, and its input batch. The cause is the user's exception."""

    def __init__(self, node: str, batch: pa.RecordBatch) -> None:
        super().__init__(node)
        self.node = node
        self.batch = batch


class BoundEdge:
    """An edge with its channels: one per partition of the target, or the single channel of a forward edge."""

    __slots__ = ("_next", "_partitioner", "channels")

    def __init__(self, edge: Edge, channels: list[OutChannel], partition: int, target: FunctionSpec) -> None:
        self.channels = channels
        self._partitioner: HashPartitioner | None = None
        self._next: int | None = None
        if isinstance(edge.routing, ByKey) and len(channels) > 1:
            self._partitioner = HashPartitioner(edge.routing.keys, target.shards)
        elif len(channels) > 1:
            # Each sender starts at its own partition, so that they do not all begin with the same receiver.
            self._next = partition % len(channels)

    def route(self, batch: pa.RecordBatch, sends: Sends) -> None:
        if self._partitioner is not None:
            for partition, rows in self._partitioner.split(batch):
                sends.append((self.channels[partition], rows))
        elif self._next is not None:
            sends.append((self.channels[self._next], batch))
            self._next = (self._next + 1) % len(self.channels)
        else:
            sends.append((self.channels[0], batch))


class BoundStage:
    """A stage with its edges bound."""

    __slots__ = ("_edges", "_name", "_stages", "_transform")

    def __init__(self, stage: Stage, edges: list[BoundEdge], stages: list[BoundStage]) -> None:
        self._name = stage.name
        self._transform: Any = stage.transform
        self._edges = edges
        self._stages = stages

    def emit(self, batch: pa.RecordBatch, sends: Sends) -> None:
        if self._transform is None:
            self._pass_on(batch, sends)
            return
        try:
            results = self._transform(batch)
        except StrettoError:
            raise
        except BaseException as error:  # Also sys.exit(): it fails the job, and does not end the worker.
            raise StepFailed(self._name, batch) from error
        for result in results:
            if result.num_rows:
                self._pass_on(result, sends)

    def _pass_on(self, batch: pa.RecordBatch, sends: Sends) -> None:
        for edge in self._edges:
            edge.route(batch, sends)
        for stage in self._stages:
            stage.emit(batch, sends)
