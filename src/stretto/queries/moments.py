"""Event times of answers: microseconds of Unix inside, `datetime` for users."""

from __future__ import annotations

import datetime

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.errors import UserError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


def microseconds_of(moment: datetime.datetime) -> int:
    """Returns the microseconds of a time, which must have a zone."""
    if moment.tzinfo is None:
        raise UserError("at_least needs a time zone", f"got {moment!r}", "Use datetime(..., tzinfo=timezone.utc).")
    found: int = (moment - _EPOCH) // _MICROSECOND
    return found


def time_of(us: int) -> datetime.datetime:
    """Returns a time of microseconds; the ends of all time are those of Python's calendar."""
    try:
        return _EPOCH + datetime.timedelta(microseconds=us)
    except OverflowError:
        ends = datetime.datetime.min if us < 0 else datetime.datetime.max
        return ends.replace(tzinfo=datetime.UTC)


def is_behind(watermark_us: int, least_us: int | None) -> bool:
    """Whether a partition is not as far in event time as a question wants."""
    return least_us is not None and watermark_us < least_us


def how_far_behind(watermark_us: int, least_us: int) -> str:
    """Returns why a question waits for a partition that is behind."""
    if watermark_us == EVENT_TIME_MIN_US:
        return "it has no event time: a partition of what it is made of has neither had rows nor ended"
    return f"its event time is {time_of(watermark_us).isoformat()}, and not yet {time_of(least_us).isoformat()}"
