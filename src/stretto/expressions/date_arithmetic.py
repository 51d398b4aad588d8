"""date_add, datediff, add_months, months_between, timestampadd, timestampdiff and next_day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import civil, types
from stretto.expressions.arithmetic import truncated_quotient
from stretto.expressions.casts import cast
from stretto.expressions.intervals import FIELD_MICROS
from stretto.expressions.moments import day, integer, moment, string
from stretto.expressions.nodes import Node, Site, arrayed, combine, computed, elementwise, slot
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.shifts import checked_sum, days_later, moved_days, moved_months, negated
from stretto.expressions.vectors import Value, arrow_operand, both_valid, reader, to_arrow
from stretto.expressions.zones import MICROS_PER_DAY, MICROS_PER_SECOND, session_zone

#: Functions whose first of three arguments is the bare name of a unit.
UNIT_FIRST = frozenset(("date_add", "dateadd", "timestampadd", "datediff", "date_diff", "timestampdiff", "timediff"))
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_MICROS = {"microsecond": 1, "millisecond": 1_000, **FIELD_MICROS, "week": 7 * MICROS_PER_DAY}
_UNITS = ", ".join((*_MICROS, *_MONTHS))
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS = {name[:size]: place for place, name in enumerate(_DAY_NAMES) for size in (2, 3, len(name))}
_INT_MAX = 2**31 - 1
_SECONDS_PER_MONTH = 31 * 86_400.0


def _count(node: Node, site: Site) -> Node:
    """Returns a number of days or months: an int, a smaller type, or a string of one."""
    if node.type in (types.NULL, types.STRING, types.INT, types.SMALLINT, types.TINYINT):
        return cast(node, types.INT, site)
    raise site.wrong_type("int", node.type)


def _unit(node: Node, site: Site) -> str:
    # A text in quotes is none: only the bare word.
    named = not node.columns and node.type == types.STRING and not node.site.part.startswith(("'", '"'))
    name = str(arrow_operand(node.constant, types.STRING).as_py()).lower() if named else node.site.part
    name = "day" if name == "dayofyear" else name
    if name not in _MICROS and name not in _MONTHS:
        raise site.error(f"there is no unit {name!r}", None, f"units: {_UNITS}")
    return name


def date_add(site: Site, *arguments: Node) -> Node:
    """Returns a date some days later, or with a unit a timestamp so much later."""
    if len(arguments) == 3:
        return timestampadd(site, *arguments)
    node, days = arguments
    return moved_days(day(node, site), _count(days, site), site)


def date_sub(site: Site, node: Node, days: Node) -> Node:
    return moved_days(day(node, site), negated(cast(_count(days, site), types.BIGINT, site), site), site)


def add_months(site: Site, node: Node, months: Node) -> Node:
    return moved_months(day(node, site), _count(months, site), site)


def timestampadd(site: Site, unit: Node, amount: Node, node: Node) -> Node:
    """Returns a timestamp so many units later."""
    name = _unit(unit, site)
    count = integer(amount, site, types.BIGINT)
    inner = moment(node, site)
    if name in _MONTHS:
        return _months_later(inner, count, _MONTHS[name], site)
    if name in _DAYS:
        return _days_later(inner, count, _DAYS[name], site)

    def apply(valid: Any, start: Any, amounts: Any) -> Value:
        return checked_sum(start, _times(amounts, _MICROS[name], valid, site), valid, types.TIMESTAMP, site), valid

    return computed(types.TIMESTAMP, apply, site, (inner, count))


def _days_later(node: Node, count: Node, size: int, site: Site) -> Node:
    """Returns a timestamp so many times some days later. These are no microseconds: days of 32 bits reach further."""
    zone = session_zone()

    def apply(valid: Any, start: Any, amounts: Any) -> Value:
        return days_later(zone, start, _int_times(amounts, size, valid, site), valid, site), valid

    return computed(types.TIMESTAMP, apply, site, (node, count))


def _months_later(node: Node, count: Node, size: int, site: Site) -> Node:
    """Returns a timestamp so many times some months later. Only where there is a timestamp, the number must fit."""
    moved = moved_months(slot(types.TIMESTAMP, "time", site), slot(types.MONTHS, "months", site), site).run

    def apply(times: pa.Array, counts: pa.Array) -> pa.Array:
        months, valid = reader(types.BIGINT)(counts)
        valid = both_valid(valid, reader(types.TIMESTAMP)(times)[1])
        spans = to_arrow((_int_times(months, size, valid, site), valid), types.MONTHS, len(counts))
        batch = pa.RecordBatch.from_arrays([times, spans], names=["time", "months"])
        return to_arrow(moved(batch), types.TIMESTAMP, len(times))

    return arrayed(types.TIMESTAMP, apply, site, (node, count), fallible=True)


def _int_times(amounts: Any, size: int, valid: Any, site: Site) -> Any:
    """Returns so many times some days or months, which 32 bits must hold."""
    over = np.abs(amounts.astype(np.float64)) * size > _INT_MAX
    if np.any(over if valid is None else over & valid):
        raise site.error("timestamp overflow", "an amount is too large", "use a smaller one")
    return np.where(over, 0, amounts)[()] * size


def _times(values: Any, size: int, valid: Any, site: Site) -> Any:
    over = (values > (2**63 - 1) // size) | (values < -(2**63 // size))
    if np.any(over if valid is None else over & valid):
        raise site.error("interval overflow", "an amount is too large", "use a smaller one")
    return np.where(over, 0, values)[()] * np.int64(size)


def datediff(site: Site, *arguments: Node) -> Node:
    """Returns the days from the second date to the first, or with a unit the units from the first to the second."""
    if len(arguments) == 3:
        return timestampdiff(site, *arguments)
    end, start = (day(node, site) for node in arguments)
    return elementwise(types.INT, lambda one, other: (one - other).astype(np.int32), site, (end, start))


def timestampdiff(site: Site, unit: Node, start: Node, end: Node) -> Node:
    """Returns the whole units from one local time to another."""
    name, zone = _unit(unit, site), session_zone()

    def apply(valid: Any, one: Any, other: Any) -> Value:
        (days, micros), (end_days, end_micros) = zone.local(one), zone.local(other)
        if name in _MONTHS:
            return _whole_months(days, micros, end_days, end_micros, _MONTHS[name]), valid
        return _whole_units(end_days - days, end_micros - micros, name, valid, site), valid

    nodes = (moment(start, site), moment(end, site))
    return computed(types.BIGINT, apply, site, nodes, fallible=name == "microsecond")


def _whole_units(days: Any, micros: Any, name: str, valid: Any, site: Site) -> Any:
    """Returns the whole units in so many days and microseconds, which together 64 bits may not hold."""
    carried = ((days < 0) & (micros > 0)).astype(np.int64) - ((days > 0) & (micros < 0))
    days, micros = days + carried, micros - carried * MICROS_PER_DAY
    size = _MICROS[name]
    if size >= MICROS_PER_DAY:
        return truncated_quotient(days, size // MICROS_PER_DAY)
    if size > 1:
        return days * (MICROS_PER_DAY // size) + truncated_quotient(micros, size)
    return checked_sum(_times(days, MICROS_PER_DAY, valid, site), micros, valid, types.BIGINT, site)


def _whole_months(days: Any, micros: Any, end_days: Any, end_micros: Any, size: int) -> Any:
    """Returns the whole months between local times: a month is over at the same day and time of the next."""
    later, earlier = (end_days > days) & (end_micros < micros), (end_days < days) & (end_micros > micros)
    end_days = end_days - later + earlier
    packed = [civil.months_of(each) * 32 + civil.day(each) for each in (days, end_days)]
    apart = packed[1] - packed[0]
    return truncated_quotient(apart, 32 * size)


def months_between(site: Site, end: Node, start: Node, rounding: Node | None = None) -> Node:
    """Returns the months between two timestamps, whole ones if both are on the same day of the month or its last;
    rounded to eight digits, unless told otherwise."""
    zone = session_zone()

    def exact(valid: Any, one: Any, other: Any) -> Value:
        dates = [zone.local(each) for each in (one, other)]
        months = [civil.months_of(days) for days, _ in dates]
        ordinals = [civil.day(days) for days, _ in dates]
        last = [civil.last_of_month(days) == days for days, _ in dates]
        starts = [zone.start_of_day(days) for days, _ in dates]
        same = (ordinals[0] == ordinals[1]) | (last[0] & last[1])
        # The first day that there is began before the first time, and its beginning wraps around.
        too_early = ((starts[0] > one) | (starts[1] > other)) & ~same
        if np.any(too_early if valid is None else too_early & valid):
            raise site.error("timestamp overflow", "the day of a timestamp began too early", "use later timestamps")
        seconds = [(one - starts[0]) // MICROS_PER_SECOND, (other - starts[1]) // MICROS_PER_SECOND]
        whole = (months[0] - months[1]).astype(np.float64)
        part = (ordinals[0] - ordinals[1]) * 86_400 + seconds[0] - seconds[1]
        return np.where(same, whole, whole + part / _SECONDS_PER_MONTH)[()], valid

    between = computed(types.DOUBLE, exact, site, (moment(end, site), moment(start, site)))
    rounded = elementwise(types.DOUBLE, lambda months: np.floor(months * 1e8 + 0.5) / 1e8, site, (between,))
    if rounding is None:
        return rounded
    if rounding.type not in (types.NULL, types.BOOLEAN, types.STRING):
        raise site.wrong_type("boolean", rounding.type)
    wish = cast(rounding, types.BOOLEAN, site)
    runs = (wish.run, rounded.run, between.run)

    def run(batch: pa.RecordBatch) -> Value:
        (wished, wish_valid), (short, valid), (long, _) = (part(batch) for part in runs)
        chosen: Any = np.where(wished, short, long)
        return chosen[()], both_valid(wish_valid, valid)

    return combine(types.DOUBLE, run, site, (wish, rounded, between))


def next_day(site: Site, node: Node, name: Node) -> Node:
    """Returns the first date after this one that is the named day of the week."""
    start, names = day(node, site), string(name, site)
    run_start, run_names = start.run, names.run

    def weekdays(strings: Any, wanted: Any) -> Any:
        encoded = strings.dictionary_encode()
        places = [-1 if text is None else _WEEKDAYS.get(text.lower(), -1) for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
        found = np.array([*places, -1])[indices]
        if np.any((found < 0) & wanted):
            bad = strings[int(((found < 0) & wanted).argmax())].as_py()
            raise site.error(f"{bad!r} is not a day of the week", None, "write Monday, MON or MO, for example")
        return found

    def run(batch: pa.RecordBatch) -> Value:
        days, valid = run_start(batch)
        given = arrow_operand(run_names(batch), types.STRING)
        if isinstance(given, pa.Scalar):
            given_valid = np.bool_(given.is_valid)
            asked = given_valid & (valid is None or np.any(valid))
            wanted = weekdays(pa.array([given.as_py()], types.STRING), np.array([asked]))[0]
        else:
            given_valid = given.is_valid().to_numpy(zero_copy_only=False)
            wanted = weekdays(given, given_valid & (True if valid is None else valid))
        return civil.next_weekday(days, wanted), both_valid(valid, None if np.all(given_valid) else given_valid)

    return combine(types.DATE, run, site, (start, names), fallible=True)


FUNCTIONS = with_aliases(
    {
        "date_add": Function(date_add, 2, 3),
        "date_sub": fixed(date_sub, 2),
        "timestampadd": fixed(timestampadd, 3),
        "datediff": Function(datediff, 2, 3),
        "timestampdiff": fixed(timestampdiff, 3),
        "timediff": fixed(timestampdiff, 3),
        "add_months": fixed(add_months, 2),
        "months_between": Function(months_between, 2, 3),
        "next_day": fixed(next_day, 2),
    },
    dateadd="date_add",
    date_diff="datediff",
)
