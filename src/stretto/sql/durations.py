"""The grammar of durations, and of the watermark that trails the greatest event time by one."""

from __future__ import annotations

from stretto.sql.cursor import Cursor
from stretto.sql.tree import Watermark


def read_watermark(cursor: Cursor) -> Watermark | None:
    """Reads WATERMARK column DELAY OF INTERVAL ...; None if there is none."""
    start = cursor.start
    if not cursor.accept("WATERMARK"):
        return None
    column = cursor.name("the column of event time")
    cursor.expect("DELAY", fix="Write WATERMARK ts DELAY OF INTERVAL 5 SECONDS.")
    cursor.expect("OF")
    return Watermark(column, duration(cursor), start)


_UNITS = frozenset(
    f"{unit}{plural}"
    for unit in ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
    for plural in ("", "S")
)


def duration(cursor: Cursor) -> str:
    """Reads INTERVAL 5 SECONDS, INTERVAL '5' SECOND, INTERVAL '5 seconds' or '5 seconds'."""
    start = cursor.start
    if not cursor.accept("INTERVAL"):
        return cursor.string("a duration such as INTERVAL 5 SECONDS")
    terms = [_term(cursor)]
    while cursor.is_number():
        terms.append(_term(cursor))
    text = " ".join(terms)
    if any(unit in text.upper() for unit in ("MONTH", "YEAR", "WEEK")):
        raise cursor.script.error(
            start, f"an interval of {text} is not supported", "Write it in days: a month has no fixed length."
        )
    return text


def _term(cursor: Cursor) -> str:
    amount = cursor.literal("a number of units")
    if cursor.at_any(_UNITS):
        return f"{amount} {cursor.name('a unit').lower()}"
    if amount.replace(".", "").isdigit():
        raise cursor.unexpected("a unit, such as SECONDS,")
    return amount
