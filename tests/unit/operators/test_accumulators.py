"""Aggregate functions over one window, with the results of Spark SQL 4 (ANSI mode)."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.errors import ExpressionError, FunctionError, PlanError
from stretto.expressions import parse_aggregate
from stretto.operators.accumulators import accumulator
from stretto.operators.grouping import Groups, concat_columns
from stretto.operators.user_aggregate import UserAggregate

NAN = float("nan")


def results(text: str, kind: pa.DataType, groups: list[list[Any]], **more: Any) -> list[Any]:
    """Returns one result per group. Partials of single rows, of halves and of all rows at once must agree on it."""
    answers = results_in_parts(text, kind, groups, **more)
    for answer in answers[1:]:
        assert repr(answer) == repr(answers[0])
    return answers[0]


def results_in_parts(text: str, kind: pa.DataType, groups: list[list[Any]], **more: Any) -> list[list[Any]]:
    """Returns one result per group, from partials of all rows at once, of halves, and of single rows."""
    schema = pa.schema({"x": kind, **{name: column.type for name, column in more.items()}})
    call = parse_aggregate(text, schema)
    acc = accumulator(call)
    index = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    columns = {"x": pa.array([value for group in groups for value in group], kind), **more}
    batch = pa.record_batch(columns, schema=schema)
    inputs = [expression.evaluate(batch) for expression in (call.argument, call.ordering) if expression is not None]
    answers = []
    for parts in (1, min(2, len(index)), len(index)):
        numbers = [np.flatnonzero(np.arange(len(index)) % parts == part) for part in range(parts)]
        present = [np.unique(index[rows], return_inverse=True) for rows in numbers if len(rows)]
        lifted = [
            acc.lift(Groups(inverse, len(found)), [column.take(pa.array(rows)) for column in inputs])
            for rows, (found, inverse) in zip(numbers, present, strict=True)
        ]
        merged = [concat_columns(pieces) for pieces in zip(*lifted, strict=True)]
        together = acc.merge(Groups(np.concatenate([found for found, _ in present]), len(groups)), merged)
        finished = acc.finish(together)
        assert finished.type == call.type
        answers.append(finished.to_pylist())
    return answers


@pytest.mark.parametrize(
    ("text", "kind", "values", "expected"),
    [
        ("count(*)", pa.int64(), [1, None, 3], 3),
        ("count(x)", pa.int64(), [1, None, 3], 2),
        ("count(x)", pa.string(), [None], 0),
        ("sum(x)", pa.int32(), [2**31 - 1, 2**31 - 1], 2**32 - 2),
        ("sum(x)", pa.int64(), [None, None], None),
        ("sum(x)", pa.int64(), [2**62, -(2**62), 2**62, None], 2**62),
        ("sum(x)", pa.int64(), [-(2**63)], -(2**63)),
        ("sum(x)", pa.float32(), [0.5, 0.25], 0.75),
        ("sum(x)", pa.float64(), [None], None),
        ("sum(x)", pa.decimal128(5, 2), [Decimal("1.10"), None, Decimal("-3.05")], Decimal("-1.95")),
        (
            "sum(x)",
            pa.decimal128(38, 2),
            [Decimal("9e30"), Decimal("0.01")],
            Decimal("9000000000000000000000000000000.01"),
        ),
        ("avg(x)", pa.int64(), [1, None, 2], 1.5),
        ("avg(x)", pa.int64(), [None], None),
        ("avg(x)", pa.decimal128(5, 2), [Decimal("1.01"), Decimal("1.02"), Decimal("1.02")], Decimal("1.016667")),
        ("avg(x)", pa.decimal128(5, 2), [Decimal("-0.01"), Decimal("-0.02")], Decimal("-0.015000")),
        ("avg(x)", pa.decimal128(5, 2), [None], None),
        ("min(x)", pa.int8(), [3, None, -4], -4),
        ("max(x)", pa.int64(), [None], None),
        ("max(x)", pa.float64(), [1.0, math.inf], math.inf),
        ("max(x)", pa.string(), ["b", None, "é", "a"], "é"),
        ("min(x)", pa.string(), ["b", None, "", "a"], ""),
        ("max(x)", pa.bool_(), [False, True, None], True),
        ("min(x)", pa.bool_(), [False, True, None], False),
        ("min(x)", pa.decimal128(5, 2), [Decimal("1.50"), Decimal("-2.50")], Decimal("-2.50")),
        ("max(x)", pa.date32(), [date(2020, 1, 1), date(2021, 1, 1)], date(2021, 1, 1)),
        ("max(x)", pa.timestamp("us", "UTC"), [datetime(2020, 1, 1, tzinfo=UTC)], datetime(2020, 1, 1, tzinfo=UTC)),
        ("max(x)", pa.binary(), [b"a", b"\xff", None], b"\xff"),
        ("count(distinct x)", pa.float64(), [NAN, NAN, 1.0, 0.0, -0.0], 3),
        ("count(distinct x)", pa.string(), ["a", None, "a", "b"], 2),
        ("count(distinct x)", pa.string(), [None], 0),
        ("quantile(x, 0.5)", pa.int64(), [1, 2, 4, None, 3], 2.5),
        ("quantile(x, 0.3)", pa.int32(), [10, 20, 30], 16.0),
        ("quantile(x, 1)", pa.decimal128(5, 2), [Decimal("1.25"), Decimal("0.25")], 1.25),
        ("quantile(x, 0.5)", pa.float64(), [math.inf, math.inf, 1.0], math.inf),
        ("quantile(x, 0.5)", pa.int64(), [None], None),
        ("collect(x)", pa.int64(), [3, None, 1, 3], [1, 3, 3]),
        ("collect(x)", pa.string(), ["b", "a", None], ["a", "b"]),
        ("collect(x)", pa.string(), [None], []),
        ("top_k(x, 2)", pa.int64(), [3, None, 1, 3], [3, 3]),
        ("top_k(x, 5)", pa.string(), ["a", "c", "b"], ["c", "b", "a"]),
    ],
)
def test_one_group(text: str, kind: pa.DataType, values: list[Any], expected: Any) -> None:
    assert results(text, kind, [values]) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max(x)", [NAN, 2.0, NAN]),
        ("min(x)", [1.0, 2.0, NAN]),
        ("quantile(x, 0.9)", [NAN, 2.0, NAN]),
        ("top_k(x, 1)", [[NAN], [2.0], [NAN]]),
        ("collect(x)", [[1.0, NAN], [2.0, 2.0], [NAN]]),
    ],
)
def test_nan_is_the_greatest_number(text: str, expected: list[Any]) -> None:
    assert repr(results(text, pa.float64(), [[NAN, 1.0], [2.0, 2.0, None], [NAN]])) == repr(expected)


def test_groups_keep_to_themselves() -> None:
    groups = [[5, 1, None], [None], [7, 7, 8, -9]]
    assert results("sum(x)", pa.int64(), groups) == [6, None, 13]
    assert results("max(x)", pa.int64(), groups) == [5, None, 8]
    assert results("count(distinct x)", pa.int64(), groups) == [2, 0, 3]
    assert results("collect(x)", pa.int64(), groups) == [[1, 5], [], [-9, 7, 7, 8]]


def test_by_another_column() -> None:
    by = pa.array([1, 9, None, 4, 4, 2, None], pa.int64())
    groups = [["a", "b", "c"], ["x", "y", None], ["z"]]
    assert results("max_by(x, y)", pa.string(), groups, y=by) == ["b", "y", None]
    assert results("min_by(x, y)", pa.string(), groups, y=by) == ["a", None, None]


def test_of_values_that_tie_the_order_of_arrival_decides_nothing() -> None:
    by = pa.array([1.0, NAN, NAN, 0.0, -0.0])
    assert results("max_by(x, y)", pa.string(), [["a", "c", "b"], ["d", "e"]], y=by) == ["c", "e"]
    assert results("min_by(x, y)", pa.string(), [["a", "c", "b"], ["d", "e"]], y=by) == ["a", "d"]


def test_a_sum_that_overflows_raises() -> None:
    with pytest.raises(ExpressionError, match="bigint"):
        results("sum(x)", pa.int64(), [[2**63 - 1, 1]])
    with pytest.raises(ExpressionError, match="decimal"):
        results("sum(x)", pa.decimal128(38, 0), [[Decimal(9 * 10**37), Decimal(9 * 10**37)]])


def counting(**parts: Any) -> UserAggregate:
    functions: dict[str, Any] = {
        "init": lambda: 0,
        "add": lambda acc, rows: acc + rows.num_rows,
        "combine": lambda mine, theirs: mine + theirs,
        "finish": lambda acc: acc,
    }
    return UserAggregate(**{**functions, **parts}, type=pa.int64(), columns=("x",), name="rows")


def test_a_users_aggregate_gets_the_rows_of_its_group_in_order() -> None:
    seen = []
    acc = accumulator(counting(add=lambda acc, rows: seen.append(rows.to_pydict()) or acc + rows.num_rows))
    partials = acc.lift(Groups(np.array([1, 0, 1]), 2), [pa.array([7, 8, 6])])
    assert seen == [{"x": [8]}, {"x": [7, 6]}]
    assert acc.finish(partials).to_pylist() == [1, 2]


def test_a_users_aggregate_that_changes_its_first_argument_does_not_spoil_other_windows() -> None:
    acc = accumulator(counting(init=list, combine=lambda mine, theirs: mine.extend(theirs) or mine, finish=len))
    partials = np.fromiter([[1], [2], [3]], object, 3)
    for _ in range(2):
        merged = acc.merge(Groups(np.array([0, 0, 0]), 1), [partials])
        assert acc.finish(merged).to_pylist() == [3]


def test_errors_in_a_users_aggregate_are_reported() -> None:
    broken = accumulator(counting(add=lambda acc, rows: 1 / 0))
    with pytest.raises(FunctionError, match=r"(?s)`add` of the aggregate 'rows' raised.*ZeroDivisionError"):
        broken.lift(Groups(np.array([0]), 1), [pa.array([1])])
    for value in ("many", 1.5, 2**70, object(), [1]):
        mistyped = accumulator(counting(finish=lambda acc, value=value: value))
        with pytest.raises(FunctionError, match="wrong type"):
            mistyped.finish(mistyped.lift(Groups(np.array([0]), 1), [pa.array([1])]))
    with pytest.raises(PlanError, match="reads no column"):
        accumulator(UserAggregate(list, list, list, list, pa.int64(), ()))
