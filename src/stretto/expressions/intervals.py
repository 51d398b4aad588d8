"""Intervals: literals such as `INTERVAL '1 02:03:04' DAY TO SECOND`, and the fields that an interval's type has.

A day-time interval is a number of microseconds, a year-month interval a number of months. Spark's types also say which
fields an interval has (`interval day`, `interval hour to second`); that decides how it is written and whether a date
that it is added to stays a date. Arrow's types do not have this, so a node does: `Node.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.nodes import Node, Site, constant
from stretto.expressions.vectors import INT64_MAX
from stretto.expressions.zones import MICROS_PER_DAY, MICROS_PER_SECOND

DAY_TIME = ("day", "hour", "minute", "second")
YEAR_MONTH = ("year", "month")
FIELD_MICROS = {"day": MICROS_PER_DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": MICROS_PER_SECOND}
_INT_MAX = 2**31 - 1
#: A unit: how many of which field, and the field it counts as in the type.
_UNITS = {
    "year": (12, "year"),
    "month": (1, "month"),
    "week": (7 * MICROS_PER_DAY, "day"),
    "day": (MICROS_PER_DAY, "day"),
    "hour": (FIELD_MICROS["hour"], "hour"),
    "minute": (FIELD_MICROS["minute"], "minute"),
    "second": (MICROS_PER_SECOND, "second"),
    "millisecond": (1_000, "second"),
    "microsecond": (1, "second"),
}
_WORDS = re.compile(r"\s*([+-]?)\s*(\d*)(\.\d*)?\s+([a-z]+)(?:\s+|$)", re.IGNORECASE)
_FIRST_MAX = {"hour": 23, "minute": 59, "second": 59}


def whole_fields(kind: pa.DataType) -> tuple[str, str]:
    """Returns the fields of an interval of which no more is known."""
    return ("year", "month") if kind == types.MONTHS else ("day", "second")


def fields_of(node: Node) -> tuple[str, str]:
    """Returns the first and the last field of an interval's type."""
    return node.fields or whole_fields(node.type)


def united(left: Node, right: Node) -> tuple[str, str]:
    """Returns the fields of the common type of two intervals."""
    order = YEAR_MONTH if left.type == types.MONTHS else DAY_TIME
    places = [order.index(field) for node in (left, right) for field in fields_of(node)]
    return order[min(places)], order[max(places)]


def united_over(node: Node, parts: Sequence[Node]) -> Node:
    """Returns the node; an interval that is chosen among intervals has the fields of all of them."""
    spans = [part for part in parts if part.type == node.type]
    if not is_interval(node.type) or node.fields is not None or not spans:
        return node
    fields = fields_of(spans[0])
    for span in spans[1:]:
        fields = united(with_fields(node, fields), span)
    return with_fields(node, fields)


def with_fields(node: Node, fields: tuple[str, str]) -> Node:
    return replace(node, fields=fields)


def is_interval(kind: pa.DataType) -> bool:
    return kind in (types.DURATION, types.MONTHS)


def interval(text: str, first: str | None, last: str | None, site: Site) -> Node:
    """Returns `INTERVAL '1 day 2 hours'`, `INTERVAL 5 SECONDS` (one unit), or with two units `... DAY TO SECOND`."""
    if first is not None and last is not None:
        return _from_to(text, first.lower(), last.lower(), site)
    return _from_words(text if first is None else f"{text} {first}", site)


def _unreadable(text: str, site: Site, detail: str = "") -> Exception:
    known = ", ".join(_UNITS)
    return site.error(
        "an interval that cannot be read",
        f"got {text!r}" + (f": {detail}" if detail else ""),
        f"write INTERVAL 5 SECONDS, or INTERVAL '1 02:03:04' DAY TO SECOND; units: {known}",
    )


def _from_words(text: str, site: Site) -> Node:
    rest = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    units: list[str] = []
    total = position = 0
    while position < len(rest.rstrip()) or not units:
        found = _WORDS.match(rest, position)
        name = found[4].lower().removesuffix("s") if found else ""
        if found is None or name not in _UNITS or not (found[2] or found[3]):
            raise _unreadable(text, site)
        size, field = _UNITS[name]
        if found[3] and name != "second":
            raise _unreadable(text, site, f"{name} cannot have a fraction")
        digits = (found[3] or ".")[1:]
        if len(digits) > 9:
            raise _unreadable(text, site, "more than nine digits after the point")
        amount = int(found[2] or 0) * size + int(digits[:6].ljust(6, "0"))
        total += -amount if found[1] == "-" else amount
        units.append(field)
        position = found.end()
    if len({field in YEAR_MONTH for field in units}) > 1:
        raise site.error(
            "an interval of months and of time", f"got {text!r}", "add the two intervals one after the other"
        )
    return literal(total, units, site)


def literal(total: int, units: list[str], site: Site) -> Node:
    """Returns an interval with the fields from the largest to the smallest unit."""
    order = YEAR_MONTH if units[0] in YEAR_MONTH else DAY_TIME
    places = [order.index(unit) for unit in units]
    kind = types.MONTHS if order is YEAR_MONTH else types.DURATION
    if abs(total) > (_INT_MAX if order is YEAR_MONTH else INT64_MAX):
        raise site.error("interval overflow", None, "use a smaller interval")
    return with_fields(constant(kind, (np.int64(total), None), site), (order[min(places)], order[max(places)]))


def _from_to(text: str, first: str, last: str, site: Site) -> Node:
    order = YEAR_MONTH if first in YEAR_MONTH else DAY_TIME
    if first not in order or last not in order or order.index(first) >= order.index(last):
        raise _unreadable(text, site, f"{first} to {last}".upper())
    body, sign = text.strip(), 1
    if body[:1] in ("+", "-"):
        body, sign = body[1:], -1 if body[0] == "-" else 1
    amount = _year_month(body) if order is YEAR_MONTH else _day_time(body, first, last)
    if amount is None:
        raise _unreadable(text, site, f"{first} to {last}".upper())
    return literal(sign * amount, [first, last], site)


def _year_month(body: str) -> int | None:
    found = re.fullmatch(r"(\d+)-(\d+)", body)
    return None if found is None or int(found[2]) > 11 else int(found[1]) * 12 + int(found[2])


def _day_time(body: str, first: str, last: str) -> int | None:
    """Returns the microseconds of `1 02:03:04.5`, from its first to its last field."""
    names = DAY_TIME[DAY_TIME.index(first) : DAY_TIME.index(last) + 1]
    separators = {"day": r"\s+", "hour": ":", "minute": ":"}
    pattern = "".join(rf"(?P<{name}>\d+)" + separators.get(name, "") for name in names[:-1])
    pattern += rf"(?P<{last}>\d+)" + (r"(?:\.(?P<fraction>\d{1,9}))?" if last == "second" else "")
    found = re.fullmatch(pattern, body)
    if found is None:
        return None
    if any(int(found[name]) > _FIRST_MAX[name] for name in names[1:]):
        return None
    total = sum(int(found[name]) * FIELD_MICROS[name] for name in names)
    return total + int((found["fraction"] or "0")[:6].ljust(6, "0")) if last == "second" else total


def interval_text(fields: tuple[str, str]) -> Any:
    """Returns a function from one interval to its text, such as INTERVAL '1 02:03:04' DAY TO SECOND."""
    write = _year_month_digits if fields[0] in YEAR_MONTH else _day_time_digits
    words = " TO ".join(dict.fromkeys(field.upper() for field in fields))

    def text(value: Any) -> str:
        sign = "-" if value < 0 else ""
        return f"INTERVAL '{sign}{write(abs(int(value)), *fields)}' {words}"

    return text


def _year_month_digits(months: int, first: str, last: str) -> str:
    if first == last:
        return str(months // 12 if first == "year" else months)
    return f"{months // 12}-{months % 12}"


def _day_time_digits(micros: int, first: str, last: str) -> str:
    names = DAY_TIME[DAY_TIME.index(first) : DAY_TIME.index(last) + 1]
    parts = []
    for name in names:
        amount, micros = divmod(micros, FIELD_MICROS[name])
        parts.append(str(amount) if name == "day" else f"{amount:02d}")
    if last == "second" and micros:
        parts[-1] += f".{micros:06d}".rstrip("0")
    text = ":".join(parts)
    return text.replace(":", " ", 1) if first == "day" else text
