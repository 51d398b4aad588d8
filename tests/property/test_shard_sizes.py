"""The bytes of state of each shard, as measured from a sample, against what every shard gives when it moves away."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.property.test_dividing import FUNCTIONS, drawn, inputs_of
from tests.property.test_moving_shards import Tasks

from stretto.actors.dividing import ShardKeys
from stretto.actors.partitioning import hash_rows
from stretto.actors.shard_sizes import ShardSizes, sizes_of
from stretto.actors.shards import SHARDS, shards_within
from stretto.state import MapState
from stretto.state.packing import packed

KEYS = pa.schema([("k", pa.int64())])


def given(state: Any, part: ShardKeys) -> int:
    """Returns the bytes that a shard takes when it moves, but for the frame around an empty one."""
    return len(packed(state.give(part)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_are_those_of_what_moves(name: str) -> None:
    """Small states are not sampled, so empty shards are exact; the others are in proportion to what they send. What is
    sent has a schema and padding per column, so entries are compared with what more of them add."""
    chance, tested = random.Random(3), Tasks(name, 1)
    for step in range(30):
        for side, schema in inputs_of(name).items():
            tested.process(drawn(chance, step, schema), side)
    for state_name, state in tested.functions[0].states().items():
        measured = sizes_of(state, tested._part(state_name, []).keys)
        rows = np.array([_entries(state, tested._part(state_name, [shard])) for shard in range(SHARDS)])
        has, measures = set(np.flatnonzero(rows)), set(np.flatnonzero(measured))
        # A semi join still holds rows that no other row needs any more, and a copy of it does not.
        assert has <= measures if name == "semi join" else has == measures, "which shards have entries is exact"
        if has:
            assert np.corrcoef(measured, rows)[0, 1] > 0.9


@pytest.mark.parametrize("name", ["tumbling", "sessions", "running", "running distinct", "join", "inner window join"])
def test_many_entries_weigh_about_what_they_send(name: str) -> None:
    """With many keys, schemas and padding do not matter: the whole and groups of eight shards within a third."""
    tested, rows = Tasks(name, 1), 60_000
    for side, schema in inputs_of(name).items():
        keys = pa.array(range(rows))
        texts = pa.array([f"key {key % 1000}" for key in range(rows)])
        times = pa.array([5] * rows, pa.timestamp("us", "UTC"))
        tested.process(pa.record_batch([keys, texts, keys, times], schema=schema), side)
    for state_name, state in tested.functions[0].states().items():
        part = tested._part(state_name, [])
        measured = sizes_of(state, part.keys)
        assert measured.sum() == pytest.approx(len(packed(state.export())), rel=0.34)
        for first in (0, 96):
            eight = range(first, first + 8)
            moved = given(state, tested._part(state_name, list(eight)))
            assert measured[list(eight)].sum() == pytest.approx(moved, rel=0.34)


def _entries(state: Any, part: ShardKeys) -> int:
    """Returns how many entries of a state belong to a shard, without moving them: by the rows of a copy."""
    copy = state.fresh()
    copy.restore(state.export())
    copy.keep(part)
    return _length(copy.export())


def _length(content: Any) -> int:
    if isinstance(content, pa.Table):
        return content.num_rows
    if isinstance(content, dict):
        return max((_length(each) for each in content.values()), default=0)
    if isinstance(content, list | tuple):
        return max([len(content), *(_length(each) for each in content if isinstance(each, dict | pa.Table))])
    return 0


def mapped(values: Any, count: int) -> MapState[int, Any]:
    state: MapState[int, Any] = MapState()
    for key in range(count):
        state[key] = values(key)
    return state


@pytest.mark.parametrize("values", [lambda key: key, lambda key: "x" * (key % 500), lambda key: [key] * (key % 50)])
def test_a_map_that_is_not_sampled_is_exact_to_a_few_bytes(values: Any) -> None:
    state = mapped(values, 2_000)
    measured = sizes_of(state, KEYS)
    for shard in range(SHARDS):
        moved = given(state, ShardKeys(KEYS, [shard]))
        assert measured[shard] == pytest.approx(moved, abs=16)


def test_the_total_of_a_sampled_map_is_right_and_its_shards_within_four_standard_errors() -> None:
    count = 60_000
    state = mapped(lambda key: key, count)
    measured = sizes_of(state, KEYS)
    shards = np.bincount(shards_within(hash_rows([pa.array(range(count))])), minlength=SHARDS)
    assert measured.sum() == pytest.approx(given(state, ShardKeys(KEYS, range(SHARDS))), rel=0.05)
    per_entry = measured.sum() / count
    assert np.abs(measured / (shards * per_entry) - 1).max() < 4 * 0.25


def test_the_next_sample_has_other_entries() -> None:
    state = mapped(lambda key: key, 60_000)
    assert not np.array_equal(sizes_of(state, KEYS), sizes_of(state, KEYS))


def test_what_cannot_be_sent_is_weighed_all_the_same() -> None:
    assert sizes_of(mapped(lambda key: object(), 10), KEYS).sum() > 0


def test_an_instance_measures_after_a_second_and_then_every_five() -> None:
    state = mapped(lambda key: key, 100)
    function = SimpleNamespace(states=lambda: {"sums": state}, input_of=lambda name: None)
    instance: Any = SimpleNamespace(function=function, spec=SimpleNamespace(keys_of=lambda name: KEYS))
    sizes, measured = ShardSizes(), []
    for tenth in range(1, 121):
        if tenth == 30:
            state.clear()
        sizes.measure_if_due(instance, tenth * 100_000_000)
        measured.append(None if sizes.sizes is None else float(sizes.sizes.sum()))
    assert measured[:10] == [None] * 10
    assert all(measured[10:60])
    assert set(measured[60:]) == {0.0}
