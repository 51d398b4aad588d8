"""Value, list and map states are divided among other partitions, or the error says why they cannot be."""

from __future__ import annotations

import operator
import random
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.dividing import PartitionKeys, Place
from stretto.actors.partitioning import hash_columns
from stretto.actors.shards import ShardMap
from stretto.errors import StorageError
from stretto.state import ListState, MapState, State, ValueState

NUMBER = pa.schema([("k", pa.int32())])
BOTH = pa.schema([("k", pa.int32()), ("s", pa.string())])


def at(partition: int, parallelism: int) -> Place:
    return Place(partition, ShardMap.even(parallelism))


def partition_of_key(schema: pa.Schema, key: tuple[Any, ...], parallelism: int) -> int:
    batch = pa.record_batch([pa.array([part], field.type) for part, field in zip(key, schema, strict=True)], schema)
    return int(ShardMap.even(parallelism).partitions_of(hash_columns(batch, schema.names))[0])


@pytest.mark.parametrize("schema", [NUMBER, BOTH])
@pytest.mark.parametrize("seed", range(5))
def test_each_entry_of_a_divided_map_goes_where_its_rows_go(schema: pa.Schema, seed: int) -> None:
    chance = random.Random(seed)
    numbers = [(chance.choice((None, chance.randrange(10**6))), chance.choice("abc")) for _ in range(200)]
    right = {key if schema is BOTH else key[0]: n for n, key in enumerate(numbers)}
    states: list[MapState[Any, int]] = [MapState()]
    states[0].restore(list(right.items()))
    for parallelism in [chance.randint(1, 7) for _ in range(4)] + [1]:
        others: list[MapState[Any, int]] = [MapState() for _ in range(parallelism)]
        stored = [state.fragments() for state in states]
        for now, state in enumerate(others):
            for former, fragments in enumerate(stored):
                part = state.fresh()
                part.rebuild(fragments)
                part.keep(PartitionKeys(schema, at(now, parallelism), at(former, len(states))))
                state.take_in(part)
            for key in state:
                assert partition_of_key(schema, key if schema is BOTH else (key,), parallelism) == now
        states = others
    assert states[0].entries == right
    (whole,) = states[0].fragments()  # Nothing of it is stored yet.
    assert isinstance(whole.content, pa.Table)
    assert whole.content.num_rows == len(right)


def test_a_maps_key_can_contain_the_streams_key() -> None:
    state: MapState[tuple[int, int], int] = MapState(stream_key=lambda key: key[1])
    state.restore([((window, k), window) for window in range(3) for k in range(20)])
    mine = PartitionKeys(NUMBER, at(1, 2))
    state.keep(mine)
    assert sorted(state) == [(w, k) for w in range(3) for k in range(20) if partition_of_key(NUMBER, (k,), 2) == 1]
    assert state.fresh()._stream_key is state._stream_key


def test_a_map_that_is_not_kept_by_the_streams_key_is_refused() -> None:
    state: MapState[Any, int] = MapState()
    state.restore([("a", 1)])
    with pytest.raises(StorageError, match="such as 'a', do not match the stream's key \\(k int32\\)"):
        state.keep(PartitionKeys(NUMBER, at(0, 2)))
    state.restore([((1, 2, 3), 1)])
    with pytest.raises(StorageError, match="do not match the stream's key"):
        state.keep(PartitionKeys(BOTH, at(0, 2)))
    state.restore([(k, k) for k in range(20)])
    with pytest.raises(StorageError, match="it is not kept by k, by which rows are partitioned"):
        state.keep(PartitionKeys(NUMBER, at(0, 4), at(0, 2)))


def test_maps_with_a_key_in_common_need_to_combine() -> None:
    one: MapState[int, int] = MapState()
    one.restore([(1, 1)])
    other: MapState[int, int] = MapState(operator.add)
    other.restore([(1, 2), (2, 3)])
    with pytest.raises(StorageError, match="several partitions have the key 1"):
        one.take_in(other)
    other.take_in(one)
    assert other.entries == {1: 3, 2: 3}


def test_what_is_for_all_keys_cannot_be_divided() -> None:
    keys = PartitionKeys(NUMBER, at(0, 2))
    value, values = ValueState(0), ListState[int]()
    value.keep(keys)  # At its default there is nothing to divide.
    values.keep(keys)
    value.set(1)
    values.append(1)
    for state, why in (
        (value, "one value for all keys"),
        (values, "one list for all keys"),
        (State(), "not kept by key"),
    ):
        with pytest.raises(StorageError, match=why):
            state.keep(keys)


def test_values_are_combined_where_they_can_be() -> None:
    stiff, other, sums = ValueState(0), ValueState(0), ValueState(0, operator.add)
    other.set(5)
    stiff.take_in(other)
    assert stiff.get() == 5
    stiff.take_in(ValueState(0))
    assert stiff.get() == 5
    with pytest.raises(StorageError, match="no combining function"):
        stiff.take_in(other)
    sums.set(2)
    sums.take_in(other)
    assert sums.get() == 7
    one, two = ListState[int](), ListState[int]()
    one.extend([1])
    two.extend([2])
    one.take_in(two)
    assert one.values == [1, 2]
