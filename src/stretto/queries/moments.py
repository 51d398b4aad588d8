"""Event times of answers: microseconds of Unix inside, `datetime` for users."""

from __future__ import annotations

import datetime

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
