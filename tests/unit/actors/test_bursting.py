"""What a function can do in a burst follows from its state, and explain() says it."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa

from stretto import App, sinks, sources
from stretto.actors.bursting import Burst, in_burst
from stretto.actors.context import Context
from stretto.actors.deployment import FunctionSpec, edges_of
from stretto.actors.function import Function
from stretto.actors.shape import shapes_of
from stretto.api.lowering import lowered
from stretto.operators.windows import tumbling
from stretto.state import MapState, ValueState

TABLE = pa.table({"k": [1, 2], "t": pa.array([0, 1], pa.timestamp("us", tz="UTC"))})


class Kept(Function):
    """Keeps something per key."""

    last: MapState[int, int] = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Added(Kept):
    """Keeps something that combines."""

    last: MapState[int, int] = MapState(combine=operator.add)


class One(Kept):
    """Keeps one value for all keys."""

    last: Any = ValueState(0)


def kinds(app: App) -> dict[str, tuple[Burst, bool]]:
    functions = lowered(app.plan(), app.name, 2, 100).functions
    fed = {target for spec in functions.values() for target in _targets(spec)}
    found = {name: in_burst(spec, name not in fed) for name, spec in functions.items()}
    return {name: (each.kind, each.ordered) for name, each in found.items()}


def _targets(spec: FunctionSpec) -> set[str]:
    return {edge.target for stage in spec.outputs.values() for edge in edges_of(stage)}


def app_with(function: Function | None) -> App:
    app = App("bursts", engine="actors")
    rows = app.source("rows", sources.memory(TABLE), time="t", delay="0 s").filter("k > 0", name="some")
    if function is None:
        rows.key_by("k").window(tumbling("1 s")).aggregate(n="count(*)", name="counts").sink(sinks.null(), name="out")
    else:
        rows.key_by("k").apply(function, "k bigint, t timestamp", name="kept").sink(sinks.null(), name="out")
    return app


def test_steps_go_where_a_source_has_some() -> None:
    assert kinds(app_with(None))["rows"] == (Burst.STEPS, True)
    plain = App("plain", engine="actors")
    plain.source("rows", sources.memory(TABLE)).sink(sinks.null(), name="out")
    assert kinds(plain)["rows"] == (Burst.NOTHING, False)


def test_functions_without_state_keep_their_order() -> None:
    app = App("mapped", engine="actors")
    rows = app.source("rows", sources.memory(TABLE), time="t", delay="0 s")
    rows.filter("k > 0", name="some", parallelism=2).sink(sinks.null(), name="out")
    assert kinds(app)["some"] == (Burst.BATCHES, True)


def test_state_decides_what_goes() -> None:
    assert kinds(app_with(None))["counts"] == (Burst.MERGED, False)
    assert kinds(app_with(Added()))["kept"] == (Burst.MERGED, False)
    assert kinds(app_with(Kept()))["kept"] == (Burst.KEYS, False)
    assert kinds(app_with(One()))["kept"] == (Burst.NOTHING, False)
    assert kinds(app_with(None))["out"] == (Burst.NOTHING, False)


def test_shapes_have_the_reason() -> None:
    shapes = shapes_of(lowered(app_with(One()).plan(), "bursts", 2, 100))
    assert shapes["out"].stays_because == "it is a sink"
    assert shapes["kept"].stays_because == "state 'last' cannot be divided by key: it is one value for all keys"
    assert shapes["rows"].redirects
    assert not shapes["rows"].stays_because


def test_explain_says_it_with_the_reason() -> None:
    assert "in a burst: rows of keys that have no state here go to transient workers" in app_with(Kept()).explain()
    stays = "in a burst: stays here, because state 'last' cannot be divided by key: it is one value for all keys"
    assert stays in app_with(One()).explain()
