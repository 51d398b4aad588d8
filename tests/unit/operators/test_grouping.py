"""Grouping by keys of every type, with each way to compute group numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.operators.grouping import Groups, group, order_codes, order_within

NAN = float("nan")


def members(groups: Groups) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(groups.count)]
    for row, number in enumerate(groups.index.tolist()):
        found[number].append(row)
    for number, rows in enumerate(found):
        assert groups.sample[number] in rows
        assert groups.order[groups.starts[number] : groups.starts[number + 1]].tolist() == rows
    assert groups.sizes.tolist() == [len(rows) for rows in found]
    return sorted(found)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([5, -7, 5, None, None]),
        pa.array([2**62, -(2**63), 2**62, None, None]),
        pa.array([10**15, 0, 10**15, None, None]),
        pa.array([1, 2, 1, None, None], pa.int8()),
        pa.array([2**64 - 1, 2, 2**64 - 1, None, None], pa.uint64()),
        pa.array([NAN, 1.5, NAN, None, None]),
        pa.array([0.0, 1.5, -0.0, None, None], pa.float32()),
        pa.array(["a", "b", "a", None, None]),
        pa.array(["a", "b", "a", None, None]).dictionary_encode(),
        pa.array([b"", b"b", b"", None, None], pa.large_binary()),
        pa.array([True, False, True, None, None]),
        pa.array([Decimal("1.5"), Decimal("2"), Decimal("1.50"), None, None], pa.decimal128(9, 2)),
        pa.array([1, 2, 1, None, None], pa.timestamp("ms")),
        pa.array([{"a": 1}, {"a": None}, {"a": 1}, None, None]),
        pa.array([[1], [1, 2], [1], None, None]),
    ],
    ids=lambda column: str(column.type),
)
def test_equal_values_and_nulls_make_groups(column: pa.Array) -> None:
    assert members(group([column], 5)) == [[0, 2], [1], [3, 4]]
    shifted = pa.concat_arrays([column, column]).slice(5) if not pa.types.is_dictionary(column.type) else column
    assert members(group([shifted], 5)) == [[0, 2], [1], [3, 4]]


def test_several_columns_with_a_leading_one() -> None:
    ids, names = pa.array([1, 1, 2, 1, 2]), pa.array(["a", "b", "a", "a", "a"])
    assert members(group([ids, names], 5)) == [[0, 3], [1], [2, 4]]
    groups = group([ids, names], 5, np.array([9, -4, -4, 9, 2**60]))
    assert members(groups) == [[0, 3], [1], [2], [4]]
    assert np.array([9, -4, -4, 9, 2**60])[groups.sample].tolist() == [-4, -4, 9, 2**60]


def test_wide_ranges_do_not_overflow() -> None:
    wide = [pa.array([-(2**63), 2**63 - 1, 0, -(2**63)]) for _ in range(3)]
    assert members(group(wide, 4, np.array([2**63 - 1, -(2**63), 0, 2**63 - 1]))) == [[0, 3], [1], [2]]


def test_no_columns_make_one_group_and_no_rows_none() -> None:
    assert members(group([], 3)) == [[0, 1, 2]]
    assert group([], 0).count == 0
    assert group([pa.array([], pa.string())], 0).count == 0
    assert group([pa.array([], pa.int64())], 0, np.array([], np.int64)).count == 0


@pytest.mark.parametrize(
    "ascending",
    [
        pa.array([None, -(2**63), -1, 2**63 - 1]),
        pa.array([None, float("-inf"), -0.5, 0.0, 2.0, float("inf"), NAN]),
        pa.array([None, "", "a", "aa", "b", "é"]),
        pa.array([None, False, True]),
        pa.array([None, Decimal("-2.5"), Decimal("0"), Decimal("10")], pa.decimal128(9, 2)),
        pa.array([None, {"a": None}, {"a": 1}]),
    ],
    ids=lambda column: str(column.type),
)
def test_codes_have_the_order_of_the_values(ascending: pa.Array) -> None:
    shuffle = np.random.default_rng(1).permutation(np.repeat(np.arange(len(ascending)), 2))
    codes = order_codes(ascending.take(pa.array(shuffle)))
    assert (np.argsort(codes, kind="stable") == np.argsort(shuffle, kind="stable")).all()


@pytest.mark.parametrize("values", [[3, 1, 2, 0], [2**63 - 1, -(2**63), 5, 4]])
def test_rows_sorted_within_groups(values: list[Any]) -> None:
    groups = Groups(np.array([1, 1, 0, 0]), 2)
    assert order_within(groups, np.array(values)).tolist() == [3, 2, 1, 0]


def test_wide_ranges_in_two_columns_do_not_overflow() -> None:
    """Two columns whose ranges are too wide together: their product is computed from dense codes."""
    numbers = [0, 1, 2, 3, 4, 0]
    values = [0, 2**62 - 1, 5, 6, 0, 0]
    groups = group([pa.array(values)], len(values), np.array(numbers, np.int64))
    assert members(groups) == [[0, 5], [1], [2], [3], [4]]
