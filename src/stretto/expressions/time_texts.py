"""Dates and timestamps as text, as CAST to string writes them: 2024-02-29 and 2024-02-29 12:30:00.5.

The digits are written into a matrix of bytes, a column for each place, which becomes the text of an Arrow array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import civil, types
from stretto.expressions.nodes import Node, Site, combine
from stretto.expressions.vectors import Value
from stretto.expressions.zones import MICROS_PER_SECOND, session_zone

_LAST_PLAIN_YEAR = 9_999
_ZERO = ord("0")


def written(node: Node, write: Callable[[Any], pa.Array], site: Site, fallible: bool = False) -> Node:
    """Returns the text of a number, a date or a timestamp; `write` makes an Arrow array of a numpy array."""
    inner = node.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = inner(batch)
        if valid is not None and not np.any(valid):
            return (pa.scalar(None, types.STRING) if np.ndim(valid) == 0 else pa.nulls(len(valid), types.STRING)), None
        if np.ndim(values) == 0 and np.ndim(valid) == 0:
            return write(np.array([values]))[0], None
        strings = write(np.broadcast_to(values, np.shape(values) or np.shape(valid)))
        return (strings if valid is None else pc.if_else(pa.array(valid), strings, None)), None

    return combine(types.STRING, run, site, (node,), fallible)


def date_writer() -> Callable[[Any], pa.Array]:
    """Returns a function from days since 1970 to texts."""
    return lambda days: _with_years(days, np.empty((len(days), 0), np.uint8))


def timestamp_writer() -> Callable[[Any], pa.Array]:
    """Returns a function from timestamps to texts in the session's zone, without zeros at the end of a fraction."""
    zone = session_zone()

    def write(micros: Any) -> pa.Array:
        days, of_day = zone.local(micros)
        seconds, fraction = of_day // MICROS_PER_SECOND, of_day % MICROS_PER_SECOND
        clock = _matrix(len(days), " 00:00:00.000000" if fraction.any() else " 00:00:00")
        put_digits(clock, 1, 2, seconds // 3_600)
        put_digits(clock, 4, 2, seconds // 60 % 60)
        put_digits(clock, 7, 2, seconds % 60)
        if clock.shape[1] == len(" 00:00:00"):
            return _with_years(days, clock)
        put_digits(clock, 10, 6, fraction)
        padded = _with_years(days, clock)
        return pc.utf8_rtrim(pc.utf8_rtrim(padded, characters="0"), characters=".")

    return write


def _with_years(days: Any, clock: Any) -> pa.Array:
    years, months, of_month = civil.date_of(days)
    plain = not len(years) or (years.min() >= 0 and years.max() <= _LAST_PLAIN_YEAR)
    text = _matrix(len(days), "0000-00-00" if plain else "-00-00")
    place = 4 if plain else 0
    put_digits(text, place + 1, 2, months)
    put_digits(text, place + 4, 2, of_month)
    if plain:
        put_digits(text, 0, 4, years)
    rest = fixed_width(np.concatenate([text, clock], axis=1))
    return rest if plain else pc.binary_join_element_wise(per_distinct(years, year_text), rest, "")


def year_text(year: int) -> str:
    """Returns a year of at least four digits, with a sign if it is before 0 or after 9999."""
    return f"{'-' if year < 0 else '+' if year > _LAST_PLAIN_YEAR else ''}{abs(year):04d}"


def per_distinct(values: Any, write: Callable[[Any], str | None]) -> pa.Array:
    """Returns texts by one call for each distinct value."""
    distinct, places = np.unique(values, return_inverse=True)
    return pa.array([write(value.item()) for value in distinct], types.STRING).take(pa.array(places.reshape(-1)))


def _matrix(rows: int, form: str) -> Any:
    return np.tile(np.frombuffer(form.encode(), np.uint8), (rows, 1))


def put_digits(matrix: Any, place: int, width: int, values: Any) -> None:
    """Writes so many decimal digits of numbers into columns of a matrix of bytes."""
    for column in range(place + width - 1, place - 1, -1):
        matrix[:, column] = values % 10 + _ZERO
        values = values // 10


def fixed_width(matrix: Any) -> pa.Array:
    """Returns the rows of a matrix of bytes as strings."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(types.STRING, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
