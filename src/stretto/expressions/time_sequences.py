"""sequence of dates or timestamps, by days, months or shorter times.

Steps that are no whole days of dates, or no time alone of timestamps, are added to the local time of the start, as
often as it takes to pass the end: so a month after January 31st is February 29th, and two months after it March 31st.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import civil, types
from stretto.expressions.arithmetic import truncated_quotient
from stretto.expressions.lists import of_lengths, put_together, ranges
from stretto.expressions.local_times import day_starts, instants
from stretto.expressions.nodes import Node, Site, arrayed
from stretto.expressions.steps import known_numbers, lengths_of, listed
from stretto.expressions.vectors import to_arrow
from stretto.expressions.zones import MICROS_PER_DAY, MICROS_PER_SECOND, Zone, session_zone

_DAYS_PER_MONTH = 28
"""Of a month, where Spark estimates how many steps there are at most."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """The step of each row: months, or days and microseconds of the same sign."""

    months: Any
    days: Any
    micros: Any

    @property
    def estimated(self) -> Any:
        return self.micros + (self.months * _DAYS_PER_MONTH + self.days) * MICROS_PER_DAY


def time_sequence(start: Node, stop: Node, step: Node | None, site: Site) -> Node:
    """Returns the dates or timestamps from one to another; without a step it is a day, forward or back."""
    kind, zone = start.type, session_zone()
    if step is not None and step.type not in (types.DURATION, types.MONTHS):
        raise site.wrong_type("an interval as the step", step.type)
    by_months = step is not None and step.type == types.MONTHS

    def apply(first: pa.Array, last: pa.Array, *given: pa.Array) -> pa.Array:
        valid, (low, high, *by) = known_numbers(first, last, *given)
        steps = _split(by[0] if by else np.where(low <= high, 1, -1) * MICROS_PER_DAY, by_months)
        if kind == types.DATE and np.any(valid & (steps.months == 0) & (steps.days == 0)):
            raise site.error("a step of less than a day", None, "use interval 1 day, or more")
        plain = steps.micros == 0 if kind == types.DATE else steps.days == 0
        if np.all(~valid | (plain & (steps.months == 0))):
            numbers = steps.days if kind == types.DATE else steps.micros
            return listed(low, lengths_of(low, high, numbers, valid, site), numbers, valid, kind)
        return _by_local_time(low, high, steps, valid, kind, zone, site)

    parts = (start, stop) if step is None else (start, stop, step)
    return arrayed(pa.list_(kind), apply, site, parts, fallible=True)


def _split(by: Any, by_months: bool) -> _Steps:
    nothing = np.zeros_like(by)
    if by_months:
        return _Steps(by, nothing, nothing)
    days = truncated_quotient(by, MICROS_PER_DAY)
    return _Steps(nothing, days, by - days * MICROS_PER_DAY)


def _by_local_time(
    low: Any, high: Any, steps: _Steps, valid: Any, kind: pa.DataType, zone: Zone, site: Site
) -> pa.Array:
    """Returns the values of rows of which some need the calendar; dates of the others may be beyond all timestamps."""
    dates = kind == types.DATE
    needed = valid & ((steps.months != 0) | (steps.micros != 0)) if dates else valid
    begin, end = (day_starts(zone, np.where(needed, each, 0), None, site) if dates else each for each in (low, high))
    by = np.where(needed, steps.estimated, steps.days)
    beyond = np.where(needed & (by < 0), -1, 0)  # Backward, Spark goes on to one microsecond before the end.
    lengths = lengths_of(np.where(needed, begin, low), np.where(needed, end, high), by, valid, site, beyond)
    end = end + beyond
    rows, places = np.repeat(np.arange(len(lengths)), lengths), ranges(np.zeros(len(lengths), np.int64), lengths)
    times = _moved(
        begin[rows], places, _Steps(*(each[rows] for each in (steps.months, steps.days, steps.micros))), zone, site
    )
    values = np.where(needed[rows], zone.local(times)[0], low[rows] + places * steps.days[rows]) if dates else times
    # There may be fewer than estimated, and a day on which clocks change may bring the last one beyond the end.
    kept = ~needed[rows] | np.where(by[rows] > 0, times <= end[rows], times >= end[rows])
    counts = np.bincount(rows[kept], minlength=len(lengths))
    _check_next(begin, counts, steps, needed, zone, site)
    found = of_lengths(counts, to_arrow((values[kept], None), kind, int(kept.sum())), valid)
    return put_together(found, pa.list_(kind))


def _check_next(begin: Any, counts: Any, steps: _Steps, needed: Any, zone: Zone, site: Site) -> None:
    """Raises if there is no timestamp one step behind the last value: Spark computes it to see that it is too far."""
    parts = (begin, counts, steps.months, steps.days, steps.micros)
    first, number, months, days, micros = (each[needed] for each in parts)
    _moved(first, number, _Steps(months, days, micros), zone, site)


def _moved(begin: Any, times: Any, steps: _Steps, zone: Zone, site: Site) -> Any:
    """Returns instants, each so many times a step later."""
    days, of_day = zone.local(begin)
    moved = civil.plus_months(days, times * steps.months) + times * steps.days
    offset = zone.offset_s(begin // MICROS_PER_SECOND)
    still = (steps.months == 0) & (steps.days == 0)
    return np.where(still, begin, instants(zone, moved, of_day, None, site, offset)) + times * steps.micros
