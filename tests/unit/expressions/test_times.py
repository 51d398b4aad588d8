"""Functions of dates, timestamps and intervals, and their texts. The answers are Spark's, in America/New_York."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_scalar, spark_type_name
from stretto.expressions.zones import in_zone, zone_named

ROW = pa.record_batch({"row": [0]})
NEW_YORK = zone_named("America/New_York")


def value(text: str) -> Any:
    with in_zone(NEW_YORK):
        compiled = compile_scalar(text, ROW.schema)
    assert compiled.evaluate(ROW.slice(0, 0)).type == compiled.type
    return compiled.evaluate(ROW)[0].as_py()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("extract(second from timestamp'2024-01-01 00:00:01.5') = 1.5", True),
        ("weekofyear(date'5881580-07-11')", 28),
        ("cast(date'-0001-01-01' as string)", "-0001-01-01"),
        ("cast(make_date(12345, 1, 1) as string)", "+12345-01-01"),
        ("dayname('2024-01-01')", "Mon"),
        ("date_trunc('eon', timestamp'2024-05-05')", None),
        ("cast(trunc('2024-05-06', 'quarter') as string)", "2024-04-01"),
        ("cast(date_add('2024-01-31', '1') as string)", "2024-02-01"),
        ("cast(dateadd(DAY, 1, date'2024-01-31') as string)", "2024-02-01 00:00:00"),
        ("cast(timestampadd(WEEK, 1, timestamp'2024-03-05 02:30:00') as string)", "2024-03-12 02:30:00"),
        ("timestampdiff(HOUR, timestamp'2024-03-09 12:00:00', timestamp'2024-03-10 12:00:00')", 24),
        ("timestampdiff(MONTH, timestamp'2024-01-31', timestamp'2024-02-29')", 0),
        ("datediff('2024-03-10', '2024-03-01')", 9),
        ("cast(add_months(date'2024-02-29', 12) as string)", "2025-02-28"),
        ("months_between('1997-02-28 10:30:00', '1996-10-30')", 3.94959677),
        ("months_between('1997-02-28 10:30:00', '1996-10-30', false)", 3.9495967741935485),
        ("cast(next_day('2024-01-01', 'we') as string)", "2024-01-03"),
        ("cast(make_timestamp(2024, 3, 10, 2, 30, 60) as string)", "2024-03-10 03:31:00"),
        ("try_make_timestamp(2024, 13, 10, 2, 30, 1)", None),
        ("cast(from_utc_timestamp('2024-07-01 00:00:00', 'America/Los_Angeles') as string)", "2024-06-30 17:00:00"),
        ("from_unixtime(-99999999999L)", "-1199-02-15 09:17:19"),
        ("unix_timestamp(timestamp_micros(-500000))", 0),
        ("cast(to_date('20240701', 'yyyyMMdd') as string)", "2024-07-01"),
        ("cast(to_timestamp('10 pm', 'h a') as string)", "1970-01-01 22:00:00"),
        ("try_to_timestamp('2024-13-01', 'yyyy-MM-dd')", None),
        ("date_format(timestamp'2024-03-10 12:00:00', 'EEEE d MMM yy, h a, XXX, O, QQQQ')",
         "Sunday 10 Mar 24, 12 PM, -04:00, GMT-4, 1st quarter"),
        ("date_format(timestamp'2024-03-10 12:00:00.5', \"yyyy-MM-dd'T'HH:mm:ss.SSS\")", "2024-03-10T12:00:00.500"),
        ("cast(interval '1 02:03:04.5' day to second as string)", "INTERVAL '1 02:03:04.5' DAY TO SECOND"),
        ("cast(interval 5 hours as string)", "INTERVAL '05' HOUR"),
        ("cast(interval 1 year 2 months as string)", "INTERVAL '1-2' YEAR TO MONTH"),
        ("cast(interval 1 day * 1.5 as string)", "INTERVAL '1 12:00:00' DAY TO SECOND"),
        ("cast(interval 3 months / 2 as string)", "INTERVAL '0-2' YEAR TO MONTH"),
        ("cast(date'2024-03-12' - date'2024-03-09' as string)", "INTERVAL '3' DAY"),
        ("cast(make_dt_interval(1, 25, 61, 61.5) as string)", "INTERVAL '2 02:02:01.5' DAY TO SECOND"),
        ("extract(hour from interval '1 02:03:04' day to second)", 2),
        ("'2024-01-01' + interval 1 day", "2024-01-02 00:00:00"),
        ("current_timezone()", "America/New_York"),
    ],
)  # fmt: skip
def test_answers(text: str, answer: Any) -> None:
    assert value(text) == answer


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("date'2024-01-01' + interval 1 day", "date"),
        ("date'2024-01-01' + interval 24 hours", "timestamp"),
        ("date'2024-01-01' + null", "timestamp"),
        ("timestamp'2024-01-01'::date", "date"),
        ("extract(second from timestamp'2024-01-01')", "decimal(8,6)"),
        ("timestampdiff(DAY, date'2024-01-01', date'2024-01-02')", "bigint"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert spark_type_name(compile_scalar(text, ROW.schema).type) == kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("interval '1 day garbage'", "an interval that cannot be read"),
        ("interval '1.5' day", "day cannot have a fraction"),
        ("now()", "the function now is not supported"),
        ("current_date()", "use the event time of the rows"),
        ("make_interval(1)", "make_dt_interval"),
        ("convert_timezone('UTC', 'PST', timestamp'2024-01-01')", "timestamps without a zone"),
        ("date_format(timestamp'2024-01-01', 'YYYY')", "the time pattern 'YYYY' is not supported"),
        ("date_format(timestamp'2024-01-01', 'z')", "the time pattern 'z' is not supported"),
        ("date_format(timestamp'2024-01-01', \"'x\")", "a quote is not closed"),
        ("to_timestamp('Mon', 'EEE')", "only for writing"),
        ("to_timestamp('x', 'yyyy')", "does not fit the pattern"),
        ("make_date(2024, 2, 30)", "a date that does not exist"),
        ("next_day('2024-01-01', 'tues')", "'tues' is not a day of the week"),
        ("from_utc_timestamp('2024-01-01', 'Mars')", "there is no time zone 'Mars'"),
        ("timestampadd(EON, 1, timestamp'2024-01-01')", "there is no unit 'eon'"),
        ("extract(eon from timestamp'2024-01-01')", "there is no field 'eon'"),
        ("date_add('2024-01-01', 1L)", "wrong type bigint"),
        ("interval 1 day / 0", "by zero"),
        ("interval 1 day + interval 1 month", "types do not match"),
        ("timestamp_micros(9223372036854775807) + interval 1 second", "timestamp overflow"),
        ("cast(date'294247-01-11' as timestamp)", "timestamp overflow"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert words in str(caught.value)


def test_patterns_of_columns() -> None:
    rows = pa.record_batch(
        {
            "t": pa.array([0, 10**15, None, 1], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "p": ["yyyy", "MM", "yyyy", None],
            "s": ["2024", "1/2", None, "x"],
            "q": ["yyyy", "M/d", "yyyy", None],
        }
    )
    assert compile_scalar("date_format(t, p)", rows.schema).evaluate(rows).to_pylist() == ["1970", "09", None, None]
    read = compile_scalar("cast(to_date(s, q) as string)", rows.schema).evaluate(rows).to_pylist()
    assert read == ["2024-01-01", "1970-01-02", None, None]
