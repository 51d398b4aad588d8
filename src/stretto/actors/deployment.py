"""A deployment: the physical plan of an app. Functions, their partitions, and how batches travel between them.

Stateless steps are fused into the function that feeds them: an `Output` is a small tree whose stages transform a batch
and hand it to edges and further stages, so each step runs once however many consumers it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.discipline import ELASTIC, KEYED, SEQUENTIAL, Discipline
from stretto.actors.function import Function
from stretto.actors.shards import ShardMap

Transform = Callable[[pa.RecordBatch], list[pa.RecordBatch]]


@dataclass(frozen=True)
class Forward:
    """Partition i feeds partition i; needs equal parallelism."""


@dataclass(frozen=True)
class Rebalance:
    """Batches go to the partitions in turn."""


@dataclass(frozen=True)
class ByKey:
    """Rows go to the partition that owns their key."""

    keys: tuple[str, ...]


Routing = Forward | Rebalance | ByKey


@dataclass(frozen=True)
class Edge:
    """From an output of a function to an input of another."""

    target: str
    input: str
    routing: Routing


@dataclass
class Stage:
    """A fused step: `transform` (None at the root), then edges and further stages. `name` is the plan node's."""

    name: str
    schema: pa.Schema
    transform: Transform | None = None
    edges: list[Edge] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)


@dataclass
class FunctionSpec:
    """One function of a deployment. `outputs` is a stage tree per named output; `on_driver` pins it to the driver."""

    name: str
    function: Function
    parallelism: int
    outputs: dict[str, Stage] = field(default_factory=dict)
    on_driver: bool = False
    nodes: list[str] = field(default_factory=list)
    """The plan nodes that run inside this function, itself first; for explain() and metrics."""
    lessees_max: int = 0
    """The maximum number of lessees of each of its actors; PARALLELISM_RANGE, less the lessor."""
    strategy: Any = None
    """Which instance gets its messages, if it has lessees: a `scheduling.Strategy`, which this room does not import.
    None for the worker's own."""
    slide_us: int | None = None
    """How often a windowed function emits, in event time; None for one that emits at once."""
    sequential_because: str | None = None
    ordered_for: str | None = None
    """The function to which the order of its batches matters, if there is one and it keeps no state of its own."""
    tasks_max: int = 0
    """The maximum number of workers, beside its home, that the shards of each of its actors may be on; 0 if it is not
    elastic."""
    inelastic_because: str | None = None
    """Why it cannot be elastic; None where it can."""
    spill_bytes: int | None = None
    """The memory limit of each state that can spill, per partition; None for no limit."""
    partitioned_by: dict[str, pa.Schema] = field(default_factory=dict)
    """The key columns of each input whose rows are partitioned by key, by this edge or by an earlier one."""
    dealt: ShardMap | None = None
    """Which partition owns which shard, where keys were dealt by their load; None for ranges of equal length."""

    @property
    def shards(self) -> ShardMap:
        """Which partition owns which shard of its keys, if its rows are partitioned by key."""
        return ShardMap.even(self.parallelism) if self.dealt is None else self.dealt

    def keys_of(self, input_name: str | None) -> pa.Schema:
        """Returns the key columns of an input; of any if they are the same for all."""
        return self.partitioned_by[input_name] if input_name is not None else next(iter(self.partitioned_by.values()))

    @property
    def discipline(self) -> Discipline:
        """How it may scale in this dataflow: its function's own discipline, unless something forbids it."""
        if self.tasks_max:
            return ELASTIC
        if self.sequential_because is None and self.spill_bytes is None:
            return self.function.discipline
        return KEYED if self.partitioned_by else SEQUENTIAL


@dataclass
class Deployment:
    """All functions of one job, in topological order."""

    job: str
    functions: dict[str, FunctionSpec]
    latency_ns: int | None = None
    """The objective for latency; None for a job that has promised none."""
    share: float = 1.0
    """The job's weight where workers are shared fairly."""
    credit_bytes: int | None = None
    """A batch costs one credit of its channel for each so many bytes; None for the usual number."""

    @property
    def spreads(self) -> bool:
        """Whether any function may have instances beside its homes, so that all workers need the code."""
        return any(spec.lessees_max or spec.tasks_max for spec in self.functions.values())

    @property
    def has_lessees(self) -> bool:
        """Whether any function may have lessees that its discipline lets run anything, from the start."""
        return any(spec.lessees_max for spec in self.functions.values())


def edges_of(stage: Stage) -> list[Edge]:
    """All edges below a stage."""
    found = list(stage.edges)
    for child in stage.stages:
        found.extend(edges_of(child))
    return found
