"""The calendar: years, months, weeks and days of numbers of days since 1970, in the proleptic Gregorian calendar.

numpy's dates have the years of Java's, also those before 1 and after 9999. All functions take arrays or scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DAYS_PER_WEEK = 7
#: 1970-01-01 was a Thursday, and weeks begin on Monday.
_THURSDAY = 3


def months_of(days: Any) -> Any:
    """Returns the number of months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def first_of_month(months: Any) -> Any:
    """Returns the first day of a month, given by its number since January 1970."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def first_of_year(years: Any) -> Any:
    return first_of_month((years - 1970) * 12)


def date_of(days: Any) -> tuple[Any, Any, Any]:
    """Returns year, month and day of the month."""
    months = months_of(days)
    return months // 12 + 1970, months % 12 + 1, days - first_of_month(months) + 1


def year(days: Any) -> Any:
    return months_of(days) // 12 + 1970


def month(days: Any) -> Any:
    return months_of(days) % 12 + 1


def quarter(days: Any) -> Any:
    return months_of(days) % 12 // 3 + 1


def day(days: Any) -> Any:
    return days - first_of_month(months_of(days)) + 1


def day_of_year(days: Any) -> Any:
    return days - first_of_year(year(days)) + 1


def weekday(days: Any) -> Any:
    """Returns 0 for Monday to 6 for Sunday."""
    return (days.astype(np.int64) + _THURSDAY) % DAYS_PER_WEEK


def _thursday(days: Any) -> Any:
    return days.astype(np.int64) - weekday(days) + _THURSDAY


def week(days: Any) -> Any:
    """Returns the ISO week: the first one of a year has its first Thursday."""
    return (day_of_year(_thursday(days)) - 1) // DAYS_PER_WEEK + 1


def year_of_week(days: Any) -> Any:
    """Returns the year to which the ISO week belongs."""
    return year(_thursday(days))


def last_of_month(days: Any) -> Any:
    """Returns the last day of the month of a day."""
    return first_of_month(months_of(days) + 1) - 1


def plus_months(days: Any, months: Any) -> Any:
    """Returns the same day some months later, or the last day of that month if it is shorter."""
    wanted = months_of(days) + months
    return first_of_month(wanted) + np.minimum(day(days), day(first_of_month(wanted + 1) - 1)) - 1


def next_weekday(days: Any, wanted: Any) -> Any:
    """Returns the first date after these on a day of the week, from 0 for Monday.

    In 32 bits, which wrap around as Java's ints do."""
    start = days.astype(np.int64)
    since_thursday = (wanted + DAYS_PER_WEEK - _THURSDAY) % DAYS_PER_WEEK  # The day 0 was a Thursday.
    apart = (since_thursday - 1 - start).astype(np.int32)
    return (start + 1 + apart % DAYS_PER_WEEK).astype(np.int32)


def start_of(unit: str, days: Any) -> Any:
    """Returns the first day of the week, month, quarter or year of a day."""
    if unit == "week":
        return days - weekday(days)
    months = months_of(days)
    return first_of_month(months - months % {"month": 1, "quarter": 3, "year": 12}[unit])
