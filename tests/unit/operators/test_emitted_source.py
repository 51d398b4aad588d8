"""The source of emitted rows: what it asks for, where it resumes, and how far its time has come."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.actors.emitted import RowsEmitted, Wanted
from stretto.errors import SourceError, StorageError
from stretto.operators.emitted import BUFFERED_MAX, EmittedFunction, EmittedSource
from stretto.operators.row_codec import RowCodec
from stretto.operators.windows import EventTime
from stretto.protocol.transactions import Row

COLUMNS = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
CODEC = RowCodec("s", COLUMNS)
BEGINNING = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
STEP_US = 1_000


def opened(
    partition: int = 0, parallelism: int = 1, durable: bool = True, stamped: bool = False, places: int = 2
) -> EmittedFunction:
    """Returns a function whose rows have their time in `at`, or that of their epoch in `epoch`."""
    source = EmittedSource("s", COLUMNS, "epoch" if stamped else None, stamped)
    time = EventTime("epoch" if stamped else "at")
    function = EmittedFunction(source, time, 0, None, STEP_US, 100, 0, source.schema)
    ctx = Context("job", "s", partition, parallelism, {})
    if durable:
        ctx.attempt = Attempt("0123abcd", 1, 1)
    function.open(ctx)
    function.read_places(places)
    return function


def came(place: int, first: int, *numbers: int, at_us: int = 5_000, reached_us: int = 9_000) -> RowsEmitted:
    """Returns rows whose own time is a millisecond for each number."""
    rows = [Row(at_us, CODEC.encode({"n": n, "at": BEGINNING + datetime.timedelta(milliseconds=n)})) for n in numbers]
    return RowsEmitted(place, first, rows, reached_us)


def read(function: EmittedFunction) -> list[int]:
    found: list[int] = []
    while (reading := function.read(0)).batch is not None:
        found += reading.batch.column("n").to_pylist()
    return found


def wanted(function: EmittedFunction, again: bool = False) -> list[tuple[int, int | None, int]]:
    return [(each.place, each.since, each.settled) for each in function.take_wanted(again)]


def test_each_place_is_asked_for_what_follows_once() -> None:
    function = opened()
    assert wanted(function) == [(1, None, 0), (2, None, 0)]
    assert wanted(function) == []
    assert wanted(function, again=True) == [(1, None, 0), (2, None, 0)]
    function.take(came(1, 7, 1, 2), 0)
    assert wanted(function) == [(1, 9, 0)]
    assert read(function) == [1, 2]


def test_rows_that_come_twice_count_once() -> None:
    function = opened()
    function.take(came(1, 0, 1, 2), 0)
    function.take(came(1, 0, 1, 2), 0)
    function.take(came(1, 2, 3), 0)
    assert read(function) == [1, 2, 3]
    assert wanted(function) == [(1, 3, 0), (2, None, 0)]


def test_a_source_that_is_full_asks_for_no_more() -> None:
    function = opened(places=1)
    function.take(came(1, 0, *[0] * BUFFERED_MAX), 0)
    assert wanted(function) == []
    assert len(read(function)) == BUFFERED_MAX
    assert wanted(function) == [(1, BUFFERED_MAX, 0)]


def test_rows_can_be_dropped_when_a_checkpoint_that_has_them_is_complete() -> None:
    function = opened(places=1)
    function.take(came(1, 0, 1, 2), 0)
    read(function)
    function.seal(1)
    function.take(came(1, 2, 3), 0)
    read(function)
    function.seal(2)
    assert wanted(function) == [(1, 3, 0)]
    function.publish(1)
    assert wanted(function) == [(1, 3, 2)]
    function.publish(2)
    assert wanted(function) == [(1, 3, 3)]


def test_without_checkpoints_rows_can_be_dropped_when_they_are_read() -> None:
    function = opened(places=1, durable=False)
    function.take(came(1, 0, 1, 2), 0)
    assert wanted(function) == [(1, 2, 0)]
    read(function)
    assert wanted(function) == [(1, 2, 2)]


def test_it_resumes_where_the_checkpoint_was() -> None:
    function = opened()
    function.take(came(1, 0, 1, 2), 0)
    read(function)
    again = opened()
    again.recall(function.remember())
    again.read_places(2)
    assert wanted(again) == [(1, 2, 0), (2, None, 0)]
    assert read(again) == []


def test_another_number_of_partitions_reads_each_place_once() -> None:
    one = opened(places=3)
    for place in (1, 2, 3):
        one.take(came(place, 0, *[place] * place), 0)
    read(one)
    found: list[tuple[int, int | None, int]] = []
    for partition in (0, 1):
        function = opened(partition, 2, places=3)
        function.recall(function.regroup({0: one.remember()}, 1))
        function.read_places(3)
        found += wanted(function)
    assert sorted(found) == [(1, 1, 0), (2, 2, 0), (3, 3, 0)]


def test_more_partitions_than_places_are_an_error() -> None:
    with pytest.raises(SourceError, match="cannot be read by 3 partitions"):
        opened(2, 3, places=2)


def test_missing_rows_are_an_error() -> None:
    function = opened()
    function.take(came(1, 0, 10, 20), 0)
    function.take(RowsEmitted(1, 2, [], 0, "row 2 is wanted"), 0)
    with pytest.raises(StorageError, match="rows that entities have emitted into stream 's' are missing: row 2"):
        function.read(0)


def test_rows_that_have_come_are_not_missing_if_an_earlier_question_comes_after_they_were_dropped() -> None:
    function = opened()
    function.take(came(1, 0, 10, 20), 0)
    assert (1, 2, 0) in wanted(function)
    function.take(RowsEmitted(1, 0, [], 0, "row 0 is wanted, and it has none before 2"), 0)
    assert read(function) == [10, 20]
    assert wanted(function) == [(1, 2, 0)], "what is wanted now is asked for again"


def test_a_place_where_nobody_emits_does_not_hold_the_time_of_rows_back() -> None:
    function = opened()
    assert function.due_watermark() is None
    function.take(came(1, 0, 1, 40), 0)
    read(function)
    assert function.due_watermark() == 40_000
    assert function.due_watermark() is None, "once for each step"
    function.take(came(2, 0, 30), 0)
    read(function)
    assert function.due_watermark() is None, "it never goes back"


def test_the_time_of_epochs_is_the_least_of_all_places_and_waits_for_the_rows_before_it() -> None:
    function = opened(stamped=True)
    assert [each.at_us for each in function.take_wanted(False)] == [0, 0]
    function.take(came(1, 0, 1, 2, at_us=5_000, reached_us=9_500), 0)
    function.batch_rows = 1
    first = function.read(0)
    assert first.batch is not None
    assert first.batch.column("epoch").cast(pa.int64()).to_pylist() == [5_000]
    assert first.watermark_us == 5_000
    assert read(function) == [2]
    assert function.due_watermark() is None, "nothing is known of the other place"
    function.take(came(2, 0, reached_us=7_000), 0)
    read(function)
    assert function.due_watermark() == 7_000
    assert [each.at_us for each in function.take_wanted(True)] == [10_000, 8_000]


def test_what_is_wanted_names_the_stream() -> None:
    first: Any = opened().take_wanted(False)[0]
    assert first == Wanted("s", 1, None, 0, None)
