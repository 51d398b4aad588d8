"""Verification: every kind of wrong answer is a mismatch with a witness, and another order of rows is not."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.bench.verify import Match, Side, Verdict, compare
from stretto.errors import UserError

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "price": 10.0, "at": datetime(2024, 1, 1, tzinfo=UTC)},
    {"id": 2, "name": "b", "price": None, "at": datetime(2024, 1, 2, tzinfo=UTC)},
    {"id": 2, "name": None, "price": math.nan, "at": datetime(2024, 1, 2, tzinfo=UTC)},
    {"id": 3, "name": "c", "price": -math.inf, "at": None},
    {"id": 3, "name": "c", "price": -math.inf, "at": None},
]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("price", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))]
)
EXPECTED = pa.Table.from_pylist(ROWS, schema=SCHEMA)


def with_rows(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def changed(index: int, **values: Any) -> pa.Table:
    return with_rows(*ROWS[:index], ROWS[index] | values, *ROWS[index + 1 :])


def counts(verdict: Verdict) -> tuple[Match, int, int]:
    return verdict.match, verdict.missing, verdict.extra


def test_any_order_of_rows_columns_and_chunks_matches() -> None:
    shuffled = pa.concat_tables([EXPECTED.slice(3), EXPECTED.slice(0, 3)]).select(["at", "price", "name", "id"])
    assert compare(shuffled, EXPECTED) == Verdict(Match.MATCH, 5, 5, 0, 0)
    assert compare(EXPECTED, shuffled).describe() == "match: 5 rows"


def test_a_wrong_row() -> None:
    verdict = compare(changed(0, name="z"), EXPECTED)
    assert counts(verdict) == (Match.MISMATCH, 1, 1)
    assert [(w.side, w.row["name"]) for w in verdict.witness] == [(Side.MISSING, "a"), (Side.EXTRA, "z")]
    assert "expected, but missing: id=1, name=a" in verdict.describe()
    assert "not expected: id=1, name=z" in verdict.describe()


def test_a_missing_row() -> None:
    verdict = compare(with_rows(*ROWS[1:]), EXPECTED)
    assert counts(verdict) == (Match.MISMATCH, 1, 0)
    assert verdict.witness[0].row == ROWS[0]


def test_an_extra_row() -> None:
    verdict = compare(with_rows(*ROWS, ROWS[0] | {"id": 9}), EXPECTED)
    assert counts(verdict) == (Match.MISMATCH, 0, 1)
    assert verdict.witness[0].row["id"] == 9


def test_a_repeated_row() -> None:
    assert counts(compare(with_rows(*ROWS, ROWS[0]), EXPECTED)) == (Match.MISMATCH, 0, 1)


def test_a_repeated_row_in_place_of_another() -> None:
    verdict = compare(with_rows(*ROWS[1:], ROWS[1]), EXPECTED)
    assert counts(verdict) == (Match.MISMATCH, 1, 1)


def test_a_duplicate_that_was_lost() -> None:
    assert counts(compare(with_rows(*ROWS[:4]), EXPECTED)) == (Match.MISMATCH, 1, 0)


@pytest.mark.parametrize(
    ("index", "values"),
    [
        (0, {"name": None}),
        (0, {"price": None}),
        (0, {"at": None}),
        (0, {"id": None}),
        (1, {"price": 0.0}),
        (1, {"price": math.nan}),
        (2, {"price": None}),
        (2, {"name": ""}),
        (3, {"price": math.inf}),
        (3, {"at": datetime(1970, 1, 1, tzinfo=UTC)}),
    ],
)
def test_a_wrong_null(index: int, values: dict[str, Any]) -> None:
    assert counts(compare(changed(index, **values), EXPECTED)) == (Match.MISMATCH, 1, 1)


@pytest.mark.parametrize("price", [10.0, 10.0 * (1 + 0.9e-9), 10.0 * (1 - 0.9e-9)])
def test_a_float_within_the_tolerance(price: float) -> None:
    assert compare(changed(0, price=price), EXPECTED).match is Match.MATCH


@pytest.mark.parametrize("price", [10.0 * (1 + 1.1e-9), 10.0 * (1 - 1.1e-9), -10.0, 0.0, math.inf])
def test_a_float_outside_the_tolerance(price: float) -> None:
    assert counts(compare(changed(0, price=price), EXPECTED)) == (Match.MISMATCH, 1, 1)


def test_nothing_but_zero_is_close_to_zero() -> None:
    zero = pa.table({"x": [0.0]})
    assert compare(pa.table({"x": [-0.0]}), zero).match is Match.MATCH
    assert compare(pa.table({"x": [1e-300]}), zero).match is Match.MISMATCH


def test_a_chain_of_close_floats_is_no_excuse_for_its_ends() -> None:
    step = 0.8e-9
    assert counts(compare(pa.table({"x": [1.0, 1 + step]}), pa.table({"x": [1 + 2 * step, 1 + step]}))) == (
        Match.MATCH,
        0,
        0,
    )
    far = compare(pa.table({"x": [1.0, 1 + step, 1.0]}), pa.table({"x": [1 + 2 * step, 1 + step, 1 + 2 * step]}))
    assert counts(far) == (Match.MISMATCH, 1, 1)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array(["1", "2"]), "id=string, expected int64"),
        (pa.array([1.0, 2.0]), "id=double, expected int64"),
        (pa.array([Decimal(1), Decimal(2)]), r"id=decimal128(1, 0), expected int64"),
        (pa.array([[1], [2]]), "id=list"),
    ],
)
def test_a_type_that_cannot_be_compared(column: pa.Array, text: str) -> None:
    verdict = compare(pa.table({"id": column}), pa.table({"id": pa.array([1, 2])}))
    assert counts(verdict) == (Match.MISMATCH, 2, 2)
    assert verdict.witness[0].side is Side.SCHEMA
    assert text in verdict.describe()


def test_a_time_without_a_zone_is_not_a_time_with_one() -> None:
    plain = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    zoned = pa.table({"at": pa.array([0], pa.timestamp("us", tz="UTC"))})
    assert compare(plain, zoned).match is Match.MISMATCH


def test_a_missing_and_an_unknown_column() -> None:
    verdict = compare(pa.table({"a": [1], "c": [1]}), pa.table({"a": [1], "b": [1]}))
    assert [w.row for w in verdict.witness] == [{"b": "missing, expected int64"}, {"c": "int64, not expected"}]


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (pa.array([1, 2], pa.int32()), pa.array([2, 1], pa.int64())),
        (pa.array(["a", None], pa.large_string()), pa.array([None, "a"], pa.string())),
        (pa.array(["a", None]).dictionary_encode(), pa.array([None, "a"], pa.string_view())),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float64())),
        (pa.array([Decimal("1.50")], pa.decimal128(24, 3)), pa.array([Decimal("1.5")], pa.decimal128(22, 1))),
        (pa.array([5], pa.timestamp("ms", tz="Asia/Tokyo")), pa.array([5000], pa.timestamp("us", tz="UTC"))),
        (pa.array([True, None]), pa.array([None, True])),
    ],
)
def test_types_that_differ_only_in_width_or_encoding(actual: pa.Array, expected: pa.Array) -> None:
    assert compare(pa.table({"x": actual}), pa.table({"x": expected})).match is Match.MATCH


def test_no_evidence_is_an_error() -> None:
    with pytest.raises(UserError, match="nothing to verify against"):
        compare(pa.table({}), pa.table({}))
    with pytest.raises(UserError, match="nothing to verify against"):
        compare(EXPECTED, pa.table({}))


def test_no_rows_match_but_say_so() -> None:
    verdict = compare(EXPECTED.slice(0, 0), EXPECTED.slice(0, 0))
    assert verdict.match is Match.MATCH
    assert "both sides are empty" in verdict.describe()
    assert counts(compare(EXPECTED.slice(0, 0), EXPECTED)) == (Match.MISMATCH, 5, 0)
    assert counts(compare(EXPECTED, EXPECTED.slice(0, 0))) == (Match.MISMATCH, 0, 5)


def test_columns_of_the_same_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(UserError, match="more than once"):
        compare(twice, pa.table({"a": [1]}))


def test_a_large_difference_keeps_a_few_witnesses() -> None:
    ids = np.arange(200_000)
    verdict = compare(pa.table({"id": ids + 100_000}), pa.table({"id": ids}))
    assert counts(verdict) == (Match.MISMATCH, 100_000, 100_000)
    assert len(verdict.witness) == 6
    assert verdict.rows_actual == verdict.rows_expected == 200_000


SMALL_ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "x", "y"]), st.sampled_from([None, True])),
    max_size=8,
)


@given(actual=SMALL_ROWS, expected=SMALL_ROWS)
def test_agrees_with_counters(actual: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    schema = pa.schema([("i", pa.int64()), ("s", pa.string()), ("b", pa.bool_())])
    tables = [
        pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        for rows in (actual, expected)
    ]
    verdict = compare(*tables)
    have, want = Counter(actual), Counter(expected)
    assert (verdict.missing, verdict.extra) == ((want - have).total(), (have - want).total())
    assert (verdict.match is Match.MATCH) == (have == want)
    for witness in verdict.witness:
        surplus = want - have if witness.side is Side.MISSING else have - want
        assert tuple(witness.row.values()) in surplus


# Steps of 0.4 of the tolerance, so that two steps are close and three are not.
LADDER = st.lists(st.integers(0, 9).map(lambda rung: 1 + rung * 0.4e-9), max_size=4)


@settings(max_examples=300)
@given(actual=LADDER, expected=LADDER)
def test_close_floats_are_paired_as_well_as_can_be(actual: list[float], expected: list[float]) -> None:
    short, long = sorted((actual, expected), key=len)
    best = max(
        sum(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(short, order, strict=False))
        for order in permutations(long)
    )
    schema = pa.schema([("x", pa.float64())])
    verdict = compare(*(pa.table({"x": values}, schema=schema) for values in (actual, expected)))
    assert (verdict.missing, verdict.extra) == (len(expected) - best, len(actual) - best)
