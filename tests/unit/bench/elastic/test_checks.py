"""Checks of answers: rows and the order of each key's rows, with witnesses."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.bench.elastic.checks import Answer, check, check_all
from stretto.bench.verify import Match, Side
from stretto.errors import UserError

EXPECTED = Answer(pa.table({"k": [1, 2, 1, 2], "n": [1, 1, 2, 2], "x": [0.5, 0.5, 0.1, 0.25]}), key="k")


def table(*rows: tuple[int, int, float]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("k", "n", "x"), row, strict=True)) for row in rows])


def test_keys_may_be_interleaved_in_any_way_and_columns_too() -> None:
    actual = table((2, 1, 0.5), (2, 2, 0.25), (1, 1, 0.5), (1, 2, 0.1))
    assert check(actual, EXPECTED).match is Match.MATCH
    assert check(actual.select(["x", "n", "k"]), EXPECTED).match is Match.MATCH


def test_close_numbers_are_equal_and_do_not_count_for_the_order() -> None:
    close = 0.1 + 1e-12
    assert check(table((1, 1, 0.5), (1, 2, close), (2, 1, 0.5), (2, 2, 0.25)), EXPECTED).match is Match.MATCH


def test_a_swapped_pair_is_a_witness() -> None:
    verdict = check(table((1, 2, 0.1), (1, 1, 0.5), (2, 1, 0.5), (2, 2, 0.25)), EXPECTED)
    assert verdict.match is Match.MISMATCH
    assert (verdict.missing, verdict.extra) == (0, 0)
    assert [(witness.side, dict(witness.row)["n"]) for witness in verdict.witness] == [(Side.ORDER, 2), (Side.ORDER, 1)]
    assert "out of order: k=1, n=2" in verdict.describe()


def test_rows_that_are_missing_or_wrong_come_before_the_order() -> None:
    assert check(table((1, 1, 0.5), (2, 1, 0.5), (2, 2, 0.25)), EXPECTED).missing == 1
    wrong = check(table((1, 1, 0.5), (1, 2, 0.2), (2, 1, 0.5), (2, 2, 0.25)), EXPECTED)
    assert (wrong.missing, wrong.extra) == (1, 1)
    assert check(EXPECTED.table.drop_columns(["x"]), EXPECTED).witness[0].side is Side.SCHEMA


def test_no_rows_are_a_match_that_says_so() -> None:
    empty = Answer(EXPECTED.table.slice(0, 0), key="k")
    assert "empty" in check(empty.table, empty).describe()


def test_a_sink_without_rows_is_not_the_same_as_no_sink() -> None:
    with pytest.raises(UserError, match="'other'"):
        check_all({"out": EXPECTED.table}, {"out": EXPECTED, "other": EXPECTED})
    assert check_all({"out": EXPECTED.table}, {"out": EXPECTED})["out"].match is Match.MATCH
