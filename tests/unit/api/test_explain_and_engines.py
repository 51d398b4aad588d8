"""explain() shows the plan, the engine and the reason; `auto` follows the rule of five trigger times."""

from __future__ import annotations

import datetime as dt
import operator
from typing import Any

import pyarrow as pa

from stretto import App, Function, ValueState, objective, sinks, sources, tumbling
from stretto.actors.context import Context
from stretto.api.engines import Engine, choose
from stretto.api.explain import explained
from stretto.api.lowering import FINE_STEP_US, lowered
from stretto.api.relational import unsupported

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def bids(**options: Any) -> tuple[App, Any]:
    app = App("bids", **options)
    rows = [{"auction": 1, "price": 2, "at": NOW}]
    return app, app.source("bid", sources.memory(rows, "auction bigint, price bigint, at timestamp"), time="at")


class Sum(Function):
    total = ValueState(0, combine=operator.add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


class Last(Function):
    last: ValueState[int | None] = ValueState(None)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def test_a_share_is_described_if_it_is_set() -> None:
    assert objective(share=40).describe() == "none; priority 1, share 40"
    assert "share" not in objective(latency="1 s").describe()


def test_the_text_names_functions_fused_steps_routes_and_the_objective() -> None:
    app, stream = bids(slo=objective(latency="200 ms", percentile=95, throughput=0.9, priority=3))
    high = stream.filter("price > 1").key_by("auction").window(tumbling("10 s")).aggregate(high="max(price)")
    high.sink(sinks.collect(), name="out")
    text = explained(app, workers=3, trigger_s=None)
    assert "p95 latency <= 200 ms, juice >= 0.9; priority 3" in text
    assert "+ bid.filter: filter price > 1" in text
    assert "tumbling 10 s window, keys (auction), high = max(price)" in text
    assert "(by auction)" in text
    assert "out [on the driver]: sink collect" in text
    assert "engine: actors" in text


def test_a_function_that_cannot_combine_is_said_to_stay_sequential() -> None:
    app, stream = bids()
    stream.apply(Sum(), "n bigint", name="sum").sink(sinks.null())
    stream.apply(Last(), "n bigint", name="last").sink(sinks.null())
    text = explained(app, 2, None)
    assert "combinable: any message on any lessee" in text
    assert "sequential: one instance per partition" in text


def test_auto_takes_micro_batches_from_five_trigger_times_on() -> None:
    assert choose(objective(latency="2 s"), None, 0.4).engine is Engine.MICROBATCH
    assert choose(objective(latency="1.9 s"), None, 0.4).engine is Engine.ACTORS
    assert "less than 5 x the trigger time of 400 ms" in choose(objective(latency="1.9 s"), None, 0.4).why
    assert choose(objective(), None, 0.4).engine is Engine.ACTORS
    assert choose(objective(latency="1 h"), "'f' is a user's Function", 0.4).engine is Engine.ACTORS
    assert choose(objective(latency="1 h"), None, None).engine is Engine.ACTORS


def test_stateless_steps_are_fused_unless_they_have_a_parallelism() -> None:
    app, stream = bids()
    stream.select("price", "at").filter("price > 1", parallelism=3, name="own").sink(sinks.null(), name="out")
    functions = lowered(app.plan(), "job", 2, 100).functions
    assert list(functions) == ["bid", "own", "out"]
    assert functions["bid"].nodes == ["bid", "bid.select"]
    assert functions["own"].parallelism == 3


def test_watermarks_step_as_coarsely_as_the_windows_allow() -> None:
    app, stream = bids()
    stream.key_by("auction").window(tumbling("10 s")).aggregate("count(*)").sink(sinks.null())
    stream.key_by("auction").window(tumbling("4 s")).aggregate("count(*)").sink(sinks.null())
    source: Any = lowered(app.plan(), "job", 2, 100).functions["bid"].function
    assert source.watermark_step_us == 2_000_000
    plain, stream = bids()
    stream.filter("price > 1").sink(sinks.null())
    source = lowered(plain.plan(), "job", 2, 100).functions["bid"].function
    assert source.watermark_step_us is None


def test_a_table_of_rows_as_they_come_has_fine_watermarks_and_one_of_windows_has_theirs() -> None:
    app, stream = bids()
    stream.filter("price > 1").publish("raw", segment="1 hour")
    source: Any = lowered(app.plan(), "job", 2, 100).functions["bid"].function
    assert source.watermark_step_us == FINE_STEP_US, "without watermarks, no question with at_least is ever answered"
    app, stream = bids()
    sums = stream.key_by("auction").window(tumbling("10 s")).aggregate("count(*) AS c")
    sums.filter("c > 1").publish("sums", time="window_start", segment="1 hour")
    source = lowered(app.plan(), "job", 2, 100).functions["bid"].function
    assert source.watermark_step_us == 10_000_000


def test_a_bound_on_jumps_is_described_and_refused_for_micro_batches_unless_it_is_the_default() -> None:
    def planned(**options: Any) -> tuple[str, str | None]:
        app = App("far")
        rows = sources.memory([{"n": 1, "at": NOW}], "n bigint, at timestamp")
        app.source("rows", rows, time="at", **options).sink(sinks.null())
        return explained(app, workers=1, trigger_s=None), unsupported(app.plan(), streaming=True)

    text, reason = planned()
    assert "jump" not in text
    assert reason is None
    text, reason = planned(max_jump=None)
    assert "delay 0 s, max jump any" in text
    assert reason is None
    text, reason = planned(max_jump="1 hour")
    assert "delay 0 s, max jump 3600 s" in text
    assert reason == "source 'rows' sets max_jump, and Spark's watermark follows every row"
