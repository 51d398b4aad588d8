"""Dates, timestamps and intervals. The session's time zone is UTC, so a day is always 24 hours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.casts import MICROS_PER_DAY, MICROS_PER_SECOND, cast, times_micros
from stretto.expressions.nodes import Node, Site, constant, constant_argument, elementwise, kernel, null
from stretto.expressions.registry import fixed, with_aliases

_UNIT_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": MICROS_PER_SECOND,
    "minute": 60 * MICROS_PER_SECOND,
    "hour": 3_600 * MICROS_PER_SECOND,
    "day": MICROS_PER_DAY,
    "week": 7 * MICROS_PER_DAY,
}
_UNIT_MONTHS = {"month": 1, "year": 12}
_AMOUNT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_TRUNCATED_BY_DIVISION = {"microsecond", "millisecond", "second", "minute", "hour", "day"}
_TRUNCATED_BY_CALENDAR = {"week", "month", "quarter", "year"}
_TRUNC_NAMES = {"mon": "month", "mm": "month", "yyyy": "year", "yy": "year", "dd": "day"}


def interval(amount: str, unit: str | None, site: Site) -> Node:
    """Returns `INTERVAL 5 SECONDS`, `INTERVAL '5' SECONDS` or `INTERVAL '1 day 2 hours'`."""
    text = f"{amount} {unit}" if unit else amount
    micros, months, position = 0, 0, 0
    while position < len(text):
        found = _AMOUNT.match(text, position)
        name = found.group(2).lower().removesuffix("s") if found else ""
        if found is None or (name not in _UNIT_MICROS and name not in _UNIT_MONTHS):
            known = ", ".join([*_UNIT_MICROS, *_UNIT_MONTHS])
            raise site.error(
                "an interval that cannot be read", f"got {text!r}", f"write INTERVAL 5 SECONDS; units: {known}"
            )
        number = float(found.group(1))
        if name in _UNIT_MICROS:
            micros += round(number * _UNIT_MICROS[name])
        else:
            months += int(number) * _UNIT_MONTHS[name]
        position = found.end()
    if months and micros:
        raise site.error("an interval of months and of time", None, "add the two intervals one after the other")
    if months:
        return constant(types.MONTHS, (np.int64(months), None), site)
    return constant(types.DURATION, (np.int64(micros), None), site)


def time_arithmetic(operator: str, left: Node, right: Node, site: Site) -> Node | None:
    """Returns `+` or `-` where a side is a time or an interval; None if neither is."""
    spans = (types.DURATION, types.MONTHS)
    if not any(types.is_temporal(side.type) or side.type in spans for side in (left, right)):
        return None
    if operator == "+" and types.is_temporal(right.type) and not types.is_temporal(left.type):
        left, right = right, left
    if operator not in "+-":
        raise site.mismatch(left.type, right.type)
    if types.NULL in (left.type, right.type):
        return null(left.type if right.type == types.NULL else right.type, site)
    apply: Callable[..., Any] = np.add if operator == "+" else np.subtract
    if left.type == right.type == types.DURATION:
        return elementwise(types.DURATION, apply, site, (left, right))
    if types.is_temporal(left.type):
        if types.is_temporal(right.type) and operator == "-":
            a, b = cast(left, types.TIMESTAMP, site), cast(right, types.TIMESTAMP, site)
            return elementwise(types.DURATION, np.subtract, site, (a, b))
        if right.type == types.DURATION:
            return _shift(apply, left, right, site)
        if right.type == types.MONTHS:
            return _shift_months(left, int(right.constant[0]) * (1 if operator == "+" else -1), site)
        if left.type == types.DATE and types.is_integral(right.type) and right.type != types.BIGINT:
            return elementwise(types.DATE, lambda a, b: apply(a, b).astype(np.int32), site, (left, right))
    raise site.mismatch(left.type, right.type)


def _shift(apply: Callable[..., Any], left: Node, right: Node, site: Site) -> Node:
    """Returns a shifted time. A date shifted by whole days stays a date, else it becomes a timestamp."""
    if left.type == types.DATE and not right.columns and int(right.constant[0]) % MICROS_PER_DAY == 0:
        days = np.int32(int(right.constant[0]) // MICROS_PER_DAY)
        return elementwise(types.DATE, lambda values: apply(values, days).astype(np.int32), site, (left,))
    return elementwise(types.TIMESTAMP, apply, site, (cast(left, types.TIMESTAMP, site), right))


def _shift_months(node: Node, months: int, site: Site) -> Node:
    """Returns the same day some months later, or the last day of that month if it is shorter."""

    def shift_days(days: Any) -> Any:
        dates = np.asarray(days).astype("datetime64[D]")
        month = dates.astype("datetime64[M]")
        day = dates - month.astype("datetime64[D]")
        target = month + months
        last = (target + 1).astype("datetime64[D]") - target.astype("datetime64[D]") - 1
        return (target.astype("datetime64[D]") + np.minimum(day, last)).astype(np.int64)

    if node.type == types.DATE:
        return elementwise(types.DATE, lambda days: shift_days(days).astype(np.int32)[()], site, (node,))

    def shift(micros: Any) -> Any:
        days, rest = np.divmod(micros, MICROS_PER_DAY)
        return (shift_days(days) * MICROS_PER_DAY + rest)[()]

    return elementwise(types.TIMESTAMP, shift, site, (node,))


def moment(node: Node, site: Site) -> Node:
    """Returns the node, which must be a date or a timestamp, as a timestamp."""
    if node.type == types.NULL or types.is_temporal(node.type):
        return cast(node, types.TIMESTAMP, site)
    raise site.wrong_type("timestamp or date", node.type)


def calendar_field(extract: Callable[..., Any]) -> Callable[[Site, Node], Node]:
    """Returns the builder of year, month or day, which need the calendar."""
    return lambda site, node: kernel(
        types.INT, lambda values: pc.cast(extract(values), types.INT), site, (moment(node, site),)
    )


def clock_field(unit_micros: int, modulus: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of hour, minute or second, which in UTC are a division."""

    def build(site: Site, node: Node) -> Node:
        def extract(micros: Any) -> Any:
            return (micros // unit_micros % modulus).astype(np.int32)

        return elementwise(types.INT, extract, site, (moment(node, site),))

    return build


def date_trunc(site: Site, unit: Node, node: Node) -> Node:
    """Returns the start of the unit that contains the timestamp."""
    name = str(constant_argument(unit, types.STRING, "the unit of date_trunc")).lower()
    name = _TRUNC_NAMES.get(name, name)
    inner = moment(node, site)
    if name in _TRUNCATED_BY_DIVISION:
        step = _UNIT_MICROS[name]
        return elementwise(types.TIMESTAMP, lambda micros: micros // step * step, site, (inner,))
    if name in _TRUNCATED_BY_CALENDAR:
        return kernel(types.TIMESTAMP, lambda values: pc.floor_temporal(values, unit=name), site, (inner,))
    known = ", ".join(sorted(_TRUNCATED_BY_DIVISION | _TRUNCATED_BY_CALENDAR))
    raise site.error(f"unknown unit {name!r}", None, f"units: {known}")


def since_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of unix_seconds, unix_millis or unix_micros."""

    def build(site: Site, node: Node) -> Node:
        return elementwise(types.BIGINT, lambda micros: micros // unit_micros, site, (moment(node, site),))

    return build


def from_epoch(unit_micros: int) -> Callable[[Site, Node], Node]:
    """Returns the builder of timestamp_seconds, timestamp_millis or timestamp_micros."""

    def build(site: Site, node: Node) -> Node:
        if unit_micros == MICROS_PER_SECOND and types.is_numeric(node.type):
            return cast(node, types.TIMESTAMP, site)
        if node.type != types.NULL and not types.is_integral(node.type):
            raise site.wrong_type("bigint", node.type)
        return times_micros(cast(node, types.BIGINT, site), unit_micros, site)

    return build


def to_date(site: Site, node: Node) -> Node:
    return cast(node, pa.date32(), site)


FUNCTIONS = with_aliases(
    {
        "year": fixed(calendar_field(pc.year), 1),
        "month": fixed(calendar_field(pc.month), 1),
        "day": fixed(calendar_field(pc.day), 1),
        "hour": fixed(clock_field(3_600_000_000, 24), 1),
        "minute": fixed(clock_field(60_000_000, 60), 1),
        "second": fixed(clock_field(1_000_000, 60), 1),
        "date_trunc": fixed(date_trunc, 2),
        "to_date": fixed(to_date, 1),
        "unix_seconds": fixed(since_epoch(1_000_000), 1),
        "unix_millis": fixed(since_epoch(1_000), 1),
        "unix_micros": fixed(since_epoch(1), 1),
        "timestamp_seconds": fixed(from_epoch(1_000_000), 1),
        "timestamp_millis": fixed(from_epoch(1_000), 1),
        "timestamp_micros": fixed(from_epoch(1), 1),
    },
    dayofmonth="day",
)
