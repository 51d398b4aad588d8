"""The calculator and its model: faults in its input, its state or its output are noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.elastic_runs import MICRO, applied

from stretto.bench.elastic.calculator import RESULTS, Calculator, link
from stretto.bench.elastic.checks import Answer, check
from stretto.bench.elastic.micro import Microbenchmark, results_of
from stretto.bench.elastic.tuples import Tuples
from stretto.bench.verify import Match, Side, Verdict
from stretto.state import MapState

TUPLES = replace(MICRO.tuples, events=2_000)
EXPECTED = Answer(results_of(TUPLES.table(), 100), key="key")


def verdict_on(calculator: Calculator, tuples: pa.Table, rows: int = 64) -> Verdict:
    return check(applied(calculator, tuples.to_batches(max_chunksize=rows), RESULTS), EXPECTED)


@pytest.mark.parametrize("rows", [1, 7, 2_000])
def test_the_calculator_equals_its_model_whatever_the_batches(rows: int) -> None:
    verdict = verdict_on(Calculator(state_bytes=100), TUPLES.table(), rows)
    assert verdict.match is Match.MATCH, verdict.describe()


def test_a_chain_by_hand() -> None:
    """Three rows without state: 'a' and 'b' have these checksums by any CRC-32."""
    crc_a, crc_b = 0xE8B7BE43, 0x71BEEFF9
    first = 5 * 257 + crc_a + 1
    second = (first * 1_000_003 + 9 * 257 + crc_b + 1) % (2**61 - 1)
    rows = [{"t": 0, "number": n, "key": k, "payload": p} for n, k, p in ((5, 1, b"a"), (7, 2, b"a"), (9, 1, b"b"))]
    found = applied(Calculator(), pa.Table.from_pylist(rows, TUPLES.schema).to_batches(), RESULTS).to_pylist()
    assert [(row["key"], row["count"], row["chain"]) for row in found] == [
        (1, 1, first),
        (2, 1, 7 * 257 + crc_a + 1),
        (1, 2, second),
    ]
    assert link(0, 5, b"a", 3) == first + 3


def test_the_state_has_its_size_for_each_key() -> None:
    calculator = Calculator(state_bytes=1_000)
    applied(calculator, TUPLES.table().to_batches(), RESULTS)
    assert {len(state) for state in calculator.ballasts.entries.values()} == {1_000}
    assert len(calculator.ballasts) == len(set(TUPLES.table().column("key").to_pylist()))


def test_the_state_of_a_shard_is_divided_among_its_keys() -> None:
    by_shard = Microbenchmark(Tuples(key_count=10_000), shard_bytes=32_768)
    assert by_shard.key_bytes == 839  # 256 shards of 32 KiB have 39 keys each.
    assert replace(by_shard, state_bytes=7).key_bytes == 7
    assert Microbenchmark().key_bytes == 0


def neighbours_of_one_key(table: pa.Table) -> tuple[int, int]:
    """Returns the places of two rows of one key that follow each other."""
    keys = table.column("key").to_numpy()
    first = next(i for i in range(500, len(keys)) if (keys[i + 1 :] == keys[i]).any())
    return first, first + 1 + int(np.flatnonzero(keys[first + 1 :] == keys[first])[0])


def swapped(table: pa.Table) -> pa.Table:
    one, other = neighbours_of_one_key(table)
    places = np.arange(table.num_rows)
    places[[one, other]] = places[[other, one]]
    return table.take(places)


def lost(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 700), table.slice(701)])


def repeated(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 700), table.slice(699)])


@pytest.mark.parametrize("fault", [swapped, lost, repeated])
def test_rows_that_are_swapped_lost_or_repeated_on_the_way_in_are_noticed(
    fault: Callable[[pa.Table], pa.Table],
) -> None:
    verdict = verdict_on(Calculator(state_bytes=100), fault(TUPLES.table()))
    assert verdict.match is Match.MISMATCH
    assert {witness.side for witness in verdict.witness} <= {Side.MISSING, Side.EXTRA}


@pytest.mark.parametrize("fault", [swapped, lost, repeated])
def test_rows_that_are_swapped_lost_or_repeated_on_the_way_out_are_noticed(
    fault: Callable[[pa.Table], pa.Table],
) -> None:
    verdict = check(fault(EXPECTED.table), EXPECTED)
    assert verdict.match is Match.MISMATCH
    kinds = {witness.side for witness in verdict.witness}
    assert kinds == {{swapped: Side.ORDER, lost: Side.MISSING, repeated: Side.EXTRA}[fault]}


def test_rows_of_different_keys_may_come_in_any_order() -> None:
    assert check(EXPECTED.table.sort_by("key"), EXPECTED).match is Match.MATCH


class Forgetful(Calculator):
    """Loses the state of a key once."""

    def __init__(self, state: str) -> None:
        super().__init__(state_bytes=100)
        self._state = state
        self._batches = 0

    def process(self, batch: pa.RecordBatch, ctx: object) -> None:
        self._batches += 1
        state: MapState[int, object] = getattr(self, self._state)
        if self._batches == 8:
            del state[next(key for key in batch.column("key").to_pylist() if key in state)]
        super().process(batch, ctx)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["chains", "ballasts"])
def test_a_lost_state_is_noticed(state: str) -> None:
    verdict = verdict_on(Forgetful(state), TUPLES.table(), rows=100)
    assert verdict.match is Match.MISMATCH
