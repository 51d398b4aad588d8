"""date_trunc and trunc: the start of the unit that contains a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import fill_null

from stretto.expressions import civil, types
from stretto.expressions.local_times import day_starts, instants, overflow
from stretto.expressions.moments import day, moment, string
from stretto.expressions.nodes import Node, Site, combine, computed, elementwise, null, selected
from stretto.expressions.registry import fixed
from stretto.expressions.vectors import Value, arrow_operand, dtype_of, to_arrow
from stretto.expressions.zones import MICROS_PER_SECOND, Zone, session_zone

_CLOCK_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": MICROS_PER_SECOND,
    "minute": 60 * MICROS_PER_SECOND,
    "hour": 3_600 * MICROS_PER_SECOND,
    "day": 86_400 * MICROS_PER_SECOND,
}
_CALENDAR_UNITS = ("week", "month", "quarter", "year")
_NAMES = {"mon": "month", "mm": "month", "yyyy": "year", "yy": "year", "dd": "day"}
#: Offsets are whole seconds, so these units are a division in every zone.
_SAME_EVERYWHERE = 1_000_000
_FIRST_DAY = -(2**31)


def _unit(name: str | None, known: tuple[str, ...]) -> str | None:
    """Returns the unit of a name, or None if it names none: then the result is null."""
    lowered = "" if name is None else name.lower()
    unit = _NAMES.get(lowered, lowered)
    return unit if unit in known else None


def date_trunc(site: Site, unit: Node, node: Node) -> Node:
    """Returns the start of the unit that contains the timestamp; null for an unknown unit."""
    known = (*_CLOCK_UNITS, *_CALENDAR_UNITS)
    return _by_unit(types.TIMESTAMP, unit, moment(node, site), known, _truncated_timestamp, site)


def trunc(site: Site, node: Node, unit: Node) -> Node:
    """Returns the first day of the unit that contains the date; null for an unknown unit."""
    return _by_unit(types.DATE, unit, day(node, site), _CALENDAR_UNITS, _truncated_date, site)


def _truncated_date(unit: str, inner: Node, site: Site) -> Node:
    """Returns the first days of units. At the ends of 32 bits Java's ints wrap around, but for quarters."""
    if unit == "week":
        return elementwise(types.DATE, lambda days: civil.next_weekday(days - np.int32(7), 0), site, (inner,))
    if unit == "quarter":
        return computed(types.DATE, lambda valid, days: (_quarter(days, valid, site), valid), site, (inner,))
    return elementwise(types.DATE, lambda days: civil.start_of(unit, days).astype(np.int32), site, (inner,))


def _quarter(days: Any, valid: Any, site: Site) -> Any:
    start = civil.start_of("quarter", days)
    early = start < _FIRST_DAY
    if np.any(early if valid is None else early & valid):
        raise site.error("date overflow", "the quarter of a date began before the first date", "use later dates")
    return start.astype(np.int32)


def _truncated_timestamp(unit: str, inner: Node, site: Site) -> Node:
    zone, step = session_zone(), _CLOCK_UNITS.get(unit)
    if step is not None and (step <= _SAME_EVERYWHERE or zone.is_utc):
        apply = _floor
    else:
        apply = _start_of_day if step is None else _start_on_clock
    return computed(
        types.TIMESTAMP, lambda valid, micros: (apply(zone, unit, micros, valid, site), valid), site, (inner,)
    )


def _floor(zone: Zone, unit: str, micros: Any, valid: Any, site: Site) -> Any:
    step = _CLOCK_UNITS[unit]
    below = micros // step * step
    wrapped = below > micros
    if np.any(wrapped if valid is None else wrapped & valid):
        raise overflow(site)
    return below


def _start_of_day(zone: Zone, unit: str, micros: Any, valid: Any, site: Site) -> Any:
    days, _ = zone.local(micros)
    return day_starts(zone, civil.start_of(unit, days), valid, site)


def _start_on_clock(zone: Zone, unit: str, micros: Any, valid: Any, site: Site) -> Any:
    """Returns the start of an hour, a minute or a day; of an hour that exists twice, the one that was meant."""
    days, of_day = zone.local(micros)
    step = _CLOCK_UNITS[unit]
    return instants(zone, days, of_day // step * step, valid, site, zone.offset_s(micros // MICROS_PER_SECOND))


def _by_unit(
    kind: pa.DataType,
    unit: Node,
    inner: Node,
    known: tuple[str, ...],
    build: Callable[[str, Node, Site], Node],
    site: Site,
) -> Node:
    """Returns the truncation to a unit that may differ from row to row."""
    names = string(unit, site)
    if not names.columns:
        chosen = _unit(arrow_operand(names.constant, types.STRING).as_py(), known)
        return null(kind, site) if chosen is None else build(chosen, inner, site)
    runs = {name: selected(build(name, inner, site)) for name in known}
    run_names = names.run

    def run(batch: pa.RecordBatch) -> Value:
        encoded = to_arrow(run_names(batch), types.STRING, batch.num_rows).dictionary_encode()
        units = [_unit(name, known) for name in encoded.dictionary.to_pylist()]
        places = fill_null(encoded.indices, len(units)).to_numpy(zero_copy_only=False)
        result, valid = np.zeros(batch.num_rows, dtype_of(kind)), np.zeros(batch.num_rows, np.bool_)
        for name in sorted({name for name in units if name is not None}):
            rows = np.array([each == name for each in [*units, None]])[places]
            values, one_valid = runs[name](batch, rows)
            result = np.where(rows, values, result)
            valid |= rows if one_valid is None else rows & one_valid
        return result, valid

    return combine(kind, run, site, (names, inner), fallible=True)


FUNCTIONS = {"date_trunc": fixed(date_trunc, 2), "trunc": fixed(trunc, 2)}
