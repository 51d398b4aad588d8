"""Shared objects in a plan: their homes are a function, and declarations must agree."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto import App, Context, Function, SharedState, sinks, sources
from stretto.api.lowering import lowered
from stretto.errors import PlanError

SCHEMA = pa.schema([("k", pa.int64())])


class Uses(Function):
    def __init__(self, *states: SharedState) -> None:
        for number, state in enumerate(states):
            setattr(self, f"state{number}", state)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


def app_with(*functions: Function) -> App:
    app = App("sharing")
    stream = app.source("rows", sources.memory([{"k": 1}], SCHEMA))
    for number, function in enumerate(functions):
        stream = stream.apply(function, SCHEMA, name=f"f{number}")
    stream.sink(sinks.collect(), name="out")
    return app


def lower(app: App) -> dict[str, object]:
    return dict(lowered(app.plan(), "sharing", 3, 100).functions)


def test_a_space_is_a_function_that_all_users_feed_by_name() -> None:
    functions = lowered(
        app_with(Uses(SharedState()), Uses(SharedState(fresh="1 s"))).plan(), "sharing", 3, 100
    ).functions
    assert functions["shared"].parallelism == 3
    assert [feed for feed in functions if "shared:shared" in functions[feed].outputs] == ["f0", "f1"]
    assert not functions["shared"].function.order_matters  # What feeds it may run anywhere.
    assert functions["shared"].inelastic_because == "it has shared objects, which others read"


def test_a_server_needs_no_function() -> None:
    assert "shared" not in lower(app_with(Uses(SharedState("redis://host"))))


def test_declarations_must_agree() -> None:
    with pytest.raises(PlanError, match="is declared with two servers"):
        lower(app_with(Uses(SharedState()), Uses(SharedState("redis://host"))))
    with pytest.raises(PlanError, match="is declared in two ways"):
        lower(app_with(Uses(SharedState(cached=1)), Uses(SharedState(cached=2))))
    with pytest.raises(PlanError, match="declares the space 'shared' of shared objects twice"):
        lower(app_with(Uses(SharedState(), SharedState(fresh="1 s"))))
    with pytest.raises(PlanError, match="a function and a space of shared objects are both named 'f0'"):
        lower(app_with(Uses(SharedState(space="f0"))))


def test_no_batch_of_it_goes_to_transient_workers() -> None:
    from stretto.actors.bursting import in_burst

    functions = lowered(app_with(Uses(SharedState()), Uses()).plan(), "sharing", 3, 100).functions
    assert in_burst(functions["f0"], False).because == "it uses shared objects"
