"""Which node holds which segments, by each way to replicate."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stretto.segments.popularity import Asked, Popularity
from stretto.segments.replication import (
    Cluster,
    Full,
    Getafix,
    Holdings,
    Node,
    Replication,
    Scarlett,
    Uniform,
    carries,
    droppable,
)
from stretto.segments.routing import least_busy

SEGMENTS = [f"s{number}" for number in range(8)]
BYTES = dict.fromkeys(SEGMENTS, 10)


def popularity(work: Mapping[str, float], at_once: Mapping[str, int] | None = None) -> Popularity:
    found = Popularity()
    found.round_over({each: Asked(units, (at_once or {}).get(each, 0)) for each, units in work.items()})
    return found


def nodes(held: Mapping[str, set[str]], **more: float) -> dict[str, Node]:
    return {name: Node(segments, **more) for name, segments in held.items()}  # type: ignore[arg-type]


EMPTY: dict[str, set[str]] = {"a": set(), "b": set(), "c": set()}
SKEWED = {"s0": 60.0, "s1": 30.0, "s2": 20.0, "s3": 10.0}


def count(found: Holdings, segment: str) -> int:
    return sum(segment in segments for segments in found.values())


@pytest.mark.parametrize("way", [Getafix(), Scarlett(1), Uniform(2), Full()])
def test_every_segment_has_a_copy_whatever_is_asked(way: Replication) -> None:
    found = way.plan(Cluster(nodes(EMPTY), BYTES), popularity(SKEWED))
    assert all(count(found, segment) >= 1 for segment in SEGMENTS)
    assert set(found) == set(EMPTY)
    assert way.plan(Cluster(nodes(EMPTY), {}), Popularity()) == EMPTY


def test_getafix_divides_what_the_thesis_does_evenly() -> None:
    found = Getafix().popular(Cluster(nodes(EMPTY), BYTES), popularity(SKEWED))
    assert sum(map(len, found.values())) == 5
    assert count(found, "s0") == 2


def test_while_there_is_little_to_do_one_copy_is_enough() -> None:
    known = {name: Node(capacity=400.0) for name in EMPTY}
    found = Getafix().popular(Cluster(known, BYTES), popularity(SKEWED))
    assert sum(map(len, found.values())) == 4
    busy = {name: Node(capacity=50.0) for name in EMPTY}
    assert count(Getafix().popular(Cluster(busy, BYTES), popularity(SKEWED)), "s0") == 2


def test_a_node_that_can_do_more_gets_more() -> None:
    unequal = {"a": Node(capacity=90.0), "b": Node(capacity=30.0)}
    found = Getafix().popular(Cluster(unequal, BYTES), popularity({"s0": 90.0, "s1": 30.0}))
    assert found == {"a": {"s0"}, "b": {"s1"}}


def test_copies_stay_while_they_can_carry_what_is_asked() -> None:
    way = Getafix()
    first = way.plan(Cluster(nodes(EMPTY), BYTES), popularity(SKEWED))
    like = {"s0": 58.0, "s1": 32.0, "s2": 19.0, "s3": 11.0}
    assert way.plan(Cluster(nodes(first), BYTES), popularity(like)) == first
    other = {"s0": 10.0, "s1": 20.0, "s2": 30.0, "s3": 60.0}
    found = way.plan(Cluster(nodes(first), BYTES), popularity(other))
    assert found != first
    assert count(found, "s3") == 2
    # Far too many copies go.
    full = Full().plan(Cluster(nodes(EMPTY), BYTES), Popularity())
    assert sum(map(len, way.popular(Cluster(nodes(full), BYTES), popularity(SKEWED)).values())) == 5


def test_scarlett_has_copies_for_all_that_was_asked_at_once() -> None:
    found = Scarlett(2).popular(Cluster(nodes(EMPTY), BYTES), popularity(SKEWED, {"s0": 5, "s1": 3, "s2": 1}))
    assert [count(found, each) for each in ("s0", "s1", "s2", "s3")] == [3, 2, 1, 1]


def test_uniform_copies_stay_where_they_are() -> None:
    way = Uniform(2)
    first = way.plan(Cluster(nodes(EMPTY), BYTES), Popularity())
    assert all(count(first, segment) == 2 for segment in SEGMENTS)
    assert way.plan(Cluster(nodes(first), BYTES), Popularity()) == first


def test_a_node_holds_no_more_than_it_has_memory_for() -> None:
    small = {"a": Node(memory_bytes=30), "b": Node(), "c": Node()}
    found = Full().plan(Cluster(small, BYTES), popularity(SKEWED))
    assert found["a"] == {"s0", "s1", "s2"}
    # A copy that nobody else has goes last, even if it is less popular.
    only = Uniform(1).plan(
        Cluster({"a": Node(set(SEGMENTS), memory_bytes=40), "b": Node({"s0"})}, BYTES), popularity(SKEWED)
    )
    assert only == {"a": {"s1", "s2", "s3", "s4"}, "b": {"s0"}} or len(only["a"]) == 4


def test_a_copy_is_dropped_when_those_that_are_wanted_are_there() -> None:
    copies = {"a": {"s0", "s1"}, "b": {"s2"}}
    wanted = {"a": {"s1"}, "b": {"s0"}}
    assert droppable(copies, wanted) == {"a": set(), "b": {"s2"}}
    copies["b"].add("s0")
    assert droppable(copies, wanted) == {"a": {"s0"}, "b": {"s2"}}


def test_what_copies_can_carry() -> None:
    held = {"a": {"s0"}, "b": {"s0", "s1"}}
    assert carries(held, {"s0": 6, "s1": 4}, {"a": 5, "b": 5})
    assert not carries(held, {"s0": 4, "s1": 6}, {"a": 5, "b": 5})
    assert not carries(held, {"s0": 6, "s1": 4}, {"a": 5, "b": 4})
    assert not carries({"a": {"s0"}, "b": set()}, {"s0": 6}, {"a": 5, "b": 5})


def test_popularity_is_smoothed_and_forgotten() -> None:
    found = popularity({"s0": 100.0, "s1": 50.0}, {"s0": 7})
    found.round_over({"s1": Asked(50.0, 2)})
    assert found.work == pytest.approx({"s0": 70.0, "s1": 50.0})
    assert (found.at_once_max("s0"), found.at_once_max("s1"), found.at_once_max("s2")) == (7, 2, 0)
    for _ in range(30):
        found.round_over({"s1": Asked(50.0)})
    assert set(found.work) == {"s1"}
    assert found.at_once_max("s0") == 0
    found.begin("s2", "s1")
    assert found.work["s2"] == found.work["s1"]
    found.forget("s1")
    assert set(found.work) == {"s2"}


def test_the_node_with_the_least_to_do_answers() -> None:
    assert least_busy(["a", "b"], {"a": 2.0, "b": 3.0}, {}) == "a"
    assert least_busy(["a", "b"], {"a": 2.0, "b": 3.0}, {"b": 2.0}) == "b"
    assert least_busy(["b", "a"], {}, {}) == "a"
    assert least_busy([], {}, {}) is None
