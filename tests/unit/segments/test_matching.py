"""Which node holds which set: the thesis' example."""

from __future__ import annotations

from collections.abc import Mapping

from stretto.segments.matching import matched

PRESENT = {"HN1": {"S2", "S3"}, "HN2": {"S4"}, "HN3": {"S1", "S2"}}
EXPECTED = [{"S1"}, {"S2", "S4"}, {"S1", "S3"}]
"""Figure 4.3: what the nodes have, and what they are to have."""


def to_load(held: Mapping[str, set[str]], present: Mapping[str, set[str]], bytes_of: Mapping[str, int]) -> int:
    """Returns how many bytes nodes have to load that are to hold these segments."""
    return sum(bytes_of[each] for node, segments in held.items() for each in segments - present[node])


def test_the_example_of_the_thesis_loads_two_segments() -> None:
    bytes_of = dict.fromkeys(("S1", "S2", "S3", "S4"), 1)
    set_of = matched(EXPECTED, PRESENT, bytes_of)
    assert set_of == {"HN1": 2, "HN2": 1, "HN3": 0}
    assert to_load({node: EXPECTED[each] for node, each in set_of.items()}, PRESENT, bytes_of) == 2
    in_order = dict(zip(sorted(PRESENT), EXPECTED, strict=True))
    assert to_load(in_order, PRESENT, bytes_of) == 3


def test_large_segments_stay_where_they_are() -> None:
    bytes_of = {"S1": 100, "S2": 1, "S3": 1}
    present = {"a": {"S2", "S3"}, "b": {"S1"}}
    assert matched([{"S1", "S2"}, {"S3"}], present, bytes_of) == {"a": 1, "b": 0}
