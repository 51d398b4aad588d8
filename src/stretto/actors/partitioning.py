"""Which shard a row belongs to: stable hashes of key columns, a batch at a time. Which partition owns it: `shards.py`.

The hash depends on the values alone: never on the process, the machine, the width of an integer, the unit of a
timestamp, the scale of a decimal, or how Arrow happens to chunk, slice or encode a column. Snapshots rely on that, so a
change to any constant here is a change of the snapshot format.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.shards import ShardMap
from stretto.errors import PlanError

Hashes = npt.NDArray[np.uint64]

LONG_BYTES_MIN = 256
"""Strings of at least this length are hashed one by one; shorter ones are hashed together, eight bytes at a time."""

_NULL_HASH = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_ORDER = np.uint64(0x9DDFEA08EB382D69)
_SHIFT = np.uint64(33)
_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], dtype=np.uint64)
_UNITS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


class HashPartitioner:
    """Splits batches by the shard of their keys."""

    __slots__ = ("_shards", "keys", "parallelism")

    def __init__(self, keys: tuple[str, ...], shards: ShardMap) -> None:
        self.keys = keys
        self.parallelism = shards.parallelism
        self._shards = shards

    def split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        """Returns the rows by partition in their order of arrival; each partition at most once, and none without
        rows."""
        if not batch.num_rows:
            return []
        if self.parallelism == 1:
            return [(0, batch)]
        return divided(batch, self._shards.partitions_of(hash_columns(batch, self.keys)))


def divided(batch: pa.RecordBatch, places: npt.NDArray[np.uint8]) -> list[tuple[int, pa.RecordBatch]]:
    """Returns the rows of each place in their order; no place without rows. The batch has at least one row."""
    counts = np.bincount(places)
    present = np.flatnonzero(counts)
    if len(present) == 1:
        return [(int(present[0]), batch)]
    # A stable sort of single bytes is a radix sort; the slices of the sorted batch share its buffers.
    rows = batch.take(pa.array(np.argsort(places, kind="stable")))
    ends = np.cumsum(counts)
    return [(each, rows.slice(int(ends[each] - counts[each]), int(counts[each]))) for each in present.tolist()]


def hash_columns(batch: pa.RecordBatch, keys: Sequence[str]) -> Hashes:
    """Returns a 64-bit hash per row of the key columns, in the given order of keys."""
    if not keys:
        return np.zeros(batch.num_rows, dtype=np.uint64)
    return hash_rows([batch.column(key) for key in keys])


def hash_rows(columns: Sequence[pa.Array]) -> Hashes:
    """Returns a 64-bit hash per row of one or more columns."""
    hashes = hash_array(columns[0])
    for column in columns[1:]:
        hashes = combine_hashes(hashes, hash_array(column))
    return hashes


def combine_hashes(first: Hashes, second: Hashes) -> Hashes:
    """Returns one hash of two; the order matters."""
    return mix(first * _ORDER + second)


def mix(codes: Hashes) -> Hashes:
    """A bijection of 64-bit words that spreads every bit over all others (the finaliser of MurmurHash3)."""
    mixed = codes ^ (codes >> _SHIFT)
    mixed *= _MIX_1
    mixed ^= mixed >> _SHIFT
    mixed *= _MIX_2
    mixed ^= mixed >> _SHIFT
    return mixed


def hash_array(array: pa.Array) -> Hashes:
    """Returns a 64-bit hash per value; equal values of comparable types have equal hashes, and nulls have their own."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _hash_dictionary(array)
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL_HASH)
    if has_codes(kind):
        hashes = mix(codes_of(array))
    elif pa.types.is_decimal(kind) and kind.bit_width <= 128:
        hashes = _hash_decimals(array)
    elif _is_bytes(kind):
        hashes = _hash_bytes(array)
    else:
        raise PlanError(
            "a column of this type cannot be a key",
            str(kind),
            "Key by numbers, strings, binaries, booleans, dates or timestamps, such as a field of the value.",
        )
    if array.null_count:
        hashes[null_mask(array)] = _NULL_HASH
    return hashes


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are null."""
    mask: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def has_codes(kind: pa.DataType) -> bool:
    """Whether `codes_of` accepts the type: each of its values is one 64-bit word."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or (types.is_temporal(kind) and not types.is_interval(kind))
    )


def codes_of(array: pa.Array) -> Hashes:
    """Returns a 64-bit word per value, equal for equal values; the word of a null is arbitrary.

    Times are microseconds, finer ones rounded down; dates are days; floats are doubles with one zero and one NaN.
    """
    kind = array.type
    types = pa.types
    if types.is_boolean(kind):
        return _values(array.cast(pa.uint8()), np.uint8).astype(np.uint64)
    if types.is_floating(kind):
        floats = _values(array, kind.to_pandas_dtype()).astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return floats.view(np.uint64)
    if types.is_integer(kind):
        integers = _values(array, kind.to_pandas_dtype())
        return integers if integers.dtype == np.uint64 else integers.astype(np.int64, copy=False).view(np.uint64)
    return times_us(array).view(np.uint64)


def times_us(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns timestamps, times and durations as microseconds, dates as days; the value of a null is arbitrary."""
    kind = array.type
    ticks = _values(array, np.int32 if kind.bit_width == 32 else np.int64).astype(np.int64, copy=False)
    if pa.types.is_date32(kind):
        return ticks
    if pa.types.is_date64(kind):
        return ticks // 86_400_000
    if kind.unit == "ns":
        return ticks // 1_000
    factor = _UNITS_US[kind.unit]
    return ticks if factor == 1 else ticks * factor


def _values(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """The value buffer of a fixed-width array, without a copy."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype)[array.offset : array.offset + len(array)]


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )


def _hash_dictionary(array: pa.DictionaryArray) -> Hashes:
    """Hashes each distinct value once, independent of its index in the dictionary."""
    values = np.append(hash_array(array.dictionary), _NULL_HASH)
    places = _values(array.indices, array.indices.type.to_pandas_dtype()).astype(np.int64)
    if array.indices.null_count:
        places[null_mask(array.indices)] = len(values) - 1
    hashes: Hashes = values[places]
    return hashes


def _hash_bytes(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
        kind = array.type
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array) or offsets_buffer is None:
        return np.zeros(len(array), dtype=np.uint64)
    all_offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if large else np.int32)
    offsets = all_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    # Eight more bytes, so that a whole word can be read at every offset in a string.
    data = np.zeros(size + 8, dtype=np.uint8)
    if size:
        data[:size] = np.frombuffer(data_buffer, dtype=np.uint8)[first : first + size]
    return _hash_spans(data, offsets[:-1] - first, np.diff(offsets))


def _hash_spans(data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Hashes:
    """Returns hashes of byte strings in one buffer: word by word, each step over all strings that are long enough."""
    words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    hashes = _absorb(sizes.view(np.uint64) * _ORDER, words[begins] & _MASKS[np.minimum(sizes, 8)])
    size_max = int(sizes.max())
    for at in range(8, min(size_max, LONG_BYTES_MIN), 8):
        rows = np.flatnonzero(sizes > at)
        hashes[rows] = _absorb(hashes[rows], words[begins[rows] + at] & _MASKS[np.minimum(sizes[rows] - at, 8)])
    if size_max >= LONG_BYTES_MIN:
        for row in np.flatnonzero(sizes >= LONG_BYTES_MIN).tolist():
            digest = blake2b(data[begins[row] : begins[row] + sizes[row]].tobytes(), digest_size=8).digest()
            hashes[row] = int.from_bytes(digest, "little")
    return mix(hashes)


def _absorb(hashes: Hashes, words: Hashes) -> Hashes:
    hashes = (hashes ^ words) * _MIX_1
    hashes ^= hashes >> _SHIFT
    return hashes


def _hash_decimals(array: pa.Array) -> Hashes:
    """Hashes the digits without trailing zeros and the remaining scale, so that 1.5 and 1.500 are one key."""
    scale = array.type.scale
    wide = array.cast(pa.decimal128(38, scale))
    words = np.frombuffer(wide.buffers()[1], dtype="<i8") if len(wide) else np.zeros(0, dtype=np.int64)
    words = words.reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    digits, upper = words[:, 0].copy(), words[:, 1].copy()
    scales = np.full(len(wide), scale, dtype=np.int64)
    if wide.null_count:
        nulls = null_mask(wide)
        digits[nulls], upper[nulls] = 0, 0
    short = upper == digits >> 63
    for row in np.flatnonzero(~short).tolist():
        digits[row], upper[row], scales[row] = _strip_zeros(int(digits[row]), int(upper[row]), scale)
    zero = digits == 0
    scales[short & zero] = 0
    rows = np.flatnonzero(short & ~zero)
    while len(rows := rows[digits[rows] % 10 == 0]):
        digits[rows] //= 10
        scales[rows] -= 1
    return combine_hashes(combine_hashes(digits.view(np.uint64), upper.view(np.uint64)), scales.view(np.uint64))


def _strip_zeros(lower: int, upper: int, scale: int) -> tuple[int, int, int]:
    """Strips trailing zeros from one number of more than 64 bits."""
    number = (upper << 64) | (lower & 0xFFFFFFFFFFFFFFFF)
    while number % 10 == 0:
        number //= 10
        scale -= 1
    lower = number & 0xFFFFFFFFFFFFFFFF
    return lower - (1 << 64) if lower >> 63 else lower, number >> 64, scale
