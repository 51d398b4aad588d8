"""The event times and watermarks of a source."""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.context import Context
from stretto.api.memory import MemorySource
from stretto.operators.ends import SourceFunction
from stretto.operators.windows import EventTime

NUMBERS = pa.schema([("n", pa.int64())])
STAMPED = NUMBERS.append(pa.field("arrived", pa.timestamp("us", "UTC")))


def stamping() -> SourceFunction:
    rows = MemorySource(pa.table([list(range(6))], schema=NUMBERS), batch_rows=2)
    function = SourceFunction(rows, EventTime("arrived"), 0, "arrived", 1, 2, 0, STAMPED)
    function.open(Context("job", "rows", 0, 1, ("out",)))
    return function


def stamps(function: SourceFunction, now_us: int) -> list[int]:
    batch = function.read(now_us * 1_000).batch
    assert batch is not None
    return batch.column("arrived").cast(pa.int64()).to_pylist()


def test_rows_are_stamped_with_the_time_of_their_read() -> None:
    function = stamping()
    assert stamps(function, 1_000) == [1_000, 1_000]
    assert function.due_watermark() == 1_000
    assert stamps(function, 1_500) == [1_500, 1_500]


def test_a_source_that_resumes_under_a_slower_clock_stamps_no_row_before_its_watermark() -> None:
    first = stamping()
    assert stamps(first, 5_000) == [5_000, 5_000]
    assert first.due_watermark() == 5_000
    second = stamping()
    second.recall(first.remember())
    assert stamps(second, 3_000) == [5_000, 5_000]
    assert second.due_watermark() is None
    assert stamps(second, 6_000) == [6_000, 6_000]
