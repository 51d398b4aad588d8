"""Aggregates against Spark's own groupBy over the same rows, and whole apps on every engine.

The pure twin, with results known from Spark, is tests/unit/operators/test_aggregate_functions.py.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from tests.waiting import WAIT_S

from stretto import App, Cluster, session, sinks, sources, tumbling
from stretto.actors.context import Context
from stretto.api.changes import last_by_key
from stretto.api.memory import CollectWriter
from stretto.errors import EngineError
from stretto.expressions import parse_aggregate, spark_type_name
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.operators.running import RunningAggregate
from stretto.runtime.microbatch import MicrobatchQuery

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

SPARK_SETTINGS = {"spark.sql.shuffle.partitions": "1"}
NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    {
        "k": pa.float64(),
        "g": pa.string(),
        "i": pa.int32(),
        "n": pa.int64(),
        "y": pa.int8(),
        "x": pa.float64(),
        "f": pa.float32(),
        "d": pa.decimal128(12, 2),
        "e": pa.decimal128(38, 6),
        "s": pa.string(),
        "b": pa.bool_(),
        "dt": pa.date32(),
        "t": pa.timestamp("us", tz="UTC"),
        "iv": pa.duration("us"),
        "st": pa.struct([("a", pa.int32()), ("c", pa.string())]),
        "ar": pa.list_(pa.int32()),
        "r": pa.int64(),
    }
)


def rows_of(count: int) -> pa.RecordBatch:
    """Returns rows with few keys, among them null, NaN and -0.0; doubles are quarters, so that sums are exact."""
    rng = Random(7)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    rows = [
        {
            "k": rng.choice([None, NAN, 0.0, -0.0, 1.5]),
            "g": rng.choice([None, "a", "b"]),
            "i": maybe(rng.randint(-9, 9)),
            "n": maybe(rng.choice([2**62, -(2**62), 5, 7, 2**53 + 1])),
            "y": maybe(rng.randint(-128, 127)),
            "x": maybe(rng.choice([NAN, INF, -0.0, 0.0]) if rng.random() < 0.1 else rng.randint(-40, 40) / 4),
            "f": maybe(rng.randint(-40, 40) / 4),
            "d": maybe(Decimal(rng.randint(-(10**6), 10**6)) / 100),
            "e": maybe(Decimal(rng.randint(-(10**30), 10**30)).scaleb(-6)),
            "s": maybe(rng.choice(["", "a", "B", "é", "𝔘", "zz"])),
            "b": maybe(rng.random() < 0.5),
            "dt": maybe(dt.date(2020, 1, 1) + dt.timedelta(rng.randint(-900, 900))),
            "t": maybe(dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randint(-900, 900))),
            "iv": maybe(dt.timedelta(microseconds=rng.randint(-(10**9), 10**9))),
            "st": maybe({"a": maybe(rng.randint(0, 2)), "c": maybe(rng.choice("pq"))}),
            "ar": maybe([maybe(rng.randint(0, 2)) for _ in range(rng.randint(0, 3))]),
            "r": number,
        }
        for number in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


ROWS = rows_of(300)

SAME = """
count(*) | count(1) | count(i) | count(i, s) | count(cast(null as int)) | count(all i) | count(DISTINCT i)
count(DISTINCT i, s) | count(DISTINCT k, x) | count(DISTINCT st) | count(DISTINCT ar) | count(DISTINCT x)
count(*) FILTER (WHERE i > 0) | count(i) FILTER (WHERE s IS NULL) | count(DISTINCT i) FILTER (WHERE b)
count(DISTINCT i, s) FILTER (WHERE b) | count(*) FILTER (WHERE false) | sum(i) FILTER (WHERE i % 2 = 0)
max(s) FILTER (WHERE s < 'b') | avg(d) FILTER (WHERE b)
collect_set(i) FILTER (WHERE b) | percentile(i, 0.5) FILTER (WHERE b) | sum(DISTINCT i) FILTER (WHERE b)
count_if(b) | count_if(i > 2) | count_if(i > 2) FILTER (WHERE b) | sum(i) | sum(y) | sum(f) | sum(d) | sum(e) | sum(iv)
sum(DISTINCT i) | sum(DISTINCT d) | sum(DISTINCT f) | avg(DISTINCT i) | avg(DISTINCT d) | sum(null) | avg(null)
avg(i) | avg(f) | avg(d) | avg(e) | avg(iv) | mean(i) | try_sum(i) | try_avg(n) | try_sum(e) | try_avg(e)
try_sum(iv) | sum(cast(i as string)) | avg(cast(i as string)) | sum(i * 2 + y)
min(i) | max(i) | min(x) | max(x) | min(f) | max(d) | min(e) | max(s) | min(s) | max(b) | min(b) | max(dt) | min(t)
max(iv) | max(st) | min(st) | max(ar) | min(ar) | max(struct(s, i)) | max(null) | max(DISTINCT i)
bool_and(b) | every(i > -9) | bool_or(b) | any(i > 8) | some(i > 8) | bool_and(null) | any(b) FILTER (WHERE i > 3)
bit_and(i) | bit_or(y) | bit_xor(n) | bit_and(null) | bit_xor(DISTINCT i) | bit_or(i) FILTER (WHERE i < 0)
stddev(i) | std(i) | stddev_samp(d) | stddev_pop(i) | variance(f) | var_samp(n) | var_pop(e) | skewness(i) | kurtosis(i)
stddev(x) | skewness(x) | var_pop(i) FILTER (WHERE i = 1) | stddev(DISTINCT i) | variance(cast(i as string))
kurtosis(i) FILTER (WHERE i = 1) | var_samp(null) | skewness(1) | stddev(0.1D)
covar_pop(i, f) | covar_samp(i, f) | corr(i, f) | corr(x, f) | corr(1, f) | regr_count(i, f) | regr_avgx(i, f)
regr_avgy(i, f) | regr_avgx(i, d) | regr_sxx(i, f) | regr_syy(i, f) | regr_sxy(i, f) | regr_slope(i, f)
regr_intercept(i, f) | regr_r2(i, f) | regr_r2(1, f) | regr_slope(f, 1) | regr_count(i, null)
collect_list(i) | array_agg(s) | collect_set(s) | collect_set(i) | collect_set(st) | collect_list(DISTINCT i)
collect_set(dt) | collect_list(st) | collect_set(d) | collect_set(k)
median(i) | median(d) | percentile(f, 0.3) | percentile(n, 0.5) | percentile(i, 0) | percentile(i, 1.0)
percentile(cast(i as string), 0.5) | percentile_cont(0.25) WITHIN GROUP (ORDER BY i)
percentile_approx(i, 0.5) | percentile_approx(f, 0.33) | approx_percentile(d, 0.9, 1000) | percentile_approx(t, 0.5)
percentile_approx(dt, 0.1) | percentile(i, array(0.1, 0.9)) | percentile_approx(i, array(0.25, 0.5))
percentile_approx(i, 0) | percentile_approx(i, 1)
mode(i, true) | mode(s, true) | mode(dt, true) | mode(st, true) | mode() WITHIN GROUP (ORDER BY i DESC)
max_by(s, r) | min_by(i, r) | max_by(st, r) | max_by(s, r) FILTER (WHERE b) | min_by(r, struct(t, r)) | max_by(i, x)
listagg(s, ',') WITHIN GROUP (ORDER BY s) | string_agg(s) WITHIN GROUP (ORDER BY s DESC)
listagg(DISTINCT s, '-') WITHIN GROUP (ORDER BY s) | listagg(s, ',') WITHIN GROUP (ORDER BY r DESC) FILTER (WHERE b)
listagg(i) WITHIN GROUP (ORDER BY i) | approx_count_distinct(i) | approx_count_distinct(s, 0.01)
"""
SAME_TEXTS = [text.strip() for line in SAME.strip().splitlines() for text in line.split(" | ")]
OTHERS = [
    "top_k(i, 3)",
    "quantile(d, 0.25)",
    "collect(s)",
    "mode(i)",
    "any_value(i)",
    "any_value(s, true)",
    "try_sum(n)",
    "listagg(s, ',')",
    "string_agg(DISTINCT i, '-')",
]
"""Of these Spark's own text has another answer, or none: only the SQL that stands for them is compared."""
KEYS = [("k",), ("g",), ("k", "g"), ()]
UNSORTED = ("collect_list", "array_agg", "collect_set")


def test_every_function_is_compared() -> None:
    names = {text.partition("(")[0] for text in (*SAME_TEXTS, *OTHERS)}
    assert names <= FUNCTIONS.keys()
    expected = {"first", "first_value", "last", "last_value"}  # By event time, in the app below.
    assert FUNCTIONS.keys() - names == expected


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([ROWS])).coalesce(1).cache()


@pytest.mark.parametrize("keys", KEYS, ids=["double", "string", "both", "none"])
def test_answers_are_sparks(keys: tuple[str, ...], frame: DataFrame) -> None:
    texts = [*SAME_TEXTS, *OTHERS] if len(keys) == 1 else SAME_TEXTS[::3]
    calls = [parse_aggregate(text, SCHEMA, f"v{place}") for place, text in enumerate(texts)]
    mine = by_key(running(keys, calls), len(keys))
    expected, kinds = grouped(frame, keys, {call.name: call.sql for call in calls})
    for call, text in zip(calls, texts, strict=True):
        assert spark_type_name(call.type) == kinds[call.name], text
    assert mine.keys() == expected.keys()
    different = [
        (text, key, mine[key][call.name], row[call.name])
        for key, row in expected.items()
        for call, text in zip(calls, texts, strict=True)
        if not same(mine[key][call.name], row[call.name])
    ]
    assert different == []


def grouped(frame: DataFrame, keys: tuple[str, ...], sqls: dict[str, str]) -> tuple[dict[Any, Any], dict[str, str]]:
    """Returns Spark's rows by key, and its types. Several DISTINCT in one query would take long."""
    rows: dict[Any, dict[str, Any]] = {}
    kinds: dict[str, str] = {}
    distinct = {name for name, sql in sqls.items() if "DISTINCT" in sql}
    for names in (sqls.keys() - distinct, *({name} for name in sorted(distinct))):
        selected = frame.groupBy(*keys).agg(*(expr(sqls[name]).alias(name) for name in names))
        kinds.update(selected.dtypes)
        for key, row in by_key(selected.toArrow().to_pylist(), len(keys)).items():
            rows.setdefault(key, {}).update(row)
    return rows, kinds


def test_the_sql_of_a_call_means_what_its_text_means(frame: DataFrame) -> None:
    texts = [text for text in SAME_TEXTS if not text.startswith("max_by(i, x)")]
    calls = [parse_aggregate(text, SCHEMA, f"v{place}") for place, text in enumerate(texts)]
    by_sql, kinds = grouped(frame, ("g",), {call.name: call.sql for call in calls})
    by_text, same_kinds = grouped(frame, ("g",), {call.name: text for call, text in zip(calls, texts, strict=True)})
    assert kinds == same_kinds
    for key, row in by_text.items():
        for call, text in zip(calls, texts, strict=True):
            found, expected = by_sql[key][call.name], row[call.name]
            if text.startswith(UNSORTED):
                found, expected = sorted(found, key=repr), sorted(expected, key=repr)
            assert same(found, expected), (text, key, found, expected)


def running(keys: tuple[str, ...], calls: list[Any]) -> list[dict[str, Any]]:
    """Returns the last row of each key of a running aggregate, over rows in several batches."""
    function = RunningAggregate(SCHEMA, keys, tuple(calls))
    function.bind_states()
    ctx = Context("job", "fn", 0, 1, {"out": function.schema})
    for start in range(0, ROWS.num_rows, 110):
        function.process(ROWS.slice(start, 110), ctx)
    return [row for _, batch in ctx.sent for row in pa.Table.from_batches([batch]).to_pylist()]  # type: ignore[list-item]


def by_key(rows: list[dict[str, Any]], keys: int) -> dict[Any, dict[str, Any]]:
    return {repr(list(row.values())[:keys]): row for row in rows}


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return mine == theirs or (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-9)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    return bool(mine == theirs)


# Whole apps.

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
BIDS = [
    {
        "at": START + dt.timedelta(seconds=number * 7 % 100),
        "auction": number % 4,
        "bidder": ["Ann", "Bob", "Cid"][number % 3],
        "price": None if number % 11 == 0 else number * 37 % 101,
    }
    for number in range(200)
]
BID = "at timestamp, auction bigint, bidder string, price bigint"


TEXTS = [
    "count(*) FILTER (WHERE price < 50) AS cheap",
    "sum(price) / count(*) AS mean",
    "max(price) - min(price) AS spread",
    "round(avg(price), 2)",
    "count(*) > 10 AS busy",
    "first(price) AS opening",
    "last(price, true) AS closing",
    "stddev(price) AS deviation",
    "count(DISTINCT bidder, price % 2) AS pairs",
]


def app_of(name: str, sinks_of: tuple[str, ...], *more: str) -> App:
    """Returns an app with some of four sinks; `more` are further aggregates of each."""
    app = App(name)
    bids = app.source("bids", sources.memory(BIDS, BID), time="at", delay="200 s")
    texts = [*TEXTS, *more]

    def keyed() -> Any:
        return bids.key_by("auction", "lower(bidder)")

    made = {
        "windows": lambda: keyed().window(tumbling("10 s")).aggregate(*texts, name="w"),
        "sessions": lambda: keyed().window(session("3 s")).aggregate(*texts),
        "totals": lambda: bids.key_by("price % 3 AS third").aggregate(*texts, "third + count(*) AS more"),
        "all": lambda: bids.aggregate(*texts),
    }
    for sink in sinks_of:
        made[sink]().sink(sinks.collect(), name=sink)
    return app


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Returns rows in order, with doubles to twelve digits."""
    rows = [
        tuple(float(f"{value:.12g}") if isinstance(value, float) else value for value in row.values())
        for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


def test_actors_agree_with_the_batch_twin(spark: SparkSession) -> None:
    names, distinct = ("windows", "sessions", "totals", "all"), "sum(DISTINCT price) AS different"
    twin = app_of("batch", names, distinct)
    tables = {name: twin.to_spark(spark, name).toArrow() for name in names}
    assert tables["all"].num_rows == 1
    assert "lower(bidder)" in tables["windows"].column_names
    with Cluster.on_spark(spark, workers=2) as cluster:
        job = cluster.submit(app_of("actors", names, distinct), engine="actors").wait(WAIT_S)
        for name in names:
            found = job.results(name)
            assert found.column_names == tables[name].column_names
            assert sorted_rows(found) == sorted_rows(tables[name]), name


@pytest.mark.parametrize("name", ["windows", "all"])
def test_micro_batches_agree_with_the_batch_twin(name: str, spark: SparkSession, tmp_path: Path) -> None:
    expected = app_of("batch", (name,)).to_spark(spark, name).toArrow()
    app = app_of("micro", (name,))
    made = MicrobatchQuery(app.name, app.plan(), spark, parallelism=1, directory=str(tmp_path))
    made.start()
    assert made.wait(WAIT_S)
    assert made.error is None, str(made.error)
    writer = made.writers[name]
    assert isinstance(writer, CollectWriter)
    found = writer.table() if name == "windows" else last_by_key(writer.table(), ())
    assert found.column_names == expected.column_names
    assert sorted_rows(found) == sorted_rows(expected)


def test_what_has_no_relational_form_is_refused_by_name(spark: SparkSession) -> None:
    app = App("arrival")
    app.source("bids", sources.memory(BIDS, BID)).key_by("auction").aggregate("first(price) AS f").sink(sinks.collect())
    with pytest.raises(EngineError, match=r"'f' of 'bids\.aggregate' depends on the order of arrival"):
        app.to_spark(spark)
