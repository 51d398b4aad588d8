"""The event times and watermarks of a source."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.api.memory import MemorySource
from stretto.errors import SourceError
from stretto.operators.ends import SourceFunction
from stretto.operators.windows import EventTime

NUMBERS = pa.schema([("n", pa.int64())])
STAMPED = NUMBERS.append(pa.field("arrived", pa.timestamp("us", "UTC")))


def stamping() -> SourceFunction:
    rows = MemorySource(pa.table([list(range(6))], schema=NUMBERS), batch_rows=2)
    function = SourceFunction(rows, EventTime("arrived"), 0, "arrived", 1, 2, 0, STAMPED)
    function.open(Context("job", "rows", 0, 1, {"out": function.schema}))
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


TIMED = pa.schema([("t", pa.timestamp("us", "UTC"))])
DAY_US = 86_400_000_000


def timed(
    times: list[int], max_jump_us: int | None = DAY_US, batch_rows: int | None = None
) -> tuple[SourceFunction, Context]:
    """Returns a source whose first read has all these rows by default; one more follows, since an ended source has no
    watermark."""
    rows = MemorySource(pa.table([pa.array([*times, 1], pa.int64()).cast(TIMED.types[0])], schema=TIMED))
    function = SourceFunction(rows, EventTime("t"), 0, None, 1, batch_rows or len(times), 0, TIMED, max_jump_us)
    ctx = Context("job", "rows", 0, 1, {"out": function.schema})
    function.open(ctx)
    return function, ctx


def test_a_row_far_ahead_is_read_counted_and_reported_once_and_the_watermark_stays() -> None:
    far = 290_000 * 365 * DAY_US
    function, ctx = timed([1, 2, far, 3, 4, far + 1, 5])
    reading = function.read(0)
    assert reading.batch is not None
    assert reading.batch.num_rows == 7
    assert function.due_watermark() == 5
    assert ctx.counts == {"kept_out_rows": 2}
    assert function.notice is not None
    assert str(far) in function.notice
    assert "the year 29" in function.notice


def test_a_notice_names_the_date_and_the_bound() -> None:
    function, _ = timed([1, 2, 40 * DAY_US, 3])
    function.read(0)
    assert function.notice is not None
    assert "out of its watermark: 1970-02-10 00:00:00 is further" in function.notice
    assert "than max_jump (1 day, 0:00:00)" in function.notice


def test_what_a_split_knows_of_its_time_is_in_the_checkpoint() -> None:
    first, _ = timed([1, 2, 40 * DAY_US, 3, 4, 5], batch_rows=3)
    first.read(0)
    second, ctx = timed([1, 2, 40 * DAY_US, 3, 4, 5], batch_rows=3)
    second.recall(first.remember())
    second.read(0)
    assert second.due_watermark() == 5
    assert ctx.counts == {"kept_out_rows": 1}


def test_a_jump_is_followed_at_once_if_no_bound_is_set() -> None:
    function, ctx = timed([1, 2, 40 * DAY_US], None)
    function.read(0)
    assert function.due_watermark() == 40 * DAY_US
    assert not ctx.counts


@pytest.mark.parametrize("wrong", [-(2**63), 2**63 - 1])
def test_an_event_time_at_the_ends_of_int64_fails_with_its_position(wrong: int) -> None:
    function, _ = timed([1, 2, 3, wrong], batch_rows=2)
    function.read(0)
    with pytest.raises(SourceError, match=f"source 'rows': .* position 3 is {wrong} us from 1970"):
        function.read(0)
