"""Value, list and map state: fresh copies per instance, combining partial states, export and restore."""

from __future__ import annotations

import operator

import pyarrow as pa
import pytest

from stretto import Function, ListState, MapState, ValueState
from stretto.actors.context import Context
from stretto.actors.discipline import COMBINABLE, SEQUENTIAL, STATELESS
from stretto.errors import InvariantError
from stretto.state import State


class Counting(Function):
    total = ValueState(0, combine=operator.add)
    by_key: MapState[str, int] = MapState(combine=operator.add)
    seen: ListState[int] = ListState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.total.set(self.total.get() + batch.num_rows)


class Latest(Function):
    last: ValueState[int | None] = ValueState(None)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


def test_the_discipline_follows_from_the_states() -> None:
    assert Function().discipline is STATELESS
    assert Counting().discipline is COMBINABLE
    assert Latest().discipline is SEQUENTIAL


def test_instances_have_their_own_copies_of_declared_states() -> None:
    one, other = Counting(), Counting()
    one.bind_states()
    other.bind_states()
    one.total.set(5)
    one.by_key["a"] = 1
    one.seen.append(3)
    assert other.total.get() == 0
    assert len(other.by_key) == 0
    assert list(other.seen) == []
    assert Counting.total.get() == 0


def test_mutable_defaults_are_copied() -> None:
    state: ValueState[list[int]] = ValueState([])
    state.get().append(1)
    assert state.fresh().get() == []
    state.clear()
    assert state.get() == []


def test_partial_states_combine() -> None:
    parts = []
    for index in range(3):
        part = Counting()
        part.bind_states()
        part.total.set(index)
        part.by_key["all"] = 1
        part.by_key[f"own{index}"] = index
        part.seen.append(index)
        parts.append(part)
    for part in parts[1:]:
        parts[0].total.merge(part.total)
        parts[0].by_key.merge(part.by_key)
        parts[0].seen.merge(part.seen)
    assert parts[0].total.get() == 3
    assert dict(parts[0].by_key.items()) == {"all": 3, "own0": 0, "own1": 1, "own2": 2}
    assert sorted(parts[0].seen) == [0, 1, 2]


@pytest.mark.parametrize("state", [ValueState(1), MapState()])
def test_a_state_without_a_combining_function_cannot_merge(state: State) -> None:
    assert not state.combinable
    with pytest.raises(InvariantError):
        state.merge(state.fresh())


def test_export_and_restore_give_the_same_content() -> None:
    states: list[tuple[State, object]] = []
    value = ValueState(0)
    value.set(7)
    entries: MapState[str, int] = MapState()
    entries["a"] = 1
    values: ListState[int] = ListState()
    values.extend([1, 2])
    states = [(value, 7), (entries, [("a", 1)]), (values, [1, 2])]
    for state, content in states:
        assert state.export() == content
        copy = state.fresh()
        copy.restore(state.export())
        assert copy.export() == content


def test_a_map_state_behaves_like_a_dict() -> None:
    state: MapState[str, int] = MapState()
    state["a"] = 1
    assert "a" in state
    assert state["a"] == 1
    assert state.get("b", 5) == 5
    assert list(state) == ["a"]
    del state["a"]
    assert len(state) == 0
