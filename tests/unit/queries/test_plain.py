"""Rows as JSON: every type of Spark's, its extreme values, and parts of longer arrays."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from stretto.queries.askable import state_name
from stretto.queries.plain import plain_columns, plain_rows

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
INNER = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.timestamp("us", "UTC")))])
COLUMNS: list[tuple[pa.DataType, str, list[Any], list[Any]]] = [
    (pa.bool_(), "boolean", [True, None, False], [True, None, False]),
    (pa.int8(), "tinyint", [-128, None, 127], [-128, None, 127]),
    (pa.int64(), "bigint", [2**53, None, -(2**63)], [2**53, None, "-9223372036854775808"]),
    (pa.float32(), "float", [0.5, None, float("inf")], [0.5, None, "Infinity"]),
    (pa.float64(), "double", [float("nan"), None, float("-inf")], ["NaN", None, "-Infinity"]),
    (
        pa.decimal128(20, 8),
        "decimal(20,8)",
        [decimal.Decimal("1E-7"), None, decimal.Decimal(-12)],
        ["0.00000010", None, "-12.00000000"],
    ),
    (pa.string(), "string", ["ä\u2028", None, ""], ["ä\u2028", None, ""]),
    (pa.binary(), "binary", [b"\xff", None, b""], ["/w==", None, ""]),
    (pa.date32(), "date", [10**8, None, -(10**6)], ["275760-09-13", None, "-768-02-04"]),
    (
        pa.timestamp("us", "UTC"),
        "timestamp",
        [2**62, None, -(2**60)],
        ["148108-07-06T14:00:27.387904Z", None, "-34565-05-17T02:29:53.153024Z"],
    ),
    (pa.duration("us"), "interval day to second", [1, None, -(2**62)], [1, None, str(-(2**62))]),
    (pa.month_day_nano_interval(), "interval year to month", [(14, 0, 0), None, (-1, 0, 0)], [14, None, -1]),
    (pa.null(), "void", [None, None, None], [None, None, None]),
    (pa.list_(pa.int64()), "array<bigint>", [[1, None], None, []], [[1, None], None, []]),
    (
        pa.map_(pa.string(), pa.int64()),
        "map<string,bigint>",
        [[("a", 1), ("b", 2**60)], None, [("c", None)]],
        [[["a", 1], ["b", str(2**60)]], None, [["c", None]]],
    ),
    (
        INNER,
        "struct<x:int,y:array<timestamp>>",
        [{"x": 1, "y": [NOON, None]}, None, {"x": None, "y": None}],
        [{"x": 1, "y": ["2026-01-01T12:00:00.000000Z", None]}, None, {"x": None, "y": None}],
    ),
]


@pytest.mark.parametrize(("kind", "name", "values", "wanted"), COLUMNS, ids=[each[1] for each in COLUMNS])
def test_each_type_is_one_that_json_has(kind: pa.DataType, name: str, values: list[Any], wanted: list[Any]) -> None:
    made = pa.array(values, kind)
    table = pa.table({"a": pa.chunked_array([made.slice(0, 1), made.slice(1)])})
    assert plain_columns(table.schema) == [{"name": "a", "type": name}]
    assert [row[0] for row in plain_rows(table)] == wanted
    assert [row[0] for row in plain_rows(table.slice(1))] == wanted[1:]
    assert msgspec.json.decode(msgspec.json.encode(plain_rows(table))) == [[each] for each in wanted]


def test_columns_of_one_name_are_all_there() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert plain_rows(table) == [[1, "x"]]
    assert plain_rows(table.slice(1)) == []


def test_a_state_is_named_as_it_is_written_after_from() -> None:
    assert state_name("Jumps", "counts", is_only=True) == "state.Jumps"
    assert state_name("Jumps", "counts", is_only=False) == "state.Jumps.counts"
    assert state_name("per auction", "counts", is_only=False) == "state.`per auction`.counts"
