"""How far the event time of a stream has come: outliers do not move it, jumps that are confirmed do."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.errors import SourceError
from stretto.operators.stream_time import CONFIRMED_BY, EARLIEST_US, LATEST_US, StreamTime, bounds_us, check_range

JUMP = 100
FAR = 10**9
US = pa.timestamp("us", "UTC")


def column(times: list[int | None]) -> pa.Array:
    return pa.array(times, pa.int64()).cast(US)


def add(stream: StreamTime, *times: int | None) -> list[int]:
    rows = column(list(times))
    bounds = bounds_us(rows)
    return [] if bounds is None else stream.add(rows, bounds[1])


def test_it_is_the_greatest_time_of_rows_that_are_not_far_apart() -> None:
    stream = StreamTime(JUMP)
    assert add(stream, 5, 3, None, 90) == []
    assert stream.reached_us == 90
    assert add(stream, 50, 190) == []
    assert stream.reached_us == 190


def test_one_row_far_ahead_does_not_move_it_and_is_named_when_an_ordinary_one_follows() -> None:
    stream = StreamTime(JUMP)
    add(stream, 1, 2)
    assert add(stream, FAR) == []
    assert stream.reached_us == 2
    assert add(stream, 3) == [FAR]
    assert stream.reached_us == 3


@pytest.mark.parametrize("first", [(FAR, 1), (1, FAR)])
def test_a_stream_begins_with_the_lesser_of_its_first_two_times(first: tuple[int, int]) -> None:
    stream = StreamTime(JUMP)
    add(stream, first[0])
    assert stream.reached_us is None
    add(stream, first[1])
    assert stream.reached_us == 1
    assert add(stream, 2) == [FAR]


def test_a_stream_that_jumps_is_followed_after_some_rows() -> None:
    stream = StreamTime(JUMP)
    add(stream, 1, 2)
    add(stream, *range(FAR, FAR + CONFIRMED_BY - 1))
    assert stream.reached_us == 2
    assert add(stream, FAR + CONFIRMED_BY) == []
    assert stream.reached_us == FAR + CONFIRMED_BY


def test_outliers_between_ordinary_rows_never_move_it_however_many_there_are() -> None:
    stream, outliers = StreamTime(JUMP), 0
    for number in range(200):
        outliers += len(add(stream, number, *[FAR + number] * (CONFIRMED_BY - 1)))
    assert stream.reached_us == 199
    assert outliers == 199 * (CONFIRMED_BY - 1)


def test_a_stream_whose_every_row_jumps_stays_behind_by_a_few_rows_and_no_more() -> None:
    stream = StreamTime(JUMP)
    for number in range(100):
        add(stream, number * (JUMP + 1))
        if number > CONFIRMED_BY:
            assert stream.reached_us == (number - CONFIRMED_BY + 1) * (JUMP + 1)


def test_a_first_row_far_behind_is_left_behind() -> None:
    stream = StreamTime(JUMP)
    add(stream, -FAR, *range(CONFIRMED_BY))
    assert stream.reached_us == CONFIRMED_BY - 1


def test_without_a_bound_it_follows_every_row() -> None:
    stream = StreamTime(None)
    assert add(stream, 5) == []
    assert add(stream, FAR, 6) == []
    assert stream.reached_us == FAR


@given(st.lists(st.one_of(st.integers(0, 300), st.integers(10**6, 10**6 + 300), st.none()), max_size=120), st.randoms())
def test_batches_and_checkpoints_change_nothing(times: list[int | None], chance: random.Random) -> None:
    whole, parts = StreamTime(JUMP), StreamTime(JUMP)
    cuts = sorted({0, len(times), *(chance.randrange(len(times) + 1) for _ in range(6))})
    outliers: list[int] = []
    for start, stop in pairwise(cuts):
        outliers += add(parts, *times[start:stop])
        resumed = StreamTime(JUMP)
        resumed.recall(parts.remember())
        parts = resumed
    one_by_one = [outlier for time in times for outlier in add(whole, time)]
    assert (parts.remember(), outliers) == (whole.remember(), one_by_one)


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**6), ("ms", 1_000), ("us", 1)])
def test_bounds_are_exact_in_every_unit(unit: str, factor: int) -> None:
    times = pa.array([2**63 - 1, None, -(2**63)], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    assert bounds_us(times) == (-(2**63) * factor, (2**63 - 1) * factor)


def test_nanoseconds_are_cut_to_microseconds() -> None:
    assert bounds_us(pa.array([-1, 1_999], pa.timestamp("ns", "UTC"))) == (-1, 1)


@pytest.mark.parametrize("wrong", [-(2**63), EARLIEST_US - 1, LATEST_US + 1, 2**63 - 1])
def test_an_event_time_at_the_ends_of_int64_is_refused_by_its_row(wrong: int) -> None:
    check_range("source 'rows'", "t", column([EARLIEST_US, None, LATEST_US]), 70)
    with pytest.raises(SourceError, match=f"source 'rows': an event time is out of range.*position 72 is {wrong} us"):
        check_range("source 'rows'", "t", column([1, None, wrong, wrong]), 70)
