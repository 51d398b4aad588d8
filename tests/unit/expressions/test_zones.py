"""Time zones: Java's names and rules, and expressions that are compiled in one. The answers are Spark's."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto import App, sinks, sources
from stretto.api.joining import constant_offset_us, least_offset_us
from stretto.errors import StrettoError
from stretto.expressions import compile_predicate, compile_projection, compile_scalar
from stretto.expressions.zones import find_zone, in_zone, zone_named
from stretto.operators.windows import EventTime

NEW_YORK = "America/New_York"
ROW = pa.record_batch({"t": pa.array([datetime(2024, 7, 1, 2, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))})


@pytest.mark.parametrize(
    ("name", "offset_s"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("+05:30", 19_800),
        ("-8:00", -28_800),
        ("+01:5", 3_900),
        ("+0130", 5_400),
        ("GMT+2", 7_200),
        ("UTC-03:15", -11_700),
        ("UT", 0),
        ("GMT0", 0),
        ("PST", -28_800),
        ("EST", -18_000),
        ("Etc/GMT+5", -18_000),
        ("Europe/Berlin", 3_600),
        ("Asia/Kathmandu", 20_700),
    ],
)
def test_names_that_java_knows(name: str, offset_s: int) -> None:
    january = np.array([1_704_067_200])
    assert zone_named(name).offset_s(january) == offset_s


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "+18:01", "+5:", "europe/berlin", "UTC0", "../UTC", "UTC+", "+1:2:3"]
)
def test_names_that_java_does_not_know(name: str) -> None:
    assert find_zone(name) is None
    with pytest.raises(StrettoError, match="there is no time zone"):
        zone_named(name)


def test_the_rules_go_on_for_ever_and_begin_with_local_mean_time() -> None:
    zone = zone_named(NEW_YORK)
    summers = np.array([np.datetime64(f"{year}-07-01", "s").astype(np.int64) for year in (1850, 2024, 2500, 290_000)])
    assert list(zone.offset_s(summers)) == [-17_762, -14_400, -14_400, -14_400]
    assert list(zone.offset_s(summers + 184 * 86_400)) == [-17_762, -18_000, -18_000, -18_000]


@pytest.mark.parametrize(
    ("text", "zone", "answer"),
    [
        ("hour(t)", NEW_YORK, 22),
        ("cast(t as string)", NEW_YORK, "2024-06-30 22:00:00"),
        ("cast(cast(t as date) as string)", "Asia/Kathmandu", "2024-07-01"),
        ("unix_seconds(timestamp '2024-03-10 02:30:00')", NEW_YORK, 1_710_055_800),
        ("unix_seconds(timestamp '2024-11-03 01:30:00')", NEW_YORK, 1_730_611_800),
        ("unix_seconds(date_trunc('hour', timestamp_seconds(1730615400)))", NEW_YORK, 1_730_613_600),
        ("unix_seconds(timestamp '2024-03-09 02:30:00' + interval 1 day)", NEW_YORK, 1_710_055_800),
        ("extract(hour from timestamp'2024-03-12' - timestamp'2024-03-09')", NEW_YORK, 0),
        ("cast(cast('2020-01-01 12:30:10 PST' as timestamp) as string)", "+01:00", "2020-01-01 21:30:10"),
        ("cast(timestamp_micros(9223372036854775807) as string)", NEW_YORK, "+294247-01-09 23:00:54.775807"),
        ("cast(cast(date'1919-03-31' as timestamp) as string)", "America/Toronto", "1919-03-31 00:30:00"),
    ],
)  # fmt: skip
def test_expressions_have_the_zone_they_are_compiled_in(text: str, zone: str, answer: Any) -> None:
    with in_zone(zone_named(zone)):
        compiled = compile_scalar(text, ROW.schema)
    assert compiled.evaluate(ROW)[0].as_py() == answer
    assert pickle.loads(pickle.dumps(compiled)).evaluate(ROW)[0].as_py() == answer
    assert compile_scalar(text, ROW.schema).in_zone(zone).evaluate(ROW)[0].as_py() == answer


def test_predicates_and_projections_move_to_a_zone() -> None:
    predicate = compile_predicate("hour(t) = 22", ROW.schema)
    projection = compile_projection(["hour(t) AS h"], ROW.schema)
    assert predicate.evaluate(ROW).num_rows == 0
    assert predicate.in_zone(NEW_YORK).evaluate(ROW).num_rows == 1
    assert projection.in_zone(NEW_YORK).evaluate(ROW).to_pylist() == [{"h": 22}]
    assert projection.in_zone("UTC") is projection


def app(timezone: str | None = None) -> App:
    app = App("zoned", timezone=timezone)
    rows = app.source("rows", sources.memory(pa.Table.from_batches([ROW])))
    kept = rows.filter("hour(t) = 22", name="kept")
    kept.key_by("t").aggregate(h="max(hour(t))", name="most").sink(sinks.collect(), name="out")
    return app


def test_a_plan_is_bound_to_the_zone_of_the_session_unless_the_app_has_one() -> None:
    for plan, zone in (
        (app().plan(), "UTC"),
        (app().plan(NEW_YORK), NEW_YORK),
        (app(NEW_YORK).plan("Asia/Tokyo"), NEW_YORK),
    ):
        assert plan.zone == zone
        kept = plan.nodes["kept"].predicate.evaluate(ROW).num_rows  # type: ignore[attr-defined]
        assert kept == (zone == NEW_YORK)
        call = plan.nodes["most"].calls[0]  # type: ignore[attr-defined]
        assert call.argument.setting.zone == zone
    with pytest.raises(StrettoError, match="there is no time zone 'Mars'"):
        App("mars", timezone="Mars")


def test_a_day_is_an_offset_only_where_days_have_24_hours() -> None:
    bound, time = compile_scalar("t - interval 1 day", ROW.schema), EventTime("t")
    day_us = 86_400_000_000
    assert constant_offset_us(bound.in_zone(NEW_YORK), time, ROW.schema) == -day_us
    assert least_offset_us(bound, time, ROW.schema) == -day_us
    assert least_offset_us(bound.in_zone(NEW_YORK), time, ROW.schema) < -day_us - 3_600_000_000 + 1  # type: ignore[operator]
    hours = compile_scalar("t - interval 5 hours", ROW.schema).in_zone(NEW_YORK)
    assert least_offset_us(hours, time, ROW.schema) == -5 * 3_600_000_000
    assert least_offset_us(compile_scalar("date_trunc('day', t)", ROW.schema), time, ROW.schema) is None
