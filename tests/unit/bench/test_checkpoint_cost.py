"""The source of `stretto bench checkpoint`: every key once, then a hundredth of them in each second, on time."""

from __future__ import annotations

from pathlib import Path

import pytest

from stretto.bench.checkpoint_cost import BATCH, HOT_SHARE, Touches, TouchReader

KEYS = 100_000
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS


def loaded(rate: float | None, directory: Path) -> tuple[TouchReader, list[int]]:
    begin = directory / "begin"
    reader = Touches(KEYS, rate, begin).reader(1, 2)
    keys: list[int] = []
    while len(keys) < KEYS // 2:
        batch = reader.read(START_NS, BATCH).batch
        assert batch is not None
        keys += batch["k"].to_pylist()
    # Other partitions may still be loading.
    assert reader.read(START_NS, BATCH).batch is None
    begin.touch()
    return reader, keys


def test_every_key_of_the_partition_is_loaded_once(tmp_path: Path) -> None:
    _, keys = loaded(None, tmp_path)
    assert keys == list(range(1, KEYS, 2))


def test_a_second_touches_a_hundredth_of_the_keys_all_over_the_state(tmp_path: Path) -> None:
    reader, keys = loaded(None, tmp_path)
    touched: list[set[int]] = []
    for second in range(3):
        touched.append(set())
        for part in range(100):
            batch = reader.read(START_NS + second * SECOND_NS + part * SECOND_NS // 100, 200).batch
            assert batch is not None
            touched[-1] |= set(batch["k"].to_pylist())
    for found in touched:
        assert found <= set(keys)
        assert len(found) == pytest.approx(len(keys) * HOT_SHARE, rel=0.05)
        assert min(found) < KEYS * 0.05
        assert max(found) > KEYS * 0.95
    assert len(touched[0] & touched[1]) <= len(touched[0]) // 5


def test_rows_have_the_time_at_which_they_were_due(tmp_path: Path) -> None:
    reader, _ = loaded(1000.0, tmp_path)
    assert reader.read(START_NS, BATCH).batch is None
    late = reader.read(START_NS + 10_500_000, BATCH)
    assert late.batch is not None
    assert late.batch.num_rows == 10
    assert late.arrived_ns == START_NS + 10_000_000, "the last of them, not the time of the read"
    assert late.next_ns == START_NS + 11_000_000
