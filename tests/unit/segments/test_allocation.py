"""How many copies segments get: the thesis' worked example, and what its algorithm does not find."""

from __future__ import annotations

from stretto.segments.allocation import Fit, copies, equal_rooms, fewest_copies, fitted, grouped, makespan

EXAMPLE = {"S1": 6, "S2": 3, "S3": 2, "S4": 1}


def named(*work: int) -> dict[str, int]:
    return {f"S{place}": units for place, units in enumerate(work)}


def test_the_example_of_the_thesis_has_five_copies_and_takes_four_units() -> None:
    rooms = equal_rooms(EXAMPLE, 3)
    assert rooms == [4, 4, 4]
    # Figure 4.2: S1 fills the first node, S2 the second, and the rest of S1 goes to the third.
    assert fitted(EXAMPLE, rooms) == [{"S1": 4}, {"S2": 3, "S4": 1}, {"S1": 2, "S3": 2}]
    found = fewest_copies(EXAMPLE, rooms)
    assert (copies(found), makespan(found)) == (5, 4)


def test_best_fit_is_not_always_optimal_and_groups_are() -> None:
    work = named(9, 9, 9, 7, 7)
    rooms = equal_rooms(work, 3)
    assert copies(fitted(work, rooms)) == 7
    # The two of 7 fill one node of 14, and the three of 9 the other two.
    found = grouped(work, rooms[0], 3)
    assert copies(found) == copies(fewest_copies(work, rooms)) == 6
    assert makespan(found) <= 14


def test_where_there_is_room_nothing_is_divided_and_work_is_spread() -> None:
    found = fewest_copies(named(5, 4, 3, 2), [20, 20, 20, 20])
    assert sorted(sum(node.values()) for node in found) == [2, 3, 4, 5]


def test_rooms_may_differ() -> None:
    found = fitted(named(6, 3), [6, 3])
    assert found == [{"S0": 6}, {"S1": 3}]
    assert fitted(named(9), [6, 3]) == [{"S0": 6}, {"S0": 3}]
    assert fitted(named(1), [6, 3], Fit.LARGEST) == [{"S0": 1}, {}]


def test_segments_that_nobody_asks_for_get_nothing() -> None:
    assert fewest_copies({"S1": 0, "S2": 4}, [2, 2]) == [{"S2": 2}, {"S2": 2}]
    assert fewest_copies({}, [0, 0]) == [{}, {}]
