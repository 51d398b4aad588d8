"""A function as plain data: what placement, checkpoints and controllers know of it, without its code.

Three records describe a function: a plan `Node` is what the user wrote (`api/plan.py`), a `FunctionSpec` is what a
worker runs (`deployment.py`), and a `FunctionShape` is what the coordinator and manifests have.
"""

from __future__ import annotations

import msgspec

from stretto.actors.bursting import in_burst
from stretto.actors.calling import CallingFunction
from stretto.actors.deployment import Deployment, Forward, FunctionSpec, edges_of
from stretto.actors.shards import ShardMap


class Feed(msgspec.Struct, frozen=True, array_like=True):
    """Where an input of a function comes from."""

    sender: str
    input: str
    forward: bool


class FunctionShape(msgspec.Struct, frozen=True):
    """What feeds a function, the columns that partition the rows of each input, its states, for a source the number of
    splits, and for a keyed function which partition owns which shard. `workers_max` is how many workers the shards of
    each partition may be on; 0 if it is not elastic. `lessees_max` is how many lessees each actor may have; 0 if its
    discipline lets nobody else run its messages, or it was not asked for. If it `redirects`, its batches may run on
    transient workers (`bursting.py`); if not, `stays_because` says why. `slide_us` is how often it emits in event time;
    0 if it does so on no grid. If it `calls` entities, or reads what they have `emitted`, it is told of complete
    checkpoints, as sinks are. What it does is `irrevocable` if it cannot be withdrawn, and the job then never goes back
    to an earlier checkpoint."""

    name: str
    parallelism: int
    on_driver: bool = False
    feeds: tuple[Feed, ...] = ()
    partitioned_by: dict[str, tuple[str, ...]] = {}
    states: dict[str, str] = {}
    is_sink: bool = False
    splits: int = 0
    shards: ShardMap | None = None
    workers_max: int = 0
    lessees_max: int = 0
    redirects: bool = False
    slide_us: int = 0
    stays_because: str = ""
    calls: bool = False
    irrevocable: bool = False
    emitted: bool = False


Shapes = dict[str, FunctionShape]


def shapes_of(deployment: Deployment) -> Shapes:
    """Returns the shapes of all functions of a deployment, by name."""
    feeds: dict[str, list[Feed]] = {name: [] for name in deployment.functions}
    for name, spec in deployment.functions.items():
        for stage in spec.outputs.values():
            for edge in edges_of(stage):
                feeds[edge.target].append(Feed(name, edge.input, isinstance(edge.routing, Forward)))
    return {name: _shape(spec, tuple(feeds[name])) for name, spec in deployment.functions.items()}


def _shape(spec: FunctionSpec, feeds: tuple[Feed, ...]) -> FunctionShape:
    can = in_burst(spec, is_source=not feeds)
    return FunctionShape(
        spec.name,
        spec.parallelism,
        spec.on_driver,
        feeds,
        {name: tuple(schema.names) for name, schema in spec.partitioned_by.items()},
        spec.function.layouts(),
        is_sink=not any(edges_of(stage) for stage in spec.outputs.values()),
        splits=0 if feeds else spec.function.splits or spec.parallelism,
        shards=spec.shards if spec.partitioned_by else None,
        workers_max=spec.tasks_max + 1 if spec.tasks_max else 0,
        lessees_max=spec.lessees_max,
        redirects=can.redirects,
        slide_us=spec.slide_us or 0,
        stays_because=can.because or "",
        calls=isinstance(spec.function, CallingFunction),
        irrevocable=spec.function.irrevocable,
        emitted=spec.function.reads_emitted,
    )
