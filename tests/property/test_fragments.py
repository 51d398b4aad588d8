"""A state rebuilt from fragments equals the state that returned them, after any sequence of steps."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.state import Fragment, ListState, MapState, State, ValueState, rolling
from stretto.state.columns import field_and_column, values_of

KEYS = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.integers(0, 3), st.text(max_size=2)))
VALUES = st.one_of(
    st.none(), st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.integers()), st.binary()
)


class Store:
    """Keeps the first content of each number, as a checkpoint does."""

    def __init__(self) -> None:
        self.contents: dict[int, Any] = {}
        self.written = 0

    def keep(self, fragments: list[Fragment]) -> list[int]:
        for fragment in fragments:
            if fragment.number not in self.contents:
                assert fragment.content is not None
                self.contents[fragment.number] = fragment.content
                self.written += 1
        return [fragment.number for fragment in fragments]

    def read(self, numbers: list[int]) -> list[Fragment]:
        return [Fragment(number, self.contents[number]) for number in numbers]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 30), VALUES),
            st.tuples(st.just("delete"), st.integers(0, 30), st.none()),
            st.tuples(st.just("append"), st.integers(0, 30), st.integers()),
            st.tuples(st.just("clear"), st.just(0), st.none()),
            st.tuples(st.just("checkpoint"), st.just(0), st.none()),
            st.tuples(st.just("recover"), st.just(0), st.none()),
        ),
        max_size=120,
    ),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_a_map_is_restored_as_it_was_at_the_checkpoint(steps: list[Any], stretch: int, round_length: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", round_length)
        _check_map(steps)


def _check_map(steps: list[Any]) -> None:
    store, state, right = Store(), MapState[int, Any](), dict[int, Any]()
    checkpoint: list[int] | None = None
    as_of: dict[int, Any] = {}
    for step, key, value in steps:
        if step == "set":
            state[key] = value
            right[key] = value
        elif step == "delete" and key in right:
            del state[key], right[key]
        elif step == "append" and isinstance(right.get(key), list):
            state[key].append(value)
            right[key] = state.entries[key]
        elif step == "clear":
            state.clear()
            right.clear()
        elif step == "checkpoint":
            checkpoint = store.keep(state.fragments())
            as_of = {key: list(value) if isinstance(value, list) else value for key, value in right.items()}
        elif step == "recover" and checkpoint is not None:
            state = MapState()
            state.rebuild(store.read(checkpoint))
            assert state.entries == as_of
            right = dict(state.entries)


@given(st.lists(KEYS, max_size=20))
def test_values_come_back_from_columns(values: list[Any]) -> None:
    field, column = field_and_column("x", values)
    assert values_of(field, column) == values
    assert [type(value) for value in values_of(field, pa.chunked_array([column]))] == [type(value) for value in values]


def test_a_small_change_of_a_large_map_writes_little() -> None:
    state: MapState[int, bytes] = MapState()
    for key in range(200_000):
        state[key] = b"x" * 100
    (first,) = state.fragments()
    assert isinstance(first.content, pa.Table)
    for key in range(0, 200_000, 100):
        state[key] = b"y" * 100
    again, new = state.fragments()
    assert again == Fragment(first.number, None)  # It was returned once, and is not kept in memory.
    assert isinstance(new.content, pa.Table)
    assert new.content.nbytes < 0.05 * first.content.nbytes


def test_fragments_that_were_not_stored_are_returned_again() -> None:
    state: MapState[int, int] = MapState()
    state[1] = 1
    (first,) = state.fragments()
    state.forget_fragments()
    (second,) = state.fragments()
    assert second.number > first.number
    assert second.content == first.content


@pytest.mark.parametrize("state", [ValueState({"a": [1]}), ListState[int]()])
def test_small_states_come_back(state: State) -> None:
    if isinstance(state, ListState):
        state.extend([1, 2, 3])
    else:
        assert isinstance(state, ValueState)
        state.set({"b": [2, (3, "x")]})
    (fragment,) = state.fragments()
    again = state.fresh()
    again.rebuild([fragment])
    assert again.export() == state.export()
    assert again.fragments()[0].number > fragment.number
