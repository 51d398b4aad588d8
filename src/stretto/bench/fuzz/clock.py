"""Texts that are a time alone, such as '12:34', which Spark reads as a time of today; here they name the day.

The day is that of UTC, so that of another zone proves nothing for some hours."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pat

from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.terms import LITERAL

_TIME = re.compile(r"T?\d{1,2}:\d{1,2}(:.*)?", re.DOTALL)


def with_today(case: Case) -> Case | None:
    """Returns a case in which texts that are a time alone name today's date; None if there are none."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    term, columns = case.term, []
    for path, leaf in list(term.places()):
        if leaf.label == LITERAL and (dated := _dated(leaf.text.strip("'"), today)):
            term = term.with_replaced(path, replace(leaf, pieces=(f"'{dated}'",)))
    for field, array in zip(case.rows.schema, case.rows.columns, strict=True):
        values = array.to_pylist() if pat.is_string(field.type) and field.name in term.columns() else []
        named = [value and (_dated(value, today) or value) for value in values]
        columns.append(array if named == values else pa.array(named, pa.string()))
    rows = pa.record_batch(columns, schema=case.rows.schema)
    return None if term == case.term and rows == case.rows else Case(term, rows)


def _dated(text: str, today: str) -> str | None:
    """Returns a time with today's date before it; None if the text is none."""
    return f"{today} {text.strip().lstrip('T')}" if _TIME.fullmatch(text.strip()) else None
