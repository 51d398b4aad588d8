"""The fewest copies and the least to load, beside brute force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement, permutations

from hypothesis import given
from hypothesis import strategies as st

from stretto.segments.allocation import copies, equal_rooms, fewest_copies, makespan
from stretto.segments.matching import matched


def partitions(parts: list[int]) -> Iterator[list[list[int]]]:
    """Yields all ways to divide segments into groups."""
    if not parts:
        yield []
        return
    for rest in partitions(parts[1:]):
        yield [parts[:1], *rest]
        for place, group in enumerate(rest):
            yield [*rest[:place], [parts[0], *group], *rest[place + 1 :]]


def fewest(work: tuple[int, ...], nodes: int) -> int:
    """Returns the least number of copies, by trying all groups: segments and nodes that share work, directly or by
    others, hang together, and s segments on b nodes hang together by s + b - 1 copies or more."""
    room = -(-sum(work) // nodes)
    found = []
    for groups in partitions(list(work)):
        used = [-(-sum(group) // room) for group in groups]
        if sum(used) <= nodes:
            found.append(sum(len(group) + count - 1 for group, count in zip(groups, used, strict=True)))
    return min(found)


def check(work: tuple[int, ...], nodes: int) -> None:
    named = {f"s{place}": units for place, units in enumerate(work)}
    found = fewest_copies(named, equal_rooms(named, nodes))
    assert len(found) == nodes
    assert {each: sum(node.get(each, 0) for node in found) for each in named} == named
    assert all(units > 0 for node in found for units in node.values())
    assert makespan(found) <= -(-sum(work) // nodes)
    assert copies(found) == fewest(work, nodes), (work, nodes)


def test_copies_are_the_fewest_for_all_small_work() -> None:
    for nodes in range(1, 5):
        for segments in range(1, 6):
            for work in combinations_with_replacement(range(1, 6), segments):
                check(work, nodes)


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=5).map(tuple), st.integers(1, 4))
def test_copies_are_the_fewest_for_any_work(work: tuple[int, ...], nodes: int) -> None:
    check(work, nodes)


@given(st.lists(st.integers(1, 10_000), min_size=9, max_size=60), st.integers(1, 20))
def test_many_segments_are_divided_evenly(work: list[int], nodes: int) -> None:
    named = {f"s{place}": units for place, units in enumerate(work)}
    found = fewest_copies(named, equal_rooms(named, nodes))
    assert {each: sum(node.get(each, 0) for node in found) for each in named} == named
    assert makespan(found) <= -(-sum(work) // nodes)
    assert len(work) <= copies(found) <= len(work) + nodes - 1


def to_load(held: Mapping[str, set[str]], present: Mapping[str, set[str]], bytes_of: Mapping[str, int]) -> int:
    """Returns how many bytes nodes have to load that are to hold these segments."""
    return sum(bytes_of[each] for node, segments in held.items() for each in segments - present[node])


SEGMENTS = st.sets(st.sampled_from("abcdef"))


@given(
    st.lists(st.tuples(SEGMENTS, SEGMENTS), min_size=1, max_size=5), st.lists(st.integers(1, 9), min_size=6, max_size=6)
)
def test_the_least_is_loaded(each: list[tuple[set[str], set[str]]], sizes: list[int]) -> None:
    bytes_of = dict(zip("abcdef", sizes, strict=True))
    present = {f"n{place}": held for place, (held, _) in enumerate(each)}
    expected = [wanted for _, wanted in each]
    set_of = matched(expected, present, bytes_of)
    assert sorted(set_of.values()) == list(range(len(each)))
    found = to_load({node: expected[place] for node, place in set_of.items()}, present, bytes_of)
    ways = permutations(expected)
    assert found == min(to_load(dict(zip(sorted(present), way, strict=True)), present, bytes_of) for way in ways)
