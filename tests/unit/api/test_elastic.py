"""Which functions may be elastic, which are refused, and what explain() says about it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto import sinks
from stretto.actors.context import Context
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.api.app import App
from stretto.api.explain import explained
from stretto.api.lowering import lowered
from stretto.api.memory import MemorySource
from stretto.api.stream import Stream
from stretto.errors import PlanError
from stretto.state import MapState, ValueState

ROWS = [{"k": 1, "n": 2}]


class Last(Function):
    """A value per key."""

    def __init__(self) -> None:
        self.last: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


class One(Last):
    """A value for all keys."""

    def __init__(self) -> None:
        self.seen: Any = ValueState(0)


class Remembers(Last):
    def remember(self) -> Any:
        return 1


class Timed(Last):
    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        pass


class TimedByKey(Timed):
    def timer_key(self, tag: Any) -> Any:
        return tag


def stream_of(parallelism: int = 1) -> tuple[App, Stream]:
    app = App("app", parallelism=parallelism)
    return app, app.source("in", MemorySource(ROWS), parallelism=parallelism)


def specs(app: App, parallelism: int = 1) -> dict[str, FunctionSpec]:
    return lowered(app.plan(), "job", parallelism, 100).functions


def test_all_that_can_are_elastic_and_the_rest_is_left_alone() -> None:
    app, stream = stream_of()
    last = stream.key_by("k").apply(Last(), stream.schema, name="last")
    one = last.key_by("k").apply(One(), stream.schema, name="one")
    one.key_by("k").aggregate(total="sum(n)", name="totals").sink(sinks.null(), name="out")
    found = specs(app.elastic(workers_max=3))
    assert {name: spec.tasks_max for name, spec in found.items()} == {
        "in": 0,
        "last": 2,
        "one": 0,
        "totals": 2,
        "out": 0,
    }
    text = explained(app, 2, None)
    assert "the shards of a partition move to as many workers as its load needs, at most 3 per partition" in text
    assert "cannot be elastic, because state 'seen' cannot be divided by key: it is one value for all keys" in text


def test_explain_says_what_could_be_elastic() -> None:
    app, stream = stream_of()
    stream.key_by("k").apply(Last(), stream.schema, name="last").sink(sinks.null())
    assert "; it can be elastic" in explained(app, 2, None)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (One(), "state 'seen' cannot be divided by key"),
        (Remembers(), "what it remembers beside its states"),
        (Timed(), r"it has timers, and no timer_key\(\)"),
    ],
)
def test_naming_a_function_that_cannot_be_elastic_is_refused(function: Function, why: str) -> None:
    app, stream = stream_of()
    stream.key_by("k").apply(function, stream.schema, name="stiff").sink(sinks.null())
    with pytest.raises(PlanError, match=f"'stiff' cannot be elastic: {why}"):
        specs(app.elastic("stiff"))


def test_timers_with_keys_and_named_functions_are_elastic() -> None:
    app, stream = stream_of()
    stream.key_by("k").apply(TimedByKey(), stream.schema, name="timed").sink(sinks.null())
    assert specs(app.elastic("timed", workers_max=5))["timed"].tasks_max == 4


def test_rows_without_a_key_spread_functions_and_wrong_names_are_refused() -> None:
    app, stream = stream_of()
    stream.apply(Last(), stream.schema, name="unkeyed").sink(sinks.null())
    with pytest.raises(PlanError, match="its rows are not partitioned by key"):
        specs(app.elastic("unkeyed"))
    app, stream = stream_of()
    stream.filter("n > 0", name="positive").sink(sinks.null())
    with pytest.raises(PlanError, match="'positive' cannot be elastic by itself"):
        specs(app.elastic("positive"))
    app, stream = stream_of()
    stream.sink(sinks.null(), name="out")
    with pytest.raises(PlanError, match="no function 'outt' to be elastic"):
        app.elastic("outt").plan()
    with pytest.raises(PlanError, match="cannot be elastic on 1 worker"):
        app.elastic(workers_max=1)
