"""The row buffer keeps few blocks, moves rows rarely, and drops expired rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stretto.operators import row_blocks, row_buffer
from stretto.operators.row_blocks import sort_entries, stable_order
from stretto.operators.row_buffer import Indexed, RowBuffer, expand_ranges

SCHEMA = pa.schema([("n", pa.int64())])


class Expiring:
    """The number is the hash and the time of expiry."""

    schema = SCHEMA
    lanes = 1

    def index(self, rows: pa.RecordBatch, watermark_us: int) -> Indexed:
        numbers = rows.column("n").to_numpy()
        return Indexed(rows, sort_entries(numbers.astype(np.uint64), expires_us=numbers))


def put(buffer: RowBuffer, numbers: list[int]) -> None:
    indexed = buffer.index(pa.record_batch({"n": pa.array(numbers, pa.int64())}), 0)
    buffer.add(indexed.rows, indexed.entries)


def get(buffer: RowBuffer, numbers: list[int], pairs_max: int = 1000) -> list[tuple[int, int]]:
    probe = sort_entries(np.array(numbers, dtype=np.uint64))
    found = []
    for match in buffer.search(probe, pairs_max):
        assert 0 < len(match.probe) == len(match.stored) <= pairs_max
        stored = match.block.rows.column("n").to_numpy()[match.block.entries.positions[match.stored]]
        found += list(zip(probe.positions[match.probe].tolist(), stored.tolist(), strict=True))
    return sorted(found)


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=8), max_size=12),
    st.lists(st.integers(0, 10), max_size=6),
    st.integers(1, 7),
)
def test_a_search_finds_each_equal_pair_once(batches: list[list[int]], wanted: list[int], pairs_max: int) -> None:
    buffer = RowBuffer(Expiring())
    for numbers in batches:
        put(buffer, numbers)
    stored = [n for numbers in batches for n in numbers]
    assert get(buffer, wanted, pairs_max) == sorted((i, n) for i, w in enumerate(wanted) for n in stored if n == w)
    assert buffer.export().column("n").to_pylist() == stored


def blocks(buffer: RowBuffer) -> int:
    """Returns the number of blocks that a search reads: each is a chunk of the export."""
    return buffer.export().column("n").num_chunks


def test_blocks_shrink_geometrically() -> None:
    buffer = RowBuffer(Expiring())
    for start in range(0, 100_000, 100):
        put(buffer, list(range(start, start + 100)))
        assert blocks(buffer) <= 7
    assert buffer.num_rows == 100_000


def test_no_merge_makes_a_block_beyond_the_limit() -> None:
    buffer = RowBuffer(Expiring())
    size = row_buffer.BLOCK_ENTRIES_MAX // 4
    for start in range(12):
        put(buffer, list(range(start * size, (start + 1) * size)))
    assert buffer.num_rows == 12 * size
    assert 3 <= blocks(buffer) <= 6


def test_cleaning_removes_exactly_the_expired_rows() -> None:
    buffer = RowBuffer(Expiring())
    numbers = [(n * 7919) % 4_000 for n in range(4_000)]
    put(buffer, numbers)
    buffer.advance(900)
    assert buffer.num_rows == 4_000, "less than a quarter is not worth it"
    for watermark in (1_200, 2_000, 2_700):
        buffer.advance(watermark)
        assert buffer.export()["n"].to_pylist() == [n for n in numbers if n > watermark]
        assert get(buffer, numbers) == sorted((i, n) for i, n in enumerate(numbers) if n > watermark)
    buffer.advance(3_998)
    assert get(buffer, [3_999]) == [(0, 3_999)]
    buffer.advance(3_999)
    assert buffer.num_rows == 0


def test_a_large_run_is_kept_while_one_entry_lives() -> None:
    buffer = RowBuffer(Expiring())
    put(buffer, [*range(2_000), 5_001, 5_000])
    buffer.advance(5_000)
    assert buffer.export()["n"].to_pylist() == [5_001]


def test_expired_rows_are_removed_in_bulk() -> None:
    buffer = RowBuffer(Expiring())
    rewrites = 0
    for watermark in range(0, 1_000_000, 500):
        put(buffer, list(range(watermark + 1, watermark + 10_001, 20)))
        before = buffer.num_rows
        buffer.advance(watermark)
        rewrites += buffer.num_rows < before
        alive = sum(n > watermark for n in buffer.export().column("n").to_pylist()) if watermark % 50_000 == 0 else None
        assert alive is None or buffer.num_rows <= alive * 4 / 3 + 4 * row_blocks.SMALL_ENTRIES
    assert rewrites < 1_000
    assert buffer.num_rows < 20_000
    assert get(buffer, [1_000_001]) == [(0, 1_000_001)] * 19
    buffer.advance(2_000_000)
    assert buffer.num_rows == 0


@given(st.lists(st.integers(0, 50)), st.integers(0, 3))
def test_a_stable_order_is_stable(numbers: list[int], copies: int) -> None:
    hashes = np.array(numbers * 500**copies if len(numbers) < 8 and copies < 2 else numbers, dtype=np.uint64)
    assert stable_order(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 6)), min_size=1), st.integers(1, 9))
def test_ranges_are_written_out_in_bounded_pieces(ranges: list[tuple[int, int]], limit: int) -> None:
    first, counts = (np.array(column) for column in zip(*ranges, strict=True))
    pieces = [(at.tolist(), places.tolist()) for at, places in expand_ranges(first, counts, limit)]
    assert all(len(at) == limit for at, _ in pieces[:-1])
    written = [pair for at, places in pieces for pair in zip(at, places, strict=True)]
    assert written == [(i, start + step) for i, (start, count) in enumerate(ranges) for step in range(count)]
