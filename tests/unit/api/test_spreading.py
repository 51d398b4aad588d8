"""Which functions may be spread, which are refused, and what explain() says about it."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
import pytest

from stretto import sinks
from stretto.actors.context import Context
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.shape import shapes_of
from stretto.api.app import App
from stretto.api.explain import explained
from stretto.api.lowering import lowered
from stretto.api.memory import MemorySource
from stretto.api.stream import Stream
from stretto.elasticity.capacity import Means, means_of
from stretto.errors import PlanError
from stretto.scheduling import DirectSend
from stretto.state import MapState, ValueState

ROWS = [{"k": 1, "n": 2}]


class Sums(Function):
    """A function whose state combines."""

    def __init__(self) -> None:
        self.sums: Any = MapState(combine=operator.add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Last(Function):
    """A function whose state does not combine."""

    def __init__(self) -> None:
        self.last: Any = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class Timed(Sums):
    """A function whose state combines, but which has timers."""

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        pass


def stream_of(parallelism: int = 1) -> tuple[App, Stream]:
    app = App("app", parallelism=parallelism)
    return app, app.source("in", MemorySource(ROWS), parallelism=parallelism)


def specs(app: App, parallelism: int = 1) -> dict[str, FunctionSpec]:
    return lowered(app.plan(), "job", parallelism, 100).functions


def test_all_that_can_are_spread_and_the_rest_is_left_alone() -> None:
    app, stream = stream_of()
    summed = stream.apply(Sums(), stream.schema, name="sums")
    summed.apply(Last(), stream.schema, name="last").sink(sinks.null(), name="out")
    app.spread(lessees=3)
    found = specs(app)
    assert (found["sums"].lessees_max, found["last"].lessees_max) == (3, 0)
    shapes = shapes_of(lowered(app.plan(), "job", 1, 100))
    assert {name: means_of(shape) for name, shape in shapes.items()} == {
        "in": Means.NONE,
        "sums": Means.LESSEES,
        "last": Means.NONE,
        "out": Means.NONE,
    }
    assert found["sums"].strategy is None, "the cluster's own"
    assert found["in"].lessees_max == found["out"].lessees_max == 0
    text = explained(app, 2, None)
    assert "up to 3 lessees per partition by the cluster's strategy" in text
    assert "sequential: one instance per partition, because state 'last' has no combining function" in text


def test_a_named_function_has_its_own_bound_and_strategy() -> None:
    app, stream = stream_of()
    stream.apply(Sums(), stream.schema, name="sums").sink(sinks.null())
    app.spread("sums", lessees=6, strategy=DirectSend())
    assert specs(app)["sums"].lessees_max == 6
    assert isinstance(specs(app)["sums"].strategy, DirectSend)
    app.spread("sums", lessees=0)
    assert specs(app)["sums"].lessees_max == 0


@pytest.mark.parametrize(
    ("function", "why"), [(Last(), "state 'last' has no combining function"), (Timed(), "it has timers")]
)
def test_naming_a_sequential_function_is_refused(function: Function, why: str) -> None:
    app, stream = stream_of()
    stream.apply(function, stream.schema, name="stiff").sink(sinks.null())
    with pytest.raises(PlanError, match=f"'stiff' cannot be spread: {why}"):
        specs(app.spread("stiff"))


def test_a_mistake_in_the_name_and_a_fused_step_are_refused() -> None:
    app, stream = stream_of()
    stream.filter("n > 0", name="positive").sink(sinks.null())
    with pytest.raises(PlanError, match="no function 'positiv' to spread"):
        app.spread("positiv").plan()
    app, stream = stream_of()
    stream.filter("n > 0", name="positive").sink(sinks.null())
    with pytest.raises(PlanError, match="'positive' cannot be spread by itself"):
        specs(app.spread("positive"))
    with pytest.raises(PlanError, match="cannot have -1 lessees"):
        app.spread(lessees=-1)


def test_a_stateless_function_is_not_spread_where_order_matters_further_down() -> None:
    app, stream = stream_of()
    one = stream.filter("n > 0", name="one", parallelism=1)
    one.filter("n > 1", name="two", parallelism=1).apply(Last(), stream.schema, name="last").sink(sinks.null())
    app.spread(lessees=2)
    found = specs(app)
    assert found["two"].sequential_because == "the order of what it sends matters to 'last'"
    assert found["one"].sequential_because == "the order of what it sends matters to 'two'"


def test_a_stateless_function_before_a_combining_one_is_spread() -> None:
    app, stream = stream_of()
    one = stream.filter("n > 0", name="one", parallelism=1)
    one.apply(Sums(), stream.schema, name="sums").sink(sinks.null())
    assert specs(app.spread(lessees=2))["one"].lessees_max == 2


def test_changes_must_stay_in_order() -> None:
    app, stream = stream_of()
    counted = stream.key_by("k").aggregate(total="sum(n)", name="counted")
    counted.select("k", "total", name="kept", parallelism=1).sink(sinks.collect(), name="out")
    assert specs(app.spread(lessees=2))["kept"].sequential_because == "the order of what it sends matters to 'out'"
