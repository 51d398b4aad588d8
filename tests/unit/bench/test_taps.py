"""A tap: all partitions of a stream end at the same event, decided while they read."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from stretto.actors.source import SourceReader
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.source import NexmarkSource
from stretto.bench.scaling.taps import BLOCK, Tap, TappedSource
from stretto.errors import SourceError

CONFIG = NexmarkConfig(seed=3)
COLUMNS = ("auction", "price")


def tapped(tap: Tap) -> TappedSource:
    found: TappedSource = pickle.loads(pickle.dumps(tap.before(NexmarkSource("bid", CONFIG, columns=COLUMNS))))
    return found


def read_on(readers: Sequence[SourceReader]) -> list[pa.RecordBatch]:
    """Returns what the readers can read now."""
    found = []
    for reader in readers:
        while (reading := reader.read(0, 70)).batch is not None:
            found.append(reading.batch)
    return found


@pytest.mark.parametrize("end", [4 * BLOCK, 4 * BLOCK + 17])
def test_the_events_are_those_of_a_stream_of_that_length(tmp_path: Path, end: int) -> None:
    tap = Tap(tmp_path / "tap", BLOCK)
    readers = [tapped(tap).reader(partition, 3) for partition in range(3)]
    rows = read_on(readers)
    assert not any(reader.read(0, 70).done for reader in readers)
    tap.allow(end)
    rows += read_on(readers)
    assert tap.read >= end - end % BLOCK
    tap.allow(10)  # Never fewer than before.
    assert tap.end() == end
    assert all(reader.read(0, 70).done for reader in readers)
    right = generate(CONFIG, "bid", 0, end, COLUMNS)
    order = [(name, "ascending") for name in COLUMNS]
    assert pa.Table.from_batches(rows).sort_by(order).equals(pa.Table.from_batches([right]).sort_by(order))


def test_how_far_it_is_read_is_what_the_slowest_partition_says(tmp_path: Path) -> None:
    tap = Tap(tmp_path / "tap", 100 * BLOCK)
    assert tap.read == 0
    slow, fast = (tapped(tap).reader(partition, 2) for partition in range(2))
    slow.read(0, 10)
    read_on([fast])
    assert tap.read == 10
    slow.seek(0)
    assert tap.read == 0


def test_a_tap_needs_nexmark_events_without_end(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a tap needs NEXMark events without end"):
        Tap(tmp_path / "tap").before(NexmarkSource("bid", NexmarkConfig(events=10)))
