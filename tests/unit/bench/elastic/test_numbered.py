"""Sources of numbered events: the same events for any number of splits, from any position, at their pace."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.source import SourceReader
from stretto.bench.elastic.numbered import EPOCH_US, Numbered, NumberedSource
from stretto.bench.elastic.orders import Orders
from stretto.bench.elastic.tuples import Tuples
from stretto.errors import UserError

TUPLES = Tuples(events=10_000, key_count=50, shuffles_per_minute=120.0, payload_bytes=10)
ORDERS = Orders(events=10_000, stocks=20, period_s=0.2)
START_NS = 1_000_000_000


def read_all(reader: SourceReader, rows_at_once: int = 777) -> pa.Table:
    """Reads to the end; checks that no read goes further than it may, or behind its watermark."""
    batches: list[pa.RecordBatch] = []
    watermark_us = 0
    while True:
        before = reader.position
        reading = reader.read(START_NS, rows_at_once)
        assert reader.position - before <= rows_at_once
        if reading.batch is not None:
            assert min(reading.batch.column("t").cast(pa.int64()).to_pylist()) >= watermark_us
            batches.append(reading.batch)
        assert reading.watermark_us is not None
        assert reading.watermark_us >= watermark_us
        watermark_us = reading.watermark_us
        if reading.done:
            return pa.Table.from_batches(batches) if batches else None


@pytest.mark.parametrize("events", [TUPLES, ORDERS], ids=["tuples", "orders"])
@pytest.mark.parametrize("splits", [1, 3, 7])
def test_splits_divide_the_events_by_key_and_keep_their_order(events: Numbered, splits: int) -> None:
    source = NumberedSource(events)
    parts = [read_all(source.reader(split, splits)) for split in range(splits)]
    key = "key" if events is TUPLES else "stock"
    keys = [set(part.column(key).to_pylist()) for part in parts]
    assert sum(map(len, keys)) == len(set.union(*keys))
    for part in parts:
        assert part.column("number").to_pylist() == sorted(part.column("number").to_pylist())
    assert pa.concat_tables(parts).sort_by("number").equals(events.table())


@pytest.mark.parametrize("events", [TUPLES, ORDERS], ids=["tuples", "orders"])
@given(data=st.data())
def test_a_replay_from_any_position_gives_the_same_rows(events: Numbered, data: st.DataObject) -> None:
    splits = data.draw(st.integers(1, 5))
    split = data.draw(st.integers(0, splits - 1))
    reader = NumberedSource(events).reader(split, splits)
    for _ in range(data.draw(st.integers(0, 4))):
        reader.read(START_NS, data.draw(st.integers(1, 3_000)))
    position = reader.position
    rest = read_all(reader, data.draw(st.integers(500, 9_000)))
    again = NumberedSource(events).reader(split, splits)
    again.seek(position)
    replayed = read_all(again, data.draw(st.integers(500, 9_000)))
    assert (rest is None) == (replayed is None)
    assert rest is None or rest.equals(replayed)


def test_an_event_is_due_at_its_time_and_wakes_only_its_split() -> None:
    events = Tuples(events=2_000, rate=1_000.0, key_count=10)
    source = NumberedSource(events, paced=True)
    for split in range(3):
        reader = source.reader(split, 3)
        now_ns, numbers, reads = START_NS, [], 0
        while True:
            reading = reader.read(now_ns, 1_000)
            reads += 1
            if reading.batch is not None:
                (number,) = reading.batch.column("number").to_pylist()
                assert reading.arrived_ns == START_NS + number * 1_000_000 == now_ns
                numbers.append(number)
            if reading.done:
                break
            assert reading.next_ns is not None
            assert reading.next_ns > now_ns
            now_ns = reading.next_ns
        own = np.flatnonzero(events.keys(np.arange(2_000)) % 3 == split).tolist()
        assert numbers == own
        # Beside its own events, it looks ahead by a bounded number of events.
        assert reads <= len(own) + 5


def test_a_late_reader_gets_all_that_is_due_and_resumes_at_the_pace() -> None:
    events = Tuples(events=1_000, rate=1_000.0, key_count=10)
    reader = NumberedSource(events, paced=True).reader(0, 1)
    first = reader.read(START_NS, 1_000)
    assert first.batch is not None
    assert first.batch.num_rows == 1
    late = reader.read(START_NS + 100_000_000, 1_000)
    assert late.batch is not None
    assert late.batch.column("number").to_pylist() == list(range(1, 101))
    assert late.arrived_ns == START_NS + 100_000_000
    reader.seek(50)
    again = reader.read(START_NS + 500_000_000, 1_000)
    assert again.batch is not None
    assert again.batch.column("number").to_pylist() == [50]
    assert again.next_ns == START_NS + 501_000_000


def test_event_time_follows_the_rate() -> None:
    events = Tuples(rate=400.0)
    assert events.times_us(np.array([0, 1, 400, 4_000])).tolist() == [
        EPOCH_US,
        EPOCH_US + 2_500,
        EPOCH_US + 1_000_000,
        EPOCH_US + 10_000_000,
    ]


def test_no_events_are_an_end_and_endless_ones_have_none() -> None:
    assert NumberedSource(Tuples(events=0)).reader(0, 1).read(START_NS, 100).done
    assert NumberedSource(Tuples(events=0), paced=True).reader(0, 1).read(START_NS, 100).done
    endless = NumberedSource(Tuples(events=None))
    assert endless.length(0, 1) is None
    assert not endless.reader(0, 1).read(START_NS, 100).done
    with pytest.raises(UserError, match="no end"):
        Tuples(events=None).table()


def test_mistakes_are_refused() -> None:
    with pytest.raises(UserError, match="rate"):
        Tuples(rate=0.0)
    with pytest.raises(UserError, match="number of events"):
        Tuples(events=-1)
    with pytest.raises(UserError, match="skew"):
        Tuples(skew=-0.1)
    with pytest.raises(UserError, match="shuffles"):
        Tuples(shuffles_per_minute=-1.0)
    with pytest.raises(UserError, match="stock"):
        Orders(stocks=0)
