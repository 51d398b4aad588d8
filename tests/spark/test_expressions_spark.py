"""Expressions against Spark itself: the same text over the same rows must have the same values and types.

The pure twin, with results known by hand, is tests/unit/expressions.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stretto.errors import ExpressionError
from stretto.expressions import compile_predicate, compile_projection, parse_aggregate, parse_schema, spark_type_name

DDL = (
    "g int, b boolean, y tinyint, h smallint, i int, n bigint, f float, x double, d decimal(10,2), e decimal(38,10), "
    "s string, u string, dt date, t timestamp, tags array<string>, st struct<a:int,B:string>"
)
NAN = float("nan")


def _row(*values: Any) -> tuple[Any, ...]:
    return values


ROWS = [
    _row(0, True, 1, 100, 7, 123, 1.5, 2.5, Decimal("12.34"), Decimal("1.5"), "hello", "a,b,c", date(2024, 2, 29),
         datetime(2024, 2, 29, 12, 34, 56, 789000), ["x", "y"], (1, "p")),
    _row(0, False, -5, -300, -7, -246, -0.25, -1.005, Decimal("-0.05"), Decimal("-12345678901234567890.0123456789"),
         "  Wörld ", "", date(1969, 12, 31), datetime(1969, 12, 31, 23, 59, 59, 999500), [], (2, None)),
    _row(1, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    _row(1, True, 127, 32767, 2147483647, 9223372036854775807, 1e10, NAN, Decimal("99999999.99"),
         Decimal("0.0000000001"), "h%llo_x", "a", date(2000, 1, 31), datetime(2000, 1, 31), ["z"], (-3, "q")),
    _row(1, False, 0, 0, 3, 10, 0.1, 1e-5, Decimal("2.50"), Decimal("3"), "HELLO", ",,", date(2023, 12, 1),
         datetime(2023, 12, 1, 1, 2, 3), [None], (0, "r")),
    _row(2, None, 2, 25, 0, -25, -3.5, 1e20, Decimal("0.00"), Decimal("7.25"), "", "b,", date(1900, 3, 1),
         datetime(1900, 3, 1, 6, 7, 8, 5), ["p", "q", "r"], (5, "")),
]  # fmt: skip

SCALARS = """
0.908 | 1.50 | -1.50 | 1e3 | 1.5D | 2147483648 | -2147483648 | 9223372036854775808 | 5L | 3S | 2Y | 1.5BD | .5 | 1.
n * 0.908 | h * 0.908 | i + 0.5 | i - 1.25 | i / 0.3 | i % 0.3 | 5 * d | d * 5L | (2 + 3) * d | d * d | d + d | d - e
e + d | d / 3 | d / 7.7 | e * 0.5 | e * d | d % 0.7 | -d | abs(d) | cast(d as double) * 2 | d * x
y + i * 0 | y % 2Y | h * 2 | i % 4 | n % 123 | n % 123 = 0 | i / 4 | n / 2 | i div 2 | n div -7 | -y | -h | abs(h)
mod(h, 7) | pmod(h, 7) | pmod(n, -10) | pmod(d, 0.7) | pmod(x, 3D) | n % -5 | i * 0 | n - n | y * 0 + h
f * 2 | f + f | f * x | f / 2 | x / 3 | x % 2 | f % 0.7D | x * 0 | x - x | f + 1 | f * 2.5 | f + n
i > 3 | i = 3.0 | i >= 2.5 | n <> 10 | i < n | y <= h | x > 2 | x < 2 | x = x | x <> x | x >= x | x > 1e19 | f = 0.1
f > 1 | x > f | x <= f | d > 2 | d = 2.5 | d < i | d > x | d >= e | e = d | s = 'hello' | s < 'i' | s <> u | b = true
b < true | i <=> null | i <=> 3 | b <=> b | s <=> 'hello' | n == 10 | null = 1 | dt = t | dt < '2000-06-01'
t >= '2000-01-31 00:00:00' | t = timestamp '2000-01-31' | t between '1970-01-01' and '2024-01-01'
dt > date '1970-01-01' | t < timestamp '2024-02-29T12:34:56.789Z' | t > timestamp '2024-02-29 12:34:56 +01:00'
b and i > 0 | b or i > 0 | not b | b and null | b or null | null and false | not (b and x > 0) | b and not b
b is null
i is not null | s is null | b is true | b is not true | i in (3, 7) | i in (3, null) | i not in (3, 7)
n in (10, 123L)
i in (3.0, 7) | d in (2.5, 12.34) | s in ('hello', '') | s in ('hello', null) | s not in ('hello') | i in (g, y)
i between 0 and 7 | i not between 0 and 7 | d between 0 and 2.5 | s between 'a' and 'i' | x between 0 and 3
s like 'h%' | s like '%l_o%' | s like 'h\\\\%%' | s not like '%o' | s rlike '^[hH].*o$' | s not rlike 'l+' | s like ''
s like '%!%%' escape '!' | s ilike 'HELLO'
case when i > 3 then 'big' when i > 0 then 'small' else s end | case i when 7 then 1 when 3 then 2L end
case when b then i else d end | case when b then f else i end | case when i > 5 then dt else t end | if(b, 1, 2.5)
if(i = 0, 0D, n / i) | if(i = 0, null, n div i) | i <> 0 and n / i > 1 | i = 0 or n % i = 0 | coalesce(i, 0)
case when i is null then 'n' when i = 0 then 'z' when 100 div i > 20 then 'l' end | coalesce(i, d)
coalesce(s, 'none')
coalesce(b, false) | nvl(n, i) | coalesce(null, x, 1) | coalesce(t, dt) | nullif(i, 7) | nullif(s, '')
n / nullif(i, 0)
greatest(i, n) | least(i, n, 5) | greatest(d, i) | greatest(x, f) | least(x, 1) | greatest(s, u) | least(dt, t)
cast(i as bigint) | cast(h as decimal(10,2)) | cast(x as decimal(38,6)) | cast(d as int) | cast(d as decimal(12,1))
cast(i as double) | cast(d as float) | cast(b as int) | cast(i as boolean) | i::string | cast(d as string)
cast(f as string) | cast(x as string) | cast(e as string) | cast(t as string) | cast(dt as string) | cast(b as string)
cast(t as date) | cast(dt as timestamp) | cast(t as bigint) | cast(t as double) | cast(i as timestamp)
cast(n % 5 as tinyint)
cast('12' as int) | cast(' -7 ' as bigint) | cast('1.55' as decimal(5,1)) | cast('1e3' as double)
cast('yes' as boolean)
cast('2024-02-29' as date) | cast('2024-02-29 01:02:03.456789' as timestamp) | cast(s as binary)
cast(f as decimal(20,3))
cast(cast(g as string) as int) | cast(cast(d as string) as decimal(12,3)) | cast(cast(t as string) as timestamp)
int(d)
cast(cast(b as string) as boolean) | cast(cast(dt as string) as date) | cast(1577840523.5D as timestamp) | double(g)
round(d) | round(d, 1) | round(d, -1) | round(d, 5) | round(x, 2) | round(x) | round(f, 1) | round(y, 0) | round(i, 2)
round(n % 1000, -1) | floor(d) | ceil(d) | floor(f) | ceil(f) | floor(i) | ceil(n) | floor(e) | ceil(0.5) | round(2.5)
sqrt(i) | sqrt(d) | power(i, 2) | pow(2, 0.5) | exp(y / 100) | ln(i) | ln(x) | log10(d) | log2(i) | log(2, i)
sign(i)
sign(d) | signum(x) | exp(0)
length(s) | length(cast(s as binary)) | lower(s) | upper(s) | trim(s) | ltrim(s) | rtrim(s) | concat(s, u)
s || '-' || u
concat(s, null) | substring(s, 2, 3) | substr(s, -3) | substring(s, -10, 7) | substring(s, 0, 2) | substring(s, 2, -1)
substring(s, -3, 2) | replace(s, 'l', 'LL') | replace(s, 'l') | replace(s, '', 'x') | split_part(u, ',', 1)
split_part(u, ',', 2) | split_part(u, ',', -1) | split_part(u, ',', 9) | startswith(s, 'h') | endswith(s, 'o')
contains(s, 'll') | contains(s, '') | isnull(s) | isnotnull(s) | split_part(u, '', 1) | startswith(s, null)
year(t) | month(t) | day(t) | hour(t) | minute(t) | second(t) | year(dt) | day(dt) | hour(dt) | date_trunc('hour', t)
date_trunc('day', t) | date_trunc('week', t) | date_trunc('month', t) | date_trunc('QUARTER', t)
date_trunc('year', t)
date_trunc('minute', t) | date_trunc('SECOND', t) | date_trunc('millisecond', t) | date_trunc('day', dt)
unix_millis(t)
unix_micros(t) | unix_seconds(t) | timestamp_millis(i) | timestamp_micros(n) is null | timestamp_seconds(i)
t + interval 5 seconds | t - interval '5' minutes | t + interval 1 month | t - interval 1 year | interval 2 hours + t
dt + interval 1 day | dt + interval 1 month | dt + interval 3 hours | dt + 1 | dt - 31 | t + interval '1 day 2 hours'
t > timestamp '2000-01-01' - interval 1 day | t - timestamp '2000-01-01' > interval 5 days | t + interval 1 week
named_struct('k', i, 'v', s) | struct(i, s) | struct(i as a, 1) | st.a | st.b | st.A + 1 | size(tags)
array_size(tags)
named_struct('k', i).k | st | tags | i | S | `n` | cast(null as int) | null | true | 'it\\'s' | "text"
greatest(i, null)
n + 0L - 1 | (i + 1L) * 2 | d * 1.00 + 3 | -(i + 1L) | - 5 | 7 % -3 | -7 div 2 | 5.5 div 2 | null + 1 | i + null
null * 2.5
cast(5 as int) * d | round(2L, 2) + d | (5) * d | floor(5L) * d
f <=> f | x <=> double('NaN') | greatest(x, double('NaN')) | cast(x as float) | i between y and h | 1 in (1, 2, null)
case when b then tags end | case when b then st end | if(b, s, u)
"""

FAILING = """
e / d | y + h | h * h | i + y | round(h, -2) | e * e | 12345678901234567890.12 * e | cast(d as decimal(5,1))
n + 1 | i + 1 | y + 1Y | n * 2 | h * cast(2 as smallint) | 1 / i | n % i | n div i | d / 0 | 1.5 % 0.0 | x / 0 | x % 0
cast(n as int) | cast(i as tinyint) | cast(x as bigint) | cast(d as decimal(3,1)) | cast(s as int) | cast(s as date)
cast(s as double) | cast(s as boolean) | cast(s as timestamp) | cast(x as decimal(10,2)) | e * e * e | pmod(i, 0)
-cast(-9223372036854775808 as bigint) | abs(-2147483648) | round(i, -1) | floor(x) | timestamp_millis(n)
"""

PREDICATES = [
    "i > 3",
    "n % 123 = 0",
    "b",
    "b or i > 0",
    "not b",
    "s is null",
    "b and null",
    "true",
    "false",
    "x > 0 and d > 0",
]

AGGREGATES = [
    "count(*)", "count(1)", "count(i)", "count(distinct b)", "sum(i)", "sum(y)", "sum(f)", "sum(d)", "sum(d * 0.5)",
    "min(i)", "max(n)", "min(s)", "max(t)", "max(dt)", "min(d)", "avg(i)", "avg(d)", "mean(y)", "avg(e)", "sum(i % 5)",
    "top_k(i, 2)", "top_k(n, 1)", "top_k(s, 5)", "quantile(i, 0.5)", "percentile(h, 0.9)", "collect(i)", "sum(e)",
    "collect_list(s)", "max_by(s, i)", "min_by(i, t)", "count(distinct i % 2)", "quantile(d, 0.25)",
]  # fmt: skip


def _split(block: str) -> list[str]:
    return [text.strip() for line in block.strip().splitlines() for text in line.split(" | ")]


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    schema = parse_schema(DDL)
    columns = []
    for position, field in enumerate(schema):
        values = [row[position] for row in ROWS]
        if field.name == "st":
            values = [None if v is None else {"a": v[0], "B": v[1]} for v in values]
        columns.append(pa.array(values, field.type))
    return pa.record_batch(columns, schema=schema)


@pytest.fixture(scope="module")
def table(spark: SparkSession, batch: pa.RecordBatch) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).cache()


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        both_nan = math.isnan(mine) and math.isnan(theirs)
        return both_nan or mine == theirs or math.isclose(mine, theirs, rel_tol=1e-15)
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return list(mine) == list(theirs) and all(_same(mine[k], theirs[k]) for k in mine)
    return bool(mine == theirs)


def _spark_columns(table: DataFrame, sqls: list[str]) -> list[Any]:
    """Returns the type and values of each expression; halves the list when one fails, to find the failing one."""
    frame = table.selectExpr(*sqls)
    try:
        answer = frame.toArrow()
    except Exception as error:
        if len(sqls) == 1:
            return [error]
        middle = len(sqls) // 2
        return _spark_columns(table, sqls[:middle]) + _spark_columns(table, sqls[middle:])
    return [(kind, answer.column(i).to_pylist()) for i, (_, kind) in enumerate(frame.dtypes)]


def test_scalars_have_sparks_values_and_types(batch: pa.RecordBatch, table: DataFrame) -> None:
    texts = _split(SCALARS)
    assert len(texts) > 100
    wrong = []
    projected = []
    for number, text in enumerate(texts):
        try:
            projected.append(compile_projection([f"{text} AS c{number}"], batch.schema))
        except ExpressionError as error:
            wrong.append(f"{text}: {error}")
    answers = _spark_columns(table, [projection.sql[0] for projection in projected])
    for projection, theirs in zip(projected, answers, strict=True):
        text = projection.expressions[0]
        if isinstance(theirs, Exception):
            wrong.append(f"{text}: fails in Spark: {str(theirs)[:120]}")
            continue
        try:
            mine = projection.evaluate(batch)
        except ExpressionError as error:
            wrong.append(f"{text}: {error}")
            continue
        mine.validate(full=True)
        my_type = spark_type_name(mine.schema.field(0).type)
        if my_type.lower() != theirs[0].lower():
            wrong.append(f"{text}: type {my_type}, Spark's {theirs[0]}")
        values, expected = mine.column(0).to_pylist(), theirs[1]
        if not all(_same(a, b) for a, b in zip(values, expected, strict=True)):
            wrong.append(f"{text}:\n    {values}\n    Spark's {expected}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_names_of_bare_columns_are_sparks(batch: pa.RecordBatch, table: DataFrame) -> None:
    texts = ["i", "S", "st.a", "n AS `a b`", "dt AS x2"]
    assert compile_projection(texts, batch.schema).schema.names == table.selectExpr(*texts).columns


def test_what_fails_in_spark_fails_here(batch: pa.RecordBatch, table: DataFrame) -> None:
    wrong = []
    for text in _split(FAILING):
        with pytest.raises(Exception):  # noqa: B017, PT011 - any failure of Spark's will do
            table.selectExpr(f"{text} AS c").collect()
        refusal = _refusal(text, batch)
        if refusal is None or text.split("(")[0].strip().lower() not in refusal.lower():
            wrong.append(f"{text}: {refusal}")
    assert not wrong, "\n" + "\n".join(wrong)


def _refusal(text: str, batch: pa.RecordBatch) -> str | None:
    try:
        compile_projection([text], batch.schema).evaluate(batch)
    except ExpressionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("text", PREDICATES)
def test_predicates_keep_sparks_rows(text: str, batch: pa.RecordBatch, table: DataFrame) -> None:
    predicate = compile_predicate(text, batch.schema)
    mine = predicate.evaluate(batch).column("g").to_pylist()
    assert mine == [row.g for row in table.where(predicate.sql).select("g").collect()]


def test_aggregates_have_sparks_types_and_their_sql_runs(batch: pa.RecordBatch, table: DataFrame) -> None:
    calls = [parse_aggregate(text, batch.schema) for text in AGGREGATES]
    frame = table.groupBy("g").agg(*(_column(call.sql, number) for number, call in enumerate(calls)))
    types = dict(frame.dtypes)
    wrong = [
        f"{call.name}: type {spark_type_name(call.type)}, Spark's {types[f'c{number}']}"
        for number, call in enumerate(calls)
        if spark_type_name(call.type) != types[f"c{number}"]
    ]
    assert not wrong, "\n" + "\n".join(wrong)
    answers = {row.g: row for row in frame.collect()}
    groups: dict[int, pa.RecordBatch] = {
        g: compile_predicate(f"g = {g}", batch.schema).evaluate(batch) for g in answers
    }
    for number, call in enumerate(calls):
        for g, rows in groups.items():
            expected = answers[g][f"c{number}"]
            assert _same(_brute_force(call, rows), _plain(expected)), (call, g, expected)


def _column(sql: str, number: int) -> Any:
    from pyspark.sql.functions import expr

    return expr(sql).alias(f"c{number}")


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _brute_force(call: Any, rows: pa.RecordBatch) -> Any:
    """Returns the result of a call in plain Python, independent of its kernels."""
    if call.argument is None:
        return rows.num_rows
    raw = [_plain(value) for value in call.argument.evaluate(rows).to_pylist()]
    values = [value for value in raw if value is not None]
    if call.function == "count":
        return len(values)
    if call.function == "count_distinct":
        return len(set(values))
    if call.function in ("collect", "top_k"):
        ordered = sorted(values, reverse=call.function == "top_k")
        return ordered[: call.parameter] if call.parameter else ordered
    if call.function in ("max_by", "min_by"):
        pairs = [(o, v) for o, v in zip(call.ordering.evaluate(rows).to_pylist(), raw, strict=True) if o is not None]
        pick = max if call.function == "max_by" else min
        return pick(pairs, key=lambda pair: pair[0])[1] if pairs else None
    if not values:
        return None
    if call.function == "quantile":
        ordered = sorted(float(value) for value in values)
        place = call.parameter * (len(ordered) - 1)
        low, rest = int(place), place - int(place)
        return ordered[low] if not rest else (1 - rest) * ordered[low] + rest * ordered[low + 1]
    if call.function in ("sum", "avg") and pa.types.is_decimal(call.type):
        with localcontext(prec=60):
            total = sum(values) if call.function == "sum" else sum(values) / Decimal(len(values))
            return Decimal(total).quantize(Decimal(1).scaleb(-call.type.scale), "ROUND_HALF_UP")
    if call.function == "avg":
        return sum(values) / len(values)
    return {"sum": sum, "min": min, "max": max}[call.function](values)
