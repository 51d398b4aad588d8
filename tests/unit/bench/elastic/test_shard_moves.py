"""What `bench shard-moves` computes from arrivals and moves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stretto.bench.elastic.arrivals import Arrivals, Rows, at
from stretto.bench.elastic.calculator import RESULTS
from stretto.bench.elastic.shard_moves import KEYS, Moves, MovesReport, lone_shards

MS = 1_000_000


def rows(*found: tuple[int, int, int, int]) -> Rows:
    """Returns rows of (number, key, count, milliseconds of arrival)."""
    numbers, keys, counts, arrived_ms = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return Rows(numbers, keys, counts, arrived_ms * MS)


@pytest.mark.parametrize(
    ("counts", "right"),
    [((1, 2, 3), True), ((1, 3, 2), False), ((1, 2, 2), False), ((1, 2, 1), False), ((2, 3, 4), False)],
    ids=["in order", "swapped", "twice", "state lost", "one missing"],
)
def test_rows_of_a_key_must_come_once_and_in_order(counts: tuple[int, ...], right: bool) -> None:
    found = rows(*((number, 7, count, number) for number, count in enumerate(counts)), (9, 8, 1, 9))
    assert found.are_in_order is right


def test_no_rows_are_no_proof() -> None:
    assert not Arrivals().rows().are_in_order


def test_rows_of_shards_that_move_do_not_count_as_others() -> None:
    moves = Moves(1024, 1, moved_keys={1}, windows=[(True, 0, 100 * MS), (False, 100 * MS, 200 * MS)])
    # A row is due every 10 ms. Key 1 moves and is 50 ms late; key 2 is 3 ms late while it does, and on time otherwise.
    moves.compare_others(rows((1, 2, 1, 13), (2, 1, 1, 70), (3, 2, 2, 33), (12, 2, 3, 120), (30, 2, 4, 300)), 10 * MS)
    assert moves.others_ms == {True: [3.0, 3.0], False: [0.0]}


def test_the_report_has_waits_by_size_and_by_upstreams() -> None:
    small, large = Moves(32, 1, [1.0, 2.0, 3.0], match=True), Moves(64, 1, [5.0], match=True)
    many = Moves(32, 16, [4.0], match=True)
    for run in (small, large):
        run.others_ms = {True: [2.5], False: [2.0]}
    found = MovesReport([small, large], [small, many]).as_dict()
    assert found["wait_ms"] == {"32": {"p50": 2.0, "p99": 2.98}, "64": {"p50": 5.0, "p99": 5.0}}
    assert found["by_upstreams"] == {"1": 2.0, "16": 4.0}
    assert found["others_wait_ms"]["p99"] == 0.5
    assert found["match"]
    many.match = False
    assert not MovesReport([small, large], [small, many]).match


def test_shards_that_move_have_one_key_each() -> None:
    shards = lone_shards()
    assert len(shards) >= KEYS // 2
    assert len(set(shards.values())) == len(shards)


def test_the_rate_is_between_the_first_and_the_last_arrival() -> None:
    arrivals = Arrivals()
    batch = pa.RecordBatch.from_pylist([{"number": 1, "key": 1, "count": 1, "chain": 1}] * 10, RESULTS)
    arrivals.batches = [(batch, 0), (batch, 500 * MS), (batch, 1000 * MS)]
    assert arrivals.rows_per_s == 20.0
    assert arrivals.table().num_rows == 30
    assert at([1.0, 2.0, 3.0], 50) == 2.0
