"""Every error names the expression and what is wrong with it."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError
from stretto.expressions import compile_predicate, compile_projection, compile_scalar, parse_aggregate, parse_schema
from stretto.expressions.aggregate_functions import FUNCTIONS


def _compile_and_run(text: str, schema: pa.Schema) -> None:
    """A constant that cannot be parsed, such as a bad timestamp, is an error when a row reaches it."""
    rows = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    compile_scalar(text, schema).evaluate(rows)


@pytest.mark.parametrize(
    ("text", "needles"),
    [
        ("prise > 3", ["unknown column 'prise'", "prise > 3", "price", "did you mean 'price'?"]),
        ("price >", ["cannot parse", "price >", "position 7"]),
        ("price + + )", ["cannot parse", "position 11", "')'"]),
        ("'open", ["'open"]),
        ("", ["empty"]),
        ("price; name", ["not one expression"]),
        ("price = t", ["price = t", "bigint", "timestamp"]),
        ("name + name", ["name + name", "string and string"]),
        ("price in (t)", ["bigint", "timestamp"]),
        ("if(true, price, t)", ["bigint", "timestamp"]),
        ("greatest(price, name)", ["bigint", "string"]),
        ("concat(name, tags)", ["array", "string"]),
        ("price and true", ["not a boolean", "'price' is bigint"]),
        ("not price", ["not a boolean"]),
        ("no_such(name)", ["unknown function no_such", "register a stretto.udf for other functions"]),
        ("uper(name)", ["unknown function uper", "did you mean upper?"]),
        ("iff(true, 1, 2)", ["unknown function iff", "did you mean if?"]),
        ("sum(price)", ["sum is an aggregate in 'sum(price)'", 'key_by("auction").aggregate(result="sum(...)")']),
        ("length(name, 2)", ["length takes 1 argument(s), not 2"]),
        ("st.z", ["no field 'z'", "a, B"]),
        ("price.z", ["bigint", "struct"]),
        ("map(1, tags) = map(2, tags)", ["cannot compare map<int,array<string>>"]),
        ("name like tags", ["expected string"]),
        ("cast(tags as int)", ["cannot cast array<string> to int"]),
        ("cast(price as nonsense)", ["nonsense"]),
        ("price in (select 1)", ["a query after IN is not supported", "position 1"]),
        ("sum(price) over (partition by name)", ["OVER (...) is not supported", "use a window of the stream"]),
        ("t + interval 5 eons", ["interval"]),
        ("name + interval 5 months", ["string"]),
        ("name rlike '(x'", ["a bad regular expression", "an unclosed group"]),
        ("name rlike '(?U)x'", ["(?U) is not supported in a regular expression"]),
        ("name like 'a' escape 'xy'", ["one character"]),
        ("'${x}'", ["${...}", "variable"]),
        ("*", ["a star is not supported", "name one column"]),
        ("0x1F", ["0x1F, a number of another dialect, is not supported", "conv('1F', 16, 10)"]),
        ("price isnull", ["ISNULL after a value is not supported", "position 7", "write IS NULL"]),
        ("price notnull", ["NOTNULL after a value is not supported", "write IS NOT NULL"]),
        ("price /*+ fast */ + 1", ["a hint is not supported", "position 7"]),
        ("timestamp_ntz'2026-01-01'", ["a literal of type TIMESTAMP_NTZ is not supported", "timestamp '2026"]),
        ("time '10:00'", ["a literal of type TIME is not supported"]),
        ("cast(price as string collate utf8_binary)", ["a type with COLLATE is not supported"]),
        ("current_date", ["the function current_date is not supported (clock)", "use the event time"]),
        ("dup", ["ambiguous", "dup, DUP"]),
        ("400Y", ["tinyint"]),
    ],
)
def test_refused_when_compiled(text: str, needles: list[str]) -> None:
    schema = pa.schema(
        [
            *parse_schema("price bigint, name string, tags array<string>, t timestamp, st struct<a:int,B:string>"),
            pa.field("dup", pa.int64()),
            pa.field("DUP", pa.int64()),
        ]
    )
    with pytest.raises(ExpressionError) as caught:
        _compile_and_run(text, schema)
    for needle in needles:
        assert needle in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("n + 1", "bigint overflow in 'n + 1'"),
        ("n * n", "bigint overflow in 'n * n'"),
        ("-(n + z - n - m)", "overflow"),
        ("y + 1Y", "tinyint overflow in 'y + 1Y'"),
        ("1 / z", "division by zero in '1 / z'"),
        ("1 % z", "remainder by zero in '1 % z'"),
        ("n div z", "division by zero"),
        ("2.5 / z", "division by zero"),
        ("x / z", "division by zero"),
        ("cast(n as int)", "cast overflow to int"),
        ("cast(s as int)", "cannot cast 'abc' to int"),
        ("cast(s as timestamp)", "cannot cast 'abc' to timestamp"),
        ("cast(d as decimal(3,1))", "decimal overflow"),
        ("abs(m)", "bigint overflow"),
        ("1 div 0", "division by zero"),
    ],
)
def test_refused_when_run(text: str, needle: str) -> None:
    rows = pa.record_batch(
        {
            "n": pa.array([2**63 - 1]),
            "m": pa.array([-(2**63)]),
            "y": pa.array([127], pa.int8()),
            "z": pa.array([0]),
            "x": pa.array([1.5]),
            "s": pa.array(["abc"]),
            "d": pa.array([12345]).cast(pa.decimal128(19, 0)),
        }
    )
    scalar = compile_scalar(text, rows.schema)
    if scalar.columns:
        assert scalar.evaluate(rows.slice(0, 0)).to_pylist() == []
    with pytest.raises(ExpressionError) as caught:
        scalar.evaluate(rows)
    assert needle in str(caught.value)
    assert "the expression" in str(caught.value)


def test_a_batch_of_another_schema_is_refused() -> None:
    scalar = compile_scalar("n + 1", pa.schema({"n": pa.int64()}))
    with pytest.raises(ExpressionError, match="int32"):
        scalar.evaluate(pa.record_batch({"n": pa.array([1], pa.int32())}))
    with pytest.raises(ExpressionError, match="no column"):
        scalar.evaluate(pa.record_batch({"m": pa.array([1])}))


@pytest.mark.parametrize("text", ["n = 1 or " * 3000 + "n = 2", "(" * 3000 + "n" + ")" * 3000])
def test_nesting_has_a_limit(text: str) -> None:
    with pytest.raises(ExpressionError, match="nests too deep"):
        compile_scalar(text, pa.schema({"n": pa.int64()}))


def test_predicates_must_be_boolean() -> None:
    with pytest.raises(ExpressionError, match="is not a boolean"):
        compile_predicate("n + 1", pa.schema({"n": pa.int64()}))


def test_projections_need_distinct_names() -> None:
    schema = pa.schema({"n": pa.int64()})
    with pytest.raises(ExpressionError, match="two columns are named"):
        compile_projection(["*", "n + 1 AS N"], schema)
    with pytest.raises(ExpressionError, match="a projection is a list"):
        compile_projection("n", schema)  # type: ignore[arg-type]
    with pytest.raises(ExpressionError, match="no columns"):
        compile_projection([], schema)


def test_a_refused_within_group_names_the_aggregates_that_take_it() -> None:
    with pytest.raises(ExpressionError, match=r"WITHIN GROUP after length\(...\)") as caught:
        compile_scalar("length(name) within group (order by name)", parse_schema("name string"))
    takes = sorted(name for name, definition in FUNCTIONS.items() if definition.takes_order)
    assert f"it belongs to {', '.join(takes)}, and these" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("summ(n)", "did you mean sum?"),
        ("histogram_numeric(n, 3)", "use a stretto.UserAggregate"),
        ("n + 1", "is not an aggregate"),
        ("sum(n) + 1", "is not an aggregate alone"),
        ("sum(b)", "sum needs numbers"),
        ("sum(n, n)", "takes 1 argument(s), not 2"),
        ("corr(distinct n, n)", "DISTINCT inside corr"),
        ("sum(max(n))", "the aggregate max inside sum is not supported"),
        ("count(*) FILTER (WHERE max(n) > 1)", "the aggregate max inside WHERE"),
        ("count(*) FILTER (WHERE n)", "FILTER (WHERE n) is not a condition"),
        ("count(*) FILTER (n > 1)", "WHERE is expected here"),
        ("count(*) FILTER (WHERE n > 1", "a parenthesis is not closed"),
        ("count(*) FILTER (WHERE n > 1) FILTER (WHERE n > 2)", "at position 31, near 'FILTER'"),
        ("sum(n) + (1", "at position 11, near '1'"),
        ("sum(n) IGNORE NULLS", "sum takes no IGNORE NULLS"),
        ("sum(n) WITHIN GROUP (ORDER BY n)", "sum takes no WITHIN GROUP"),
        ("sum(n) OVER (ORDER BY n)", "OVER (...) is not supported"),
        ("count(n) WITHIN GROUP (PARTITION BY n)", "ORDER BY is expected here"),
        ("percentile_disc(0.5) WITHIN GROUP (ORDER BY n)", "percentile_disc is not supported"),
        ("sum(n) / percentile_disc(0.5) WITHIN GROUP (ORDER BY n + (n))", "use percentile_approx(x, fraction)"),
        ("listag(s) WITHIN GROUP (ORDER BY n)", "WITHIN GROUP after listag(...) is not supported"),
        ("listagg(s) WITHIN GROUP (ORDER BY n) + + )", "near ')'"),
        ("histogram_numeric(n, 3) FILTER (WHERE b)", "histogram_numeric is not supported here: the state of a sketch"),
        ("product(n) FILTER (WHERE b)", "unknown aggregate product"),
        ("listagg(s) WITHIN GROUP (ORDER BY s NULLS FIRST)", "NULLS"),
        ("percentile_cont(0.5)", "percentile_cont has no order"),
        ("first(n, s)", "a flag is expected"),
        ("mode()", "mode takes an argument"),
        ("count_if(n)", "count_if needs a boolean"),
        ("bool_and(s)", "bool_and needs a boolean"),
        ("bit_and(s)", "bit_and needs whole numbers"),
        ("product(n)", "unknown aggregate product"),
        ("histogram_numeric(n, 3)", "histogram_numeric is not supported here: the state of a sketch"),
        ("count()", "takes 1 or more argument(s), not 0"),
        ("top_k(n, 0)", "whole number"),
        ("top_k(n, n)", "whole number"),
        ("quantile(n, 1.5)", "from 0 to 1"),
        ("max(zz)", "unknown column 'zz'"),
        ("sum(n AS m)", "an argument has no name of its own"),
        ("max_by(s, n DESC)", "leave out 'DESC'"),
    ],
)
def test_aggregates_refused(text: str, needle: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_aggregate(text, pa.schema({"n": pa.int64(), "s": pa.string(), "b": pa.bool_()}))
    assert needle in str(caught.value)


@pytest.mark.parametrize(
    "ddl",
    [
        "",
        "id",
        "id bigint, name",
        "id nonsense",
        "id bigint id2 int",
        "id decimal(50,2)",
        "a int, A int",
        "id int(5)",
        "id decimal(5,2,1)",
        "id array<int,int>",
        "id struct<a:int default 5>",
    ],
)
def test_schemas_refused(ddl: str) -> None:
    with pytest.raises(ExpressionError):
        parse_schema(ddl)
