"""A gate holds a source back at a share of each partition, in whichever process it is read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stretto.actors.source import SourceReader
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.errors import SourceError
from stretto.sources import memory

ROWS = [{"n": n} for n in range(100)]


def read_on(reader: SourceReader, max_rows: int = 7) -> list[int]:
    """Returns what can be read now."""
    found: list[int] = []
    while (reading := reader.read(0, max_rows)).batch is not None:
        found += reading.batch.column("n").to_pylist()
        if reading.done:
            break
    assert reading.done == (reader.position == len(ROWS))
    return found


def test_rows_are_read_as_far_as_the_gate_allows(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", 0.25)
    reader = pickle.loads(pickle.dumps(gate.before(memory(ROWS)))).reader(0, 1)
    assert read_on(reader) == list(range(25))
    assert read_on(reader) == []
    waiting = reader.read(1_000, 7)
    assert not waiting.done
    assert waiting.next_ns is not None
    assert waiting.next_ns > 1_000
    gate.allow(0.5)
    assert read_on(reader) == list(range(25, 50))
    gate.open()
    assert read_on(reader) == list(range(50, 100))


def test_a_reader_that_resumes_waits_at_the_same_row(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", 0.5)
    reader = gate.before(memory(ROWS)).reader(0, 1)
    reader.seek(40)
    assert read_on(reader) == list(range(40, 50))


def test_a_source_without_an_end_has_no_shares(tmp_path: Path) -> None:
    endless = Gate(tmp_path / "gate").before(NexmarkSource("bid", NexmarkConfig(events=None)))
    with pytest.raises(SourceError, match="a gate needs a source of known length"):
        endless.reader(0, 1)
