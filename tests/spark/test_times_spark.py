"""Dates, timestamps and intervals against Spark, in four time zones: values, types and failures.

Every row of the table has times near changes of the offset, far away ones, and texts in every form that a cast reads.
"""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, sinks, sources
from stretto.errors import ExpressionError, StrettoError
from stretto.expressions import compile_projection, parse_schema, spark_type_name
from stretto.expressions.types import DURATION
from stretto.expressions.zones import in_zone, zone_named

ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
DDL = "t timestamp, u timestamp, far timestamp, d date, e date, i int, n bigint, x double, s string, w string"
ROWS = 400
DAY_US = 86_400_000_000
#: Around changes of the offsets of the zones above, in seconds.
CHANGES = (1710054000, 1730613600, 1712412000, 1728142200, 504903600, -2717650800, 1711846800)
TEXTS = [
    "2020", "2020-1", "2020-01-01", " 2020-01-01 ", "2020-01-01T12", "2020-01-01 12:30", "2020-1-1 1:2:3",
    "-0044-03-15", "2020-01-01T12:30:10.123456789", "2020-01-01 12:30:10 Europe/Berlin", "2020-01-01 12:30:10+05:30",
    "+12345-06-07", "2020-01-01 12:30:10.5 PST", "2020-01-01 12:30:10Z", "2020-01-01 12:30:10 GMT+2",
    "2020-01-01 12:30:10-0800",
    "2024-03-10 02:30:00", "2024-11-03 01:30:00", "2024-10-06 02:15:00", "2024-02-30", "2020-01-01T", "x", "",
    "2020-01-01 24:00:00", "2020-01-01 12:30+01:00", "2020-01-01 12:30:10 Nowhere/City", "0000-01-01", "294247-01-10",
    "294247-01-11", "2020-01-01 12:30:10 +18:01", "1883-11-18 12:00:00", "2500-07-01 00:00:00", "2020-01-01 garbage",
]  # fmt: skip

EXPRESSIONS = """
year(t) | quarter(t) | month(t) | day(t) | dayofmonth(t) | dayofweek(t) | weekday(t) | dayofyear(t) | weekofyear(t)
to_json(struct(t, d)) | to_json(struct(far)) | from_json(to_json(struct(u)), 'u timestamp')
hour(t) | minute(t) | second(t) | year(far) | month(far) | day(far) | hour(far) | minute(far) | second(far)
dayofyear(far) | weekofyear(far) | weekofyear(e) | year(e) | dayofyear(e) | dayname(t) | monthname(d) | last_day(t)
cast(t as date) | cast(far as date) | cast(d as timestamp) | cast(t as string) | cast(far as string)
cast(d as string) | cast(e as string) | cast(t as double) | cast(t as bigint) | cast(t as decimal(20,6))
try_cast(s as timestamp) | try_cast(s as date) | try_cast(x as timestamp) | cast(i as timestamp) | t::date | t > d
t = cast(t as date) | d < t | t between '2020-01-01' and '2024-06-01' | d = '2024-02-29'
date_trunc('year', t) | date_trunc('quarter', t) | date_trunc('month', t) | date_trunc('week', t) | date_trunc('day', t)
date_trunc('hour', t) | date_trunc('minute', t) | date_trunc('second', t) | date_trunc('millisecond', t)
date_trunc('MICROSECOND', t) | date_trunc('DD', far) | date_trunc('hour', u) | date_trunc(w, t) | date_trunc('eon', t)
date_trunc(null, t) | trunc(d, 'year') | trunc(d, w) | trunc(t, 'mm') | trunc(e, 'week')
trunc('2024-05-06', 'quarter')
unix_seconds(t) | unix_millis(t) | unix_micros(t) | unix_date(d) | date_from_unix_date(i) | timestamp_seconds(i)
timestamp_millis(n) | timestamp_micros(n) | t + interval 1 day | t - interval 3 days | t + interval 36 hours
t - interval '1 12:30:00.5' day to second | t + interval 1 month | t - interval 1 year 3 months | t + interval 1 week
d + interval 1 day | d - interval 1 month | d + interval 1 hour | d + i % 1000 | d - 1Y | 1 + d | t - u
d - date'1970-01-01' | t - d
u - t | interval 2 hours + t | t + (t - u) | d - date'2024-01-01' | t - '2020-01-01' | d - '2020-01-01'
(t - u) * 2 | (t - u) / 3 | (t - u) * 1.5 | 2 * (t - u) | -(t - u) | abs(t - u) | t - u > interval 1 day
(t - u) + interval 1 day | interval 1 day - (t - u) | (t - u) * (x / 1e12D) | cast(t - u as string)
cast(d - date'2000-01-01' as string)
cast((t - u) * 2 as string) | cast(interval 1 hour + interval 5 seconds as string) | cast(interval 14 months as string)
cast(interval '1-2' year to month * 2 as string) | cast(interval '-1 02:03:04.5' day to second as string)
cast(if(i > 0, interval 1 day, interval 90 minutes) as string) | cast(coalesce(null, interval 1 day) as string)
interval 12 months = interval 1 year | interval 1 day > interval 23 hours | interval '1 day 2 hours' = interval 26 hours
extract(year from t) | extract(yearofweek from t) | extract(quarter from d) | extract(mon from t) | extract(w from t)
extract(d from t) | extract(dow from t) | extract(dow_iso from t) | extract(doy from far) | extract(h from t)
extract(minute from far) | extract(second from t) | date_part('seconds', t) | datepart('week', d)
extract(day from t - u) | extract(hour from t - u) | extract(minute from t - u) | extract(second from t - u)
timestamp '2024-03-10 02:30:00' | timestamp '2024-11-03 01:30:00' | timestamp '2024-01-01 00:00:00 Europe/Paris'
date '2024-02-29' | timestamp '2024-10-06 02:15:00' | hour('2024-01-01 10:11:12') | year('2024-05-06')
try_add(t, interval 1 day) | try_add(far, interval 1 day) | try_subtract(d, e) | try_add(d, 1)
try_divide(interval 1 day, 0) | try_add(timestamp_micros(n), interval 1 year) | '2024-01-01' + interval 1 day
date_add(d, 1) | date_add(t, i % 1000) | date_sub(d, i % 1000) | date_add(d, null) | dateadd(HOUR, 3, t)
dateadd(DAY, i % 100, t) | dateadd(MONTH, i % 100, t) | dateadd(WEEK, 1, d) | timestampadd(QUARTER, -1, t)
timestampadd(YEAR, 1, t) | timestampadd(MICROSECOND, n, t) | timestampdiff(MONTH, t, u) | timestampdiff(YEAR, t, u)
timestampdiff(QUARTER, t, u) | timestampdiff(DAY, t, u) | timestampdiff(HOUR, t, u) | timestampdiff(WEEK, u, t)
timestampdiff(SECOND, u, t) | datediff(t, d) | datediff(d, u) | date_diff(MINUTE, t, d) | add_months(d, i % 1000)
add_months(t, 1) | months_between(t, u) | months_between(t, u, false) | months_between(t, u, i > 0)
months_between(d, t) | next_day(d, 'TU') | next_day(t, 'sunday') | next_day(d, if(i > 0, 'FR', 'mon'))
next_day(d, null) | make_date(2024, i % 5 + 6, 28) | make_date(i % 5000, 2, 1) | make_date(null, 1, 1)
make_timestamp(2024, 3, 10, 2, 30, x % 30 + 30) | make_timestamp(2024, 3, 10, 2, i % 20 + 30, 7.5)
make_timestamp(2024, 11, 3, 1, 30, 60, if(i > 0, 'PST', 'Asia/Kathmandu'))
make_timestamp(i % 5000, 3, 10, 2, 30, 1.23456789, 'America/Los_Angeles')
try_make_timestamp(2024, i % 20, 10, 2, 30, 1) | from_utc_timestamp(t, 'America/Los_Angeles')
to_utc_timestamp(t, 'America/Los_Angeles') | from_utc_timestamp(t, if(i > 0, 'PST', 'Australia/Lord_Howe'))
to_utc_timestamp(t, if(i > 0, 'PST', 'Australia/Lord_Howe')) | to_utc_timestamp(t, if(i > 0, 'PST', null))
from_utc_timestamp(d, '+05:30') | make_dt_interval(i % 1000, 2, 3, 4.5) | make_dt_interval()
make_dt_interval(1, i % 1000, 61, x / 1e5) | cast(make_ym_interval(1, i % 100) as string)
cast(make_ym_interval() as string) | d + make_ym_interval(0, i % 100) | t + make_dt_interval(i % 1000)
t - make_dt_interval(0, i % 1000) | current_timezone() | extract(hour from d) | date_part('year', '2024-01-01')
date_format(t, 'yyyy-MM-dd HH:mm:ss') | date_format(t, 'yyyy-MM-dd') | date_format(t, 'HH:mm:ss.SSS')
date_format(far, 'yyyy-MM-dd HH:mm:ss.SSSSSS') | date_format(t, 'y M d H m s') | date_format(t, 'yy MMM dd EEE')
date_format(t, 'yyy MMMM EEEE') | date_format(far, 'y yy yyy yyyyy') | date_format(t, 'L LL LLL LLLL')
date_format(t, 'Q QQ QQQ QQQQ q qq qqq qqqq') | date_format(t, 'D DD DDD') | date_format(t, 'h hh K KK k kk a')
date_format(t, 'S SS SSSS SSSSSSS SSSSSSSSS') | date_format(t, 'G y GGGG') | date_format(far, 'G yyyy')
date_format(t, 'VV') | date_format(t, 'O OOOO') | date_format(t, 'X XX XXX XXXX XXXXX')
date_format(t, 'x xx xxx xxxx xxxxx') | date_format(t, 'Z ZZ ZZZ ZZZZ ZZZZZ')
date_format(t, "'it''s' yyyy '' [MM]") | date_format(t, 'E EE') | date_format(d, 'yyyyMMdd')
date_format('2024-05-06', 'dd/MM/yyyy') | date_format(t, if(i > 0, 'yyyy', 'MM-dd'))
date_format(t, if(i > 0, 'yyyy', null)) | date_format(t, '') | date_format(t, 'é–yyyy') | from_unixtime(i)
from_unixtime(n) | from_unixtime(i, 'HH:mm')
to_timestamp(date_format(t, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss')
to_timestamp(date_format(t, 'dd/MM/yyyy hh:mm a'), 'dd/MM/yyyy hh:mm a')
to_timestamp(date_format(t, 'd MMM yyyy H:m:s.SSSSSS'), 'd MMM yyyy H:m:s.SSSSSS')
to_timestamp(date_format(t, 'd MMMM yyyy KK:m a'), 'd MMMM yyyy KK:m a')
to_timestamp(date_format(t, 'yyyyMMddHHmmss'), 'yyyyMMddHHmmss')
to_timestamp(date_format(t, 'yyyy-MM-dd HH:mm:ss XXX'), 'yyyy-MM-dd HH:mm:ss XXX')
try_to_timestamp(s, 'yyyy-MM-dd') | try_to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')
try_to_timestamp(s, 'yyyy-M-d[ H:m:s]') | try_to_timestamp(s, "yyyy-MM-dd'T'HH") | try_to_timestamp(s, 'yyyy')
try_to_timestamp(s) | try_to_date(s) | try_to_date(s, 'yyyy-MM-dd')
to_date(date_format(t, 'yy/MM/dd'), 'yy/MM/dd') | to_date(t, 'yyyy') | to_timestamp(d, 'yyyy')
to_timestamp('12-25', 'MM-dd') | to_timestamp('10:30', 'HH:mm') | to_timestamp('10 PM', 'h a')
to_timestamp('PM', 'a') | to_timestamp('24', 'kk')
to_timestamp('2024-01-01 z', 'yyyy-MM-dd X')
to_timestamp('2024-01-01t10', "yyyy-MM-dd'T'HH") | to_timestamp('01 JAN 2024', 'dd MMM yyyy')
to_timestamp('2024-01-01 10:00:00.12', 'yyyy-MM-dd HH:mm:ss.SSSSSS') | to_timestamp('+12024-01-01', 'yyyy-MM-dd')
unix_timestamp(t) | unix_timestamp(d) | unix_timestamp('2024-07-01 00:00:00')
unix_timestamp(date_format(t, 'yyyy-MM'), 'yyyy-MM') | to_unix_timestamp(t, 'garbage') | to_unix_timestamp(t, null)
"""

FAILING = """
interval '1 day garbage' | interval '1.5' day | interval 1 month 1 day | interval '1 25' day to hour | interval 1 eon
interval '1-13' year to month | cast('2020-01-01T' as timestamp) | cast('2020-02-30' as date) | year(20240101)
cast(1 as date) | cast(date'2024-01-01' as int) | cast(true as timestamp) | t + 1 | t * 2 | d + 1L | 1 - d
interval 1 day / 0 | interval 1 day = interval 1 month | interval 1 day + interval 1 month | d + '1'
timestamp_micros(9223372036854775807) + interval 1 second | cast(date'294247-01-11' as timestamp)
timestamp_micros(9223372036854775807) - timestamp_micros(-9223372036854775808) | extract(eon from t)
date_trunc('week', timestamp_micros(-9223372036854775808)) | '2024-01-01' - interval 1 month | hour(5)
date_add(d, 1L) | next_day(d, 'tues') | make_date(2024, 2, 30) | make_timestamp(2024, 13, 1, 1, 1, 1)
from_utc_timestamp(t, 'Nowhere') | timestampadd(NANOSECOND, 1, t) | unix_seconds('2024-01-01') | date_part('x', t)
to_timestamp('x') | to_timestamp('2024-13-01', 'yyyy-MM-dd') | date_format(t, 'u') | date_format(t, 'YYYY') | to_date(5)
to_timestamp(s, 'EEE') | unix_timestamp('2024-07-01') | to_date('12024-01-01', 'yyyy-MM-dd') | date_format(t, 'MMMMM')
"""


def _split(block: str) -> list[str]:
    return [text.strip() for line in block.strip().splitlines() for text in line.split(" | ")]


def table() -> pa.Table:
    rng = random.Random(5)

    def near() -> int:
        if rng.random() < 0.4:
            return (rng.choice(CHANGES) + rng.choice((-3600, -1800, -1, 0, 1, 1800, 3600, 7200, 90_000))) * 1_000_000
        return rng.randrange(-3_000_000_000_000_000, 5_000_000_000_000_000)

    days = [rng.choice((0, -1, 19_782, rng.randrange(-40_000, 60_000))) for _ in range(ROWS)]
    far_days = [rng.choice((rng.randrange(-(2**31), 2**31 - 1), rng.randrange(-1_000_000, 4_000_000))) for _ in days]
    columns: dict[str, list[Any]] = {
        "t": [near() + rng.choice((0, 0, 123_456, 500_000)) for _ in days],
        "u": [near() for _ in days],
        "far": [rng.randrange(-(2**63) + 400 * DAY_US, 2**63 - 400 * DAY_US) for _ in days],
        "d": days,
        "e": far_days,
        "i": [rng.randrange(-(2**31), 2**31) for _ in days],
        "n": [rng.randrange(-(10**15), 10**15) for _ in days],
        "x": [rng.uniform(-1e10, 1e10) for _ in days],
        "s": [TEXTS[place % len(TEXTS)] for place in range(ROWS)],
        "w": [rng.choice(("YEAR", "mm", "week", "Hour", "day", "bogus", "second", "quarter")) for _ in days],
    }
    schema = parse_schema(DDL)
    arrays = []
    for field in schema:
        values = [None if rng.random() < 0.05 else value for value in columns[field.name]]
        stored = {pa.date32(): pa.int32()}.get(field.type, field.type)
        stored = pa.int64() if pa.types.is_timestamp(field.type) else stored
        arrays.append(pa.array(values, stored).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


ROWS_TABLE = table()


def plain(column: Any) -> list[Any]:
    """Returns the values of a column; times, also those that Python does not have, are numbers."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(array.type) or array.type == DURATION:
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32()).to_pylist()
    return array.to_pylist()


def ours(texts: list[str], zone: str) -> tuple[list[str], list[list[Any]]]:
    with in_zone(zone_named(zone)):
        projection = compile_projection([f"{text} AS c{place}" for place, text in enumerate(texts)], ROWS_TABLE.schema)
    batch = ROWS_TABLE.combine_chunks().to_batches()[0]
    result = projection.evaluate(batch)
    empty = projection.evaluate(batch.slice(0, 0))
    assert empty.num_rows == 0
    return [spark_type_name(kind) for kind in projection.schema.types], [plain(column) for column in result.columns]


def theirs(spark: SparkSession, texts: list[str], zone: str) -> tuple[list[str], list[list[Any]]]:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    rows = session.createDataFrame(ROWS_TABLE)
    frame = rows.selectExpr(*(f"{text} AS c{place}" for place, text in enumerate(texts)))
    kinds = [field.dataType.simpleString() for field in frame.schema]
    return kinds, [plain(column) for column in frame.toArrow().columns]


def _without_fields(kind: str) -> str:
    """Returns the name of a type as streams have it: their day-time intervals have all fields."""
    return "interval day to second" if kind.startswith("interval") and "month" not in kind else kind


@pytest.mark.parametrize("zone", ZONES)
def test_values_and_types_are_sparks(spark: SparkSession, zone: str) -> None:
    texts = _split(EXPRESSIONS)
    kinds, values = theirs(spark, texts, zone)
    own_kinds, own_values = ours(texts, zone)
    wrong = []
    for place, text in enumerate(texts):
        if own_kinds[place] != _without_fields(kinds[place]):
            wrong.append((text, kinds[place], own_kinds[place]))
        pairs = zip(values[place], own_values[place], strict=True)
        found = [(row, a, b) for row, (a, b) in enumerate(pairs) if a != b]
        if found:
            row, a, b = found[0]
            wrong.append((text, len(found), ROWS_TABLE.slice(row, 1), f"spark {a}", f"ours {b}"))
    assert not wrong, wrong[:8]


def test_what_fails_in_spark_fails(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = session.createDataFrame(ROWS_TABLE.slice(0, 3))
    accepted = []
    for text in _split(FAILING):
        with pytest.raises((PySparkException, Py4JError)):
            rows.selectExpr(text).toArrow()
        try:
            ours([text], "America/New_York")
            accepted.append(text)
        except ExpressionError:
            pass
    assert not accepted


def zoned(timezone: str | None) -> App:
    app = App("zoned", timezone=timezone)
    rows = app.source("rows", sources.memory(ROWS_TABLE.select(["t", "d"])))
    kept = rows.filter("hour(t) < 12 AND t > timestamp '1950-01-01 00:00:00'")
    kept.select("cast(t as string) AS s", "hour(t) AS h", "cast(d as timestamp) AS m").sink(sinks.collect(), name="out")
    return app


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["s"], row["h"], str(row["m"])) for row in table.to_pylist())


def test_all_engines_have_the_zone_of_the_session_or_of_the_app(spark: SparkSession) -> None:
    expected = {}
    for zone in ("America/New_York", "Asia/Kathmandu"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        frame = session.createDataFrame(ROWS_TABLE.select(["t", "d"]))
        kept = frame.filter("hour(t) < 12 AND t > timestamp '1950-01-01 00:00:00'")
        expected[zone] = rows_of(
            kept.selectExpr("cast(t as string) AS s", "hour(t) AS h", "cast(d as timestamp) AS m").toArrow()
        )
    assert expected["America/New_York"] != expected["Asia/Kathmandu"]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with Cluster.on_spark(spark, workers=1) as cluster:
            for timezone, zone in ((None, "America/New_York"), ("Asia/Kathmandu", "Asia/Kathmandu")):
                assert rows_of(zoned(timezone).to_spark(spark).toArrow()) == expected[zone]
                for engine in ("actors", "microbatch"):
                    job = cluster.submit(zoned(timezone), engine=engine).wait(WAIT_S)
                    assert rows_of(job.results("out")) == expected[zone], (engine, zone)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(StrettoError, match="there is no time zone 'Mars/Olympus'"):
        App("mars", timezone="Mars/Olympus")
