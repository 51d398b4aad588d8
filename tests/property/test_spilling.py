"""A map state that spills behaves like a dict and like a plain map state, also through checkpoints and recoveries."""

from __future__ import annotations

import decimal
import operator
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.runtime.cold_store import RocksCold
from stretto.state import Fragment, MapState, rolling, spilling
from stretto.state.cold import key_bytes
from stretto.state.spilling import ENTRY_BYTES, Spilling, size_of


class DictCold:
    """The model of a cold store."""

    def __init__(self) -> None:
        self.content: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.content.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.content.get(key) for key in keys]

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in changes:
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value

    def scan(self, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted((key, value) for key, value in self.content.items() if key > after))

    def clear(self) -> None:
        self.content.clear()

    def close(self) -> None:
        self.clear()


# Few keys and many lists, so that many steps change the same entries.
FEW = st.integers(0, 5)
KEYS = st.one_of(
    FEW,
    FEW,
    FEW,
    FEW,
    st.integers(-3, 12),
    st.sampled_from([True, 1.0, 2.5, decimal.Decimal(2), decimal.Decimal("2.50"), "a", "", b"", None, -0.0]),
    st.tuples(st.sampled_from([0, False, 1.0]), st.sampled_from(["x", "y"])),
    st.frozensets(st.integers(0, 20), min_size=3, max_size=4),
)
LISTS = st.lists(st.integers(), max_size=3)
VALUES = st.one_of(LISTS, LISTS, st.none(), st.integers(), st.text(max_size=5), st.tuples(st.integers()))
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS, st.none()),
    st.tuples(st.just("get"), KEYS, st.integers()),
    st.tuples(st.just("append"), KEYS, st.integers()),
    st.tuples(st.just("append to all"), st.none(), st.integers()),
    st.tuples(st.just("hold"), KEYS, st.integers()),
    st.tuples(st.just("merge"), KEYS, st.integers()),
    st.tuples(st.just("iterate"), st.none(), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
    st.tuples(st.just("clear"), st.none(), st.none()),
    st.tuples(st.just("checkpoint"), st.none(), st.none()),
    st.tuples(st.just("fail to store"), st.none(), st.none()),
    st.tuples(st.just("recover"), st.booleans(), st.none()),
)


def typed(key: Any) -> str:
    """Returns a key with its type, since of equal keys a dict keeps the first."""
    return repr(sorted(key) if isinstance(key, frozenset) else key)


def added(mine: Any, theirs: Any) -> Any:
    return mine + theirs if isinstance(mine, int) and isinstance(theirs, int) else theirs


class Twins:
    """A spilling state, a plain one and a dict, which get the same steps."""

    def __init__(self, budget: int, directory: Path | None) -> None:
        self.budget = budget
        self.directory = directory
        self.stores = 0
        self.spilling = self.fresh(True)
        self.plain = self.fresh(False)
        self.right: dict[Any, Any] = {}
        self.written: list[dict[int, Any]] = [{}, {}]
        self.checkpoint: list[list[int]] | None = None
        self.as_of: dict[Any, Any] = {}

    def fresh(self, spills: bool) -> MapState[Any, Any]:
        state: MapState[Any, Any] = MapState(added)
        if spills:
            self.stores += 1
            cold = DictCold() if self.directory is None else RocksCold(self.directory / str(self.stores), self.budget)
            state.spill_to(cold, self.budget)
        return state

    @property
    def all(self) -> tuple[Any, ...]:
        return self.spilling, self.plain, self.right

    def do(self, step: str, key: Any, value: Any) -> None:
        if step == "set":
            for each in self.all:
                each[key] = list(value) if isinstance(value, list) else value
        elif step == "delete" and key in self.right:
            for each in self.all:
                del each[key]
        elif step == "get":
            assert self.spilling.get(key, value) == self.plain.get(key, value) == self.right.get(key, value)
            assert (key in self.spilling) == (key in self.right)
        elif step == "append" and isinstance(self.right.get(key), list):
            for each in self.all:
                each[key].append(value)
        elif step == "append to all":
            for each in self.all:
                for _, found in each.items():
                    if isinstance(found, list):
                        found.append(value)
        elif step == "hold" and isinstance(self.right.get(key), list):
            for each in self.all:  # Values that were read may be changed until the run is over.
                held = dict(each.items())
                assert len(each) == len(list(each)) == len(held)
                held[key].append(value)
        elif step == "merge":
            for each in self.all[:2]:
                other = self.fresh(False)
                other[key] = value
                each.merge(other)
            self.right[key] = value if self.right.get(key) is None else added(self.right[key], value)
        elif step == "clear":
            for each in self.all:
                each.clear()
        else:
            self.between_runs(step, key)

    def between_runs(self, step: str, torn: Any) -> None:
        self.spilling.settle()
        entries = self.spilling.entries
        assert isinstance(entries, Spilling)
        assert sum(entries._bytes_of.values()) == entries._bytes <= self.budget
        if step == "iterate":
            assert len(self.spilling) == len(self.right)
            assert sorted(map(typed, self.spilling)) == sorted(map(typed, self.right))
            assert dict(self.spilling.items()) == dict(self.plain.items()) == self.right
            assert [key_bytes(key) for key in self.spilling] == sorted(key_bytes(key) for key in self.right)
        elif step in ("checkpoint", "fail to store"):
            given = [state.fragments() for state in self.all[:2]]
            if step == "fail to store":
                for state in self.all[:2]:
                    state.forget_fragments()
                return
            for written, fragments in zip(self.written, given, strict=True):
                for fragment in fragments:
                    assert fragment.number in written or fragment.content is not None
                    written.setdefault(fragment.number, fragment.content)
            self.checkpoint = [[fragment.number for fragment in fragments] for fragments in given]
            self.as_of = {key: list(value) if isinstance(value, list) else value for key, value in self.right.items()}
        elif step == "recover" and self.checkpoint is not None:
            crossed = bool(torn)  # A job that did not spill may resume as one that does, and the reverse.
            self.spilling, self.plain = self.fresh(True), self.fresh(False)
            for place, state in enumerate(self.all[:2]):
                source = place ^ crossed
                state.rebuild([Fragment(n, self.written[source][n]) for n in self.checkpoint[source]])
            if crossed:
                self.written.reverse()
                self.checkpoint.reverse()
            assert dict(self.spilling.items()) == dict(self.plain.items()) == self.as_of
            assert len(self.spilling) == len(self.as_of)
            # Of equal keys, a checkpoint has the one used last, as for a plain state.
            self.right = {key: self.as_of[key] for key in self.spilling}
            self.as_of = {key: list(value) if isinstance(value, list) else value for key, value in self.right.items()}


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, min_size=20, max_size=80), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_a_spilling_map_is_a_map(steps: list[Any], stretch: int, round_length: int, entries: int) -> None:
    _check(steps, stretch, round_length, entries, None)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=20, max_size=80), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_it_is_one_on_the_disk(steps: list[Any], stretch: int, round_length: int, entries: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _check(steps, stretch, round_length, entries, Path(directory))


def _check(steps: list[Any], stretch: int, round_length: int, entries: int, directory: Path | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", round_length)
        patch.setattr(spilling, "PAGE_ENTRIES", 2)
        twins = Twins(entries * (ENTRY_BYTES + 100), directory)
        for step, key, value in steps:
            twins.do(step, key, value)
        for step in ("iterate", "checkpoint", "recover", "iterate"):
            twins.between_runs(step, None)


@given(KEYS, KEYS)
def test_codes_of_keys_are_equal_where_the_keys_are(one: Any, other: Any) -> None:
    assert (key_bytes(one) == key_bytes(other)) == (one == other)
    assert b"" < key_bytes(one) < b"\xff\xff"


def test_entries_touched_in_a_run_stay_until_it_is_over() -> None:
    state: MapState[int, list[int]] = MapState()
    state.spill_to(DictCold(), 2_000)
    for key in range(100):
        state[key] = []
    held = [state[key] for key in range(100)]
    for values in held:
        values.append(7)
    state.settle()
    assert all(state[key] == [7] for key in range(100))
    assert state[3] is not held[3]


def test_values_held_during_iteration_may_still_change() -> None:
    state: MapState[int, list[int]] = MapState()
    state.spill_to(DictCold(), 400)
    for key in range(5):
        state[key] = []
    state.settle()
    held = dict(state.items())
    assert list(state) == sorted(held)
    for values in held.values():
        values.append(7)
    state.settle()
    assert all(values == [7] for _, values in state.items())


def test_looking_through_a_map_of_lists_holds_few_of_them() -> None:
    state: MapState[int, list[int]] = MapState()
    state.spill_to(DictCold(), 100_000)
    for key in range(20_000):
        state[key] = [key]
        if key % 100 == 0:
            state.settle()
    entries = state.entries
    assert isinstance(entries, Spilling)
    most = 0
    for key, values in state.items():
        values.append(-key)
        most = max(most, len(entries._hot))
    state.settle()
    assert most < 3_000
    assert all(values == [key, -key] for key, values in state.items())


def test_a_map_that_grows_during_iteration_is_reported() -> None:
    state: MapState[int, int] = MapState()
    state.spill_to(DictCold(), 1_000)
    state[1] = state[2] = 1

    def grow() -> None:
        for key in state:
            state[key + 10] = 1

    with pytest.raises(RuntimeError, match="changed size"):
        grow()


def test_a_checkpoint_of_a_small_change_reads_little() -> None:
    class Counting(DictCold):
        scanned = 0

        def scan(self, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
            for found in super().scan(after):
                Counting.scanned += 1
                yield found

    state: MapState[int, int] = MapState(operator.add)
    state.spill_to(Counting(), 100_000)
    for key in range(50_000):
        state[key] = key
    state.settle()
    state.fragments()
    Counting.scanned = 0
    state[7] = 8
    state.settle()
    state.fragments()
    assert Counting.scanned <= rolling.STRETCH_MIN + 1


@pytest.mark.parametrize("stretch", [1, 2, 3])
def test_an_entry_that_never_changes_is_in_every_checkpoint(stretch: int) -> None:
    """Old fragments are removed after a round, so by then a stretch must have included each entry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", 4)
        twins = Twins(2_000, None)
        for key in range(11):
            twins.do("set", key, key)
        for turn in range(60):
            twins.do("set", turn % 2 * 5, turn)
            twins.between_runs("checkpoint", None)
            assert twins.checkpoint is not None
            assert len(twins.checkpoint[0]) <= 13
            again: MapState[int, int] = MapState()
            again.rebuild([Fragment(number, twins.written[0][number]) for number in twins.checkpoint[0]])
            assert dict(again.items()) == twins.right


def test_sizes_are_about_right() -> None:
    assert size_of([1.5] * 1000) == pytest.approx(8 * 1000 + 24 * 1000, rel=0.1)
    assert size_of({"k" * 100: "v" * 1000}) > 1100
    assert size_of([[["x" * 1000]]]) > 1000
