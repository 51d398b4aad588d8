"""stretto's side of the fuzzer: the rows at which an expression fails are found, whatever is expected of them."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.answers import Answered, Failure
from stretto.bench.fuzz.ours import Unfinished

ROWS = pa.record_batch({"i": pa.array([0, None, 2], pa.int32())})


@pytest.mark.parametrize("expected", list(product([True, False], repeat=3)))
def test_failing_rows_are_found_whatever_is_expected(expected: tuple[bool, ...]) -> None:
    begun = ours.begun("10 div i", ROWS)
    assert isinstance(begun, Unfinished)
    found = begun.finished(expected)
    assert [isinstance(row, Failure) for row in found.rows] == [True, False, False]
    assert found.rows[1:] == [None, 5]
    assert found == ours.answer("10 div i", ROWS)


def test_what_does_not_fail_is_finished() -> None:
    assert ours.begun("i + 1", ROWS) == Answered("int", [1, None, 3])
