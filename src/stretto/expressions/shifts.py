"""`+` and `-` of dates, timestamps and intervals, and an interval times or divided by a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import civil, decimals, intervals, types
from stretto.expressions.arithmetic import negate, truncated_quotient
from stretto.expressions.casts import cast
from stretto.expressions.local_times import fitting, instants
from stretto.expressions.nodes import Node, Site, computed, elementwise, null
from stretto.expressions.vectors import INT64_MAX, Value, bound, widened
from stretto.expressions.zones import MICROS_PER_DAY, MICROS_PER_SECOND, Zone, session_zone

_DAYS_MAX = 2**31 - 1
_ONE_DAY = ("day", "day")


def time_arithmetic(operator: str, left: Node, right: Node, site: Site) -> Node | None:
    """Returns an operation where a side is a time or an interval; None if neither is."""
    timed = [types.is_temporal(side.type) for side in (left, right)]
    spans = [intervals.is_interval(side.type) for side in (left, right)]
    if not any(timed) and not any(spans):
        return None
    if operator in ("*", "/") and not any(timed):
        return _scaled(operator, left, right, site)
    if operator == "-" and any(timed) and not spans[1] and not _is_count(right):
        return _difference(left, right, site)
    if operator == "+" and not timed[0] and (timed[1] or (spans[0] and not spans[1])):
        left, right = right, left
    if operator not in ("+", "-"):
        raise site.mismatch(left.type, right.type)
    if types.is_temporal(left.type):
        return _shifted_time(operator, left, right, site)
    if intervals.is_interval(right.type):
        return _shifted_interval(operator, left, right, site)
    if right.type == types.NULL:
        return intervals.with_fields(null(left.type, site), intervals.fields_of(left))
    raise site.mismatch(left.type, right.type)


def _is_count(node: Node) -> bool:
    """Whether this is a number of days that a date can be moved by."""
    return types.is_integral(node.type) and node.type != types.BIGINT


def _shifted_time(operator: str, left: Node, right: Node, site: Site) -> Node:
    if right.type == types.NULL:
        return null(types.TIMESTAMP, site)
    if left.type == types.DATE and _is_count(right):
        days = cast(right, types.BIGINT, site)  # -(-32768) is no smallint.
        return moved_days(left, negated(days, site) if operator == "-" else days, site)
    if not intervals.is_interval(right.type):
        raise site.mismatch(left.type, right.type)
    return plus(left, negated(right, site) if operator == "-" else right, site)


def _shifted_interval(operator: str, left: Node, right: Node, site: Site) -> Node:
    if left.type == types.NULL:
        return intervals.with_fields(null(right.type, site), intervals.fields_of(right))
    if left.type == types.STRING and right.type == types.DURATION:
        moved = plus(cast(left, types.TIMESTAMP, site), negated(right, site) if operator == "-" else right, site)
        return cast(moved, types.STRING, site)
    if left.type != right.type:
        raise site.mismatch(left.type, right.type)

    def apply(valid: Any, one: Any, other: Any) -> Value:
        if operator == "+":
            return checked_sum(one, other, valid, left.type, site), valid
        # Not by the opposite, since the lowest interval has none.
        if bound(one) + bound(other) < 2**31:
            return one - other, valid
        return _fitting(widened(one) - widened(other), valid, left.type, site), valid

    return intervals.with_fields(computed(left.type, apply, site, (left, right)), intervals.united(left, right))


def negated(node: Node, site: Site) -> Node:
    """Returns an interval, or a number of days, with the other sign."""
    if intervals.is_interval(node.type):
        return negate(node, site)
    return elementwise(node.type, np.negative, site, (node,))


def moved_days(node: Node, days: Node, site: Site) -> Node:
    """Returns a date some days later; it wraps at the ends of 32 bits, as in Spark."""
    return elementwise(
        types.DATE, lambda one, other: (one + other.astype(np.int64)).astype(np.int32), site, (node, days)
    )


def plus(node: Node, span: Node, site: Site) -> Node:
    """Returns a time plus an interval. A date stays one if the interval has only days, or months."""
    if span.type == types.MONTHS:
        return moved_months(node, span, site)
    if node.type == types.DATE and intervals.fields_of(span) == _ONE_DAY:
        return moved_days(node, elementwise(types.BIGINT, lambda us: us // MICROS_PER_DAY, site, (span,)), site)
    inner = cast(node, types.TIMESTAMP, site)
    zone = session_zone()

    def apply(valid: Any, micros: Any, amount: Any) -> Value:
        if zone.is_utc:
            return checked_sum(micros, amount, valid, types.TIMESTAMP, site), valid
        # Whole days are days of the calendar, which may have 23 or 25 hours; the rest is time that passes.
        whole = truncated_quotient(amount, MICROS_PER_DAY)
        moved = np.where(whole == 0, micros, days_later(zone, micros, whole, valid, site))[()]
        return checked_sum(moved, amount - whole * MICROS_PER_DAY, valid, types.TIMESTAMP, site), valid

    return computed(types.TIMESTAMP, apply, site, (inner, span))


def days_later(zone: Zone, micros: Any, days: Any, valid: Any, site: Site) -> Any:
    """Returns instants so many days of the calendar later, at the same local time."""
    today, of_day = zone.local(micros)
    offset = zone.offset_s(micros // MICROS_PER_SECOND)
    return instants(zone, today + days, of_day, valid, site, offset)


def moved_months(node: Node, months: Node, site: Site) -> Node:
    """Returns the same day some months later, or the last day of that month if it is shorter."""
    if node.type == types.DATE:
        return computed(
            types.DATE, lambda valid, days, count: (_date_after(days, count, valid, site), valid), site, (node, months)
        )
    zone = session_zone()

    def apply(valid: Any, micros: Any, count: Any) -> Value:
        days, of_day = zone.local(micros)
        offset = zone.offset_s(micros // MICROS_PER_SECOND)
        return instants(zone, civil.plus_months(days, count), of_day, valid, site, offset), valid

    return computed(types.TIMESTAMP, apply, site, (node, months))


def _date_after(days: Any, months: Any, valid: Any, site: Site) -> Any:
    moved = civil.plus_months(days, months)
    if bound(moved) > _DAYS_MAX:
        outside = np.abs(moved) > _DAYS_MAX
        if np.any(outside if valid is None else outside & valid):
            raise site.error("date overflow", "a date does not fit its type", "add fewer months")
    return moved.astype(np.int32)


def _difference(left: Node, right: Node, site: Site) -> Node:
    """Returns the interval between two times; between timestamps it is that of their local times."""
    if types.TIMESTAMP not in (left.type, right.type):
        if not all(side.type in (types.DATE, types.STRING, types.NULL) for side in (left, right)):
            raise site.mismatch(left.type, right.type)
        days = [cast(side, types.DATE, site) for side in (left, right)]

        def between(valid: Any, one: Any, other: Any) -> Value:
            apart = one.astype(np.int64) - other
            if bound(apart) <= INT64_MAX // MICROS_PER_DAY:
                return apart * MICROS_PER_DAY, valid
            return _fitting(widened(apart) * MICROS_PER_DAY, valid, types.DURATION, site), valid

        return intervals.with_fields(computed(types.DURATION, between, site, days), _ONE_DAY)
    kinds = (types.DATE, types.TIMESTAMP, types.STRING, types.NULL)
    if left.type not in kinds or right.type not in kinds:
        raise site.mismatch(left.type, right.type)
    moments = [cast(side, types.TIMESTAMP, site) for side in (left, right)]
    zone = session_zone()

    def apply(valid: Any, one: Any, other: Any) -> Value:
        if not zone.is_utc:
            offsets = (zone.offset_s(each // MICROS_PER_SECOND) for each in (one, other))
            apart = (next(offsets) - next(offsets)) * MICROS_PER_SECOND
            one = checked_sum(one, apart, valid, types.DURATION, site)
        if bound(one) + bound(other) <= INT64_MAX:
            return one - other, valid
        return _fitting(widened(one) - widened(other), valid, types.DURATION, site), valid

    return computed(types.DURATION, apply, site, moments)


def checked_sum(one: Any, other: Any, valid: Any, kind: pa.DataType, site: Site) -> Any:
    """Returns the sum of whole numbers; raises if a valid one does not fit the type."""
    if bound(one) + bound(other) <= (INT64_MAX if kind != types.MONTHS else 2**31 - 1):
        return one + other
    return _fitting(widened(one) + widened(other), valid, kind, site)


def _fitting(values: Any, valid: Any, kind: pa.DataType, site: Site) -> Any:
    if kind == types.TIMESTAMP:
        return fitting(values, valid, site)
    limit = 2**31 if kind == types.MONTHS else INT64_MAX + 1
    inside = np.asarray((values >= -limit) & (values < limit), np.bool_)
    if not np.all(inside if valid is None else inside | ~valid):
        raise site.error("interval overflow", "an interval does not fit its type", "use smaller values")
    return np.where(inside, values, 0).astype(np.int64)[()]


def _scaled(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns an interval times a number, or divided by one; half a microsecond, or month, is rounded away from 0."""
    if operator == "*" and not intervals.is_interval(left.type):
        left, right = right, left
    if right.type in (types.STRING, types.NULL):
        right = cast(right, types.DOUBLE, site)
    if not intervals.is_interval(left.type) or not types.is_numeric(right.type):
        raise site.mismatch(left.type, right.type)
    kind, scale = left.type, right.type.scale if types.is_decimal(right.type) else 0
    fractional = types.is_fractional(right.type)

    def apply(valid: Any, span: Any, number: Any) -> Value:
        if operator == "/" and np.any((number == 0) if valid is None else (number == 0) & valid):
            raise site.error("division of an interval by zero", None, "use try_divide, or filter zeros out first")
        if fractional:
            return _rounded(span, number, operator, valid, kind, site), valid
        ones, others = widened(span), widened(number)
        if operator == "*":
            result = decimals.divide_half_up(ones * others, 10**scale) if scale else ones * others
        else:
            others = np.where(others == 0, 1, others) if np.ndim(others) else others or 1
            result = decimals.divide_half_up(ones * 10**scale, others)
        return _fitting(result, valid, kind, site), valid

    return intervals.with_fields(computed(kind, apply, site, (left, right)), intervals.whole_fields(kind))


def _rounded(span: Any, number: Any, operator: str, valid: Any, kind: pa.DataType, site: Site) -> Any:
    number = np.float64(number)
    exact = span * number if operator == "*" else span / number
    whole = np.rint(exact)
    whole = np.where(np.abs(exact - whole) == 0.5, exact + np.copysign(0.5, exact), whole)
    limit = 2.0**31 if kind == types.MONTHS else 2.0**63
    inside = (whole >= -limit) & (whole < limit)
    if not np.all(inside if valid is None else inside | ~valid):
        raise site.error("interval overflow", "an interval does not fit its type", "use smaller values")
    return np.where(inside, whole, 0).astype(np.int64)[()]
