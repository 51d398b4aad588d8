"""Python functions in expressions: what they get, what they may return, and where they are known."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from stretto import App, Stream, pandas_udf, sinks, sources, udf
from stretto.errors import ExpressionError, FunctionError, PlanError
from stretto.expressions import compile_predicate, compile_projection, compile_scalar, parse_aggregate, parse_schema
from stretto.expressions.udf import Udf, knowing

SCHEMA = parse_schema("n bigint, s string, d decimal(10,2), at timestamp")
NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
BATCH = pa.RecordBatch.from_pylist(
    [
        {"n": 1, "s": "a", "d": Decimal("1.50"), "at": NOW},
        {"n": None, "s": None, "d": None, "at": None},
        {"n": 3, "s": "ccc", "d": Decimal("-2.25"), "at": NOW},
    ],
    schema=SCHEMA,
)


@udf("bigint")
def plus(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.add(left, right)


@udf("string")
def shout(text: pa.Array) -> pa.Array:
    return pc.utf8_upper(text)


@pandas_udf("double")
def halved(numbers: pd.Series) -> pd.Series:
    return numbers / 2


@pandas_udf("timestamp")
def tomorrow(times: pd.Series) -> pd.Series:
    return times + pd.Timedelta(days=1)


@udf("array<string>")
def letters(text: pa.Array) -> pa.Array:
    return pa.array([None if each is None else list(each) for each in text.to_pylist()], pa.list_(pa.string()))


KNOWN = {each.name: each for each in (plus, shout, halved, tomorrow, letters)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plus(n, n)", [2, None, 6]),
        ("PLUS(n, 10L) * 2", [22, None, 26]),
        ("plus(1L, 2L) + n", [4, None, 6]),
        ("shout(s)", ["A", None, "CCC"]),
        ("upper(shout(concat(s, 'x')))", ["AX", None, "CCCX"]),
        ("halved(n)", [0.5, None, 1.5]),
        ("coalesce(halved(n), -1D)", [0.5, -1.0, 1.5]),
        ("tomorrow(at)", [NOW + dt.timedelta(days=1), None, NOW + dt.timedelta(days=1)]),
        ("CASE WHEN n > 1 THEN plus(n, 1L) ELSE 0L END", [0, 0, 4]),
        ("letters(s)", [["a"], None, ["c", "c", "c"]]),
    ],
)
def test_a_function_is_part_of_an_expression(text: str, expected: list[Any]) -> None:
    with knowing(KNOWN):
        scalar = compile_scalar(text, SCHEMA)
    found = scalar.evaluate(BATCH)
    assert found.type == scalar.type
    assert found.to_pylist() == expected
    assert scalar.evaluate(BATCH.slice(2)).to_pylist() == expected[2:]
    assert scalar.evaluate(BATCH.slice(0, 0)).to_pylist() == []


def test_what_was_compiled_is_sent_with_its_functions() -> None:
    """The other process knows none of them by name."""
    with knowing(KNOWN):
        made = (
            compile_projection(["plus(n, n) AS twice", "s"], SCHEMA),
            compile_predicate("plus(n, 1L) > 2", SCHEMA),
            parse_aggregate("max(plus(n, 1L))", SCHEMA),
        )
    projection, predicate, aggregate = cloudpickle.loads(cloudpickle.dumps(made))
    assert projection.evaluate(BATCH).column("twice").to_pylist() == [2, None, 6]
    assert predicate.evaluate(BATCH).column("n").to_pylist() == [3]
    assert aggregate.argument.evaluate(BATCH).to_pylist() == [2, None, 4]
    assert aggregate.sql == "max(plus(n, 1L))"


def made(returns: str, function: Callable[..., Any], kind: Callable[..., Any] = udf) -> Udf:
    declared: Udf = kind(returns, name="f")(function)
    return declared


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (made("bigint", lambda n: n.slice(1)), ("returned 2 values for 3 rows",)),
        (made("bigint", lambda n: 5), ("returned int, not a pyarrow Array",)),
        (made("bigint", lambda n: None), ("returned NoneType, not a pyarrow Array",)),
        (made("bigint", lambda n: pc.cast(n, pa.string())), ("declared bigint and returned string",)),
        (made("int", lambda n: n), ("declared int and returned int64",)),
        (made("bigint", lambda n: 1 / 0), ("raised ZeroDivisionError", "lambda n: 1 / 0")),
        (made("bigint", lambda n: n.to_numpy(), pandas_udf), ("returned ndarray, not a pandas Series",)),
        (made("bigint", lambda n: n / 2, pandas_udf), ("returned a Series that is not bigint",)),
        (made("bigint", lambda n: n.head(1), pandas_udf), ("returned 1 values for 3 rows",)),
    ],
)
def test_a_wrong_result_names_the_function(function: Udf, parts: tuple[str, ...]) -> None:
    with knowing({"f": function}):
        scalar = compile_scalar("f(n)", SCHEMA)
    with pytest.raises(FunctionError) as caught:
        scalar.evaluate(BATCH)
    for part in ("function 'f' in an expression", *parts):
        assert part in str(caught.value)


def test_types_that_spark_does_not_have_become_those_it_has() -> None:
    wide = made("string", lambda s: pc.cast(s, pa.large_string()))
    nothing = made("bigint", lambda s: pa.nulls(len(s)))
    with knowing({"f": wide, "g": nothing}):
        assert compile_scalar("f(s)", SCHEMA).evaluate(BATCH).type == pa.string()
        assert compile_scalar("g(s)", SCHEMA).evaluate(BATCH).to_pylist() == [None] * 3


def bids(app: App) -> Stream:
    return app.source("rows", sources.memory(pa.Table.from_batches([BATCH])))


def test_an_app_knows_what_it_has_registered() -> None:
    app = App("app").register(plus, halved)
    stream = bids(app)
    stream.with_column("m", "Plus(n, n)").filter("halved(m) > 1").key_by("s").aggregate(top="max(plus(m, 1L))").sink(
        sinks.collect()
    )
    assert set(app.plan().udfs) == {"plus", "halved"}
    with pytest.raises(ExpressionError, match="unknown function plus"):
        bids(App("other")).filter("plus(n, n) > 1")
    with pytest.raises(ExpressionError, match=r"plus takes \(left, right\) in 'plus\(n\)'"):
        stream.filter("plus(n) > 1")
    with pytest.raises(ExpressionError, match="plus takes"):
        stream.filter("plus() > 1")
    assert plus(pa.array([1]), pa.array([2])).to_pylist() == [3]


@pytest.mark.parametrize(
    ("act", "kind", "part"),
    [
        (lambda: App("a").register(made("bigint", len), made("bigint", abs)), PlanError, "has a function 'f' already"),
        (lambda: App("a").register(udf("string", name="upper")(len)), PlanError, "a function of Spark SQL"),
        (lambda: App("a").register(udf("string", name="SUM")(len)), PlanError, "a function of Spark SQL"),
        (lambda: App("a").register(udf("string", name="cast")(len)), PlanError, "a function of Spark SQL"),
        (lambda: App("a").register(len), PlanError, "@stretto.udf"),  # type: ignore[arg-type]
        (lambda: udf("string")(lambda s: s), ExpressionError, "cannot be named '<lambda>'"),
        (lambda: udf("strin", name="f")(len), ExpressionError, "strin"),
        (lambda: udf(plus.function), PlanError, "udf takes the type that the function returns"),  # type: ignore[arg-type]
        (lambda: udf("string")(5), ExpressionError, "got int"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_a_function_is_refused(act: Callable[[], Any], kind: type[Exception], part: str) -> None:
    with pytest.raises(kind) as caught:
        act()
    assert part in str(caught.value)
