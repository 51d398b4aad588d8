"""Hashes depend on values alone, and a split loses, repeats and reorders nothing."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.partitioning import HashPartitioner, hash_array, hash_columns
from stretto.actors.shards import FINE_MAX, SHARDS, ShardMap, fine_shards, shards_within
from stretto.errors import PlanError

TEXTS = [
    "",
    "a",
    "b",
    "\0",
    "a\0",
    "eight888",
    "nine99999",
    "sixteen-sixteen-",
    "é" * 40,
    "x" * 255,
    "x" * 256,
    "y" * 999,
]
PINNED_N = [12994781566227106604, 11400714819323198485, 4818444927845109502]
PINNED_S = [1957208162148381082, 10790722025076022569, 11400714819323198485]
PINNED_BOTH = [15025637381983270988, 12432066404807644525, 14597617780447098692]
NOON = datetime(2026, 1, 2, 12, 0, 0)


def hashes(values: list[Any], kind: pa.DataType) -> list[int]:
    found: list[int] = hash_array(pa.array(values, type=kind)).tolist()
    return found


def test_the_values_of_the_hash_are_part_of_the_snapshot_format() -> None:
    batch = pa.record_batch({"n": pa.array([1, None, -7]), "s": ["a", "stretto is a fugue", None]})
    assert hash_columns(batch, ["n"]).tolist() == PINNED_N
    assert hash_columns(batch, ["s"]).tolist() == PINNED_S
    assert hash_columns(batch, ["n", "s"]).tolist() == PINNED_BOTH


def test_the_hash_is_the_same_in_another_process() -> None:
    code = (
        "import pyarrow as pa; from stretto.actors.partitioning import hash_array;"
        f"print(hash_array(pa.array({TEXTS!r})).tolist())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(hashes(TEXTS, pa.string()))


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1, 127, -128, None], [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
        ([1, 200, None], [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int64()]),
        ([1.5, -2.0, None], [pa.float16(), pa.float32(), pa.float64()]),
        (TEXTS, [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]),
        ([b"abc", b"def", None], [pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()]),
        ([NOON, None], [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns", tz="UTC")]),
        ([date(2026, 1, 2), date(1960, 1, 1), None], [pa.date32(), pa.date64()]),
        (
            [Decimal("1.5"), Decimal("-20"), Decimal(0), Decimal("12.34"), None],
            [pa.decimal32(6, 2), pa.decimal64(12, 3), pa.decimal128(20, 4), pa.decimal128(38, 30)],
        ),
        ([Decimal(10**30), Decimal(-(10**19) - 1)], [pa.decimal128(38, 0), pa.decimal128(38, 3)]),
    ],
)  # fmt: skip
def test_equal_values_of_comparable_types_have_equal_hashes(values: list[Any], kinds: list[pa.DataType]) -> None:
    expected = hashes(values, kinds[0])
    assert len(set(expected)) == len(values)
    for kind in kinds[1:]:
        assert hashes(values, kind) == expected


def test_floats_have_one_zero_and_one_nan() -> None:
    odd_nan = np.array([0x7FF8_0000_0000_0123], dtype=np.uint64).view(np.float64)
    zero, minus_zero, nan, other_nan = hash_array(pa.array(np.concatenate([[0.0, -0.0, np.nan], odd_nan])))
    assert zero == minus_zero
    assert nan == other_nan
    assert zero != nan


def test_the_buffer_content_of_a_null_does_not_matter() -> None:
    numbers = pa.array(np.array([1, 2, 3]), mask=np.array([True, True, False]))
    nulls = hash_array(numbers)
    assert nulls[0] == nulls[1] == hashes([None], pa.string())[0] == hash_array(pa.nulls(1))[0]
    booleans = hash_array(pa.array([True, False, None, None]))
    assert len(set(booleans.tolist())) == 3


def test_the_order_of_key_columns_matters() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [2, 1]})
    ab, ba = hash_columns(batch, ["a", "b"]), hash_columns(batch, ["b", "a"])
    assert ab[0] == ba[1]
    assert ab[0] != ba[0]


def test_a_nested_column_cannot_be_a_key() -> None:
    with pytest.raises(PlanError, match="cannot be a key"):
        hash_array(pa.array([[1]]))


@given(st.lists(st.none() | st.text(max_size=30)), st.integers(0, 5))
def test_slices_chunks_and_dictionaries_do_not_change_a_hash(texts: list[str | None], skip: int) -> None:
    expected = [hashes([text], pa.string())[0] for text in texts]
    whole = pa.array(texts, type=pa.string())
    assert hash_array(whole).tolist() == expected
    assert hash_array(whole.slice(skip)).tolist() == expected[skip:]
    assert hash_array(whole.dictionary_encode().slice(skip)).tolist() == expected[skip:]
    assert len(set(expected)) == len(set(texts))


def test_integers_spread_evenly_over_shards() -> None:
    one_each = ShardMap.even(SHARDS).partitions_of(hash_array(pa.array(range(256_000))))
    counts = np.bincount(one_each, minlength=SHARDS)
    assert counts.min() > 800
    assert counts.max() < 1_200


def test_partitions_own_contiguous_ranges_of_shards() -> None:
    found = ShardMap.even(3).partitions_of(np.arange(SHARDS, dtype=np.uint64))
    assert found.tolist() == [shard * 3 // SHARDS for shard in range(SHARDS)]


@given(
    st.lists(st.tuples(st.integers(-5, 40), st.none() | st.text("abc", max_size=2))),
    st.integers(1, 9),
    st.sampled_from([("n",), ("s",), ("n", "s")]),
)
def test_a_split_loses_nothing_and_keeps_the_order(
    rows: list[tuple[int, str | None]], parallelism: int, keys: tuple[str, ...]
) -> None:
    batch = pa.record_batch(
        {
            "at": pa.array(range(len(rows)), pa.int64()),
            "n": pa.array([n for n, _ in rows], pa.int32()),
            "s": pa.array([s for _, s in rows], pa.string()),
        }
    )
    partitioner = pickle.loads(pickle.dumps(HashPartitioner(keys, ShardMap.even(parallelism))))
    parts = partitioner.split(batch)
    assert all(part.num_rows for _, part in parts)
    assert len({partition for partition, _ in parts}) == len(parts)
    seen = []
    for partition, part in parts:
        assert part.column("at").to_pylist() == sorted(part.column("at").to_pylist())
        assert set(ShardMap.even(parallelism).partitions_of(hash_columns(part, keys)).tolist()) == {partition}
        seen += part.to_pylist()
    assert sorted(seen, key=lambda row: row["at"]) == batch.to_pylist()


def test_a_batch_for_one_partition_passes_untouched() -> None:
    batch = pa.record_batch({"n": [3, 3, 3]})
    assert HashPartitioner(("n",), ShardMap.even(1)).split(batch) == [(0, batch)]
    ((_, same),) = HashPartitioner(("n",), ShardMap.even(7)).split(batch)
    assert same is batch
    assert HashPartitioner(("n",), ShardMap.even(7)).split(batch.slice(0, 0)) == []


@pytest.mark.parametrize("parallelism", [0, SHARDS + 1])
def test_a_partition_owns_at_least_one_shard(parallelism: int) -> None:
    with pytest.raises(PlanError, match="cannot have"):
        HashPartitioner(("n",), ShardMap.even(parallelism))


def test_a_later_map_says_whose_shards_a_partition_takes_over() -> None:
    two, three = ShardMap.even(2), ShardMap.even(3, version=2)
    assert [three.overlaps(partition, two) for partition in range(3)] == [[0], [0, 1], [1]]
    assert len(three.owners) == SHARDS
    assert set(three.owners) == {0, 1, 2}
    assert (two.version, three.version, three.parallelism) == (1, 2, 3)


def test_a_finer_map_has_the_same_owners_until_shards_are_dealt_otherwise() -> None:
    hashes = hash_array(pa.array(range(20_000)))
    even, fine = ShardMap.even(5), ShardMap.even(5).finer(FINE_MAX)
    assert (even.partitions_of(hashes) == fine.partitions_of(hashes)).all()
    assert even.is_same(fine)
    assert fine.is_same(even)
    shard = 7 + 3 * SHARDS
    dealt = ShardMap(2, fine.owners[:shard] + b"\x04" + fine.owners[shard + 1 :])
    assert not dealt.is_same(even)
    moved = dealt.partitions_of(hashes) != fine.partitions_of(hashes)
    assert set(fine_shards(hashes[moved], FINE_MAX).tolist()) == {shard}
    assert 0 < moved.sum() < 20
    assert dealt.overlaps(4, even) == [0, 4]
    assert even.overlaps(0, dealt) == [0, 4]
    assert dealt.overlaps(1, even) == [1]


def test_finer_shards_say_nothing_about_the_shards_within_a_partition() -> None:
    hashes = hash_array(pa.array(range(400_000)))
    one = hashes[fine_shards(hashes, FINE_MAX) == 3 + 9 * SHARDS]
    assert len(set(shards_within(one).tolist())) > 20


@pytest.mark.parametrize(
    ("owners", "possible"),
    [
        (bytes(SHARDS), True),
        (bytes(2 * SHARDS - 1) + b"\x01", True),
        (bytes(SHARDS - 1) + b"\x02", False),
        (bytes(3 * SHARDS), False),
        (bytes(SHARDS // 2), False),
        (bytes(2 * FINE_MAX), False),
        (b"", False),
    ],
)
def test_which_maps_two_partitions_can_have(owners: bytes, possible: bool) -> None:
    assert ShardMap.is_possible(owners, 2) is possible
