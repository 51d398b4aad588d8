"""A small batch with nulls, negatives, decimals, strings and timestamps."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from stretto.expressions import parse_schema


@pytest.fixture(scope="session")
def batch() -> pa.RecordBatch:
    schema = parse_schema(
        "i int, n bigint, y tinyint, x double, d decimal(10,2), s string, b boolean, t timestamp, dt date, "
        "tags array<string>, st struct<a:int,B:string>"
    )
    columns = [
        [7, -7, None, 0],
        [123, 246, None, -1],
        [1, -5, None, 127],
        [2.5, -1.5, None, float("nan")],
        [Decimal("12.34"), Decimal("-0.05"), None, Decimal("2.50")],
        ["hello", " World", None, ""],
        [True, False, None, True],
        [datetime(2024, 2, 29, 12, 34, 56, 789000, UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), None,
         datetime(2000, 1, 31, tzinfo=UTC)],
        [date(2024, 2, 29), date(1969, 12, 31), None, date(2000, 1, 31)],
        [["x", "y"], [], None, [None]],
        [{"a": 1, "B": "p"}, {"a": 2, "B": None}, None, {"a": -3, "B": "q"}],
    ]  # fmt: skip
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)
