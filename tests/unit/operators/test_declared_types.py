"""The types that an aggregation declares are those of its columns: a checkpoint with other ones would be refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import ExpressionError, StrettoError
from stretto.expressions import parse_aggregate
from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.state.schemas import check_rows

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [1, 2, None]),
    "whole": (pa.int64(), [1, 2, None]),
    "single": (pa.float32(), [1.5, 2.0, None]),
    "double": (pa.float64(), [1.5, 2.0, None]),
    "text": (pa.string(), ["a", "b", None]),
    "long_text": (pa.large_string(), ["a", "b", None]),
    "flag": (pa.bool_(), [True, False, None]),
    "data": (pa.binary(), [b"a", b"b", None]),
    "day": (pa.date32(), [datetime.date(2020, 1, 1), None, None]),
    "time": (pa.timestamp("us", "UTC"), [1, 2, None]),
    "amount": (pa.decimal128(10, 2), [decimal.Decimal("1.5"), decimal.Decimal(2), None]),
    "list": (pa.list_(pa.int64()), [[1], [2], None]),
    "pair": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}]),
    "word": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
BATCH = pa.record_batch([pa.array(values, kind) for kind, values in VALUES.values()], schema=SCHEMA)
CALLS = (
    "count(*)",
    "count({})",
    "sum({})",
    "avg({})",
    "min({})",
    "max({})",
    "count(distinct {})",
    "collect_list({})",
    "percentile({}, 0.5)",
    "top_k({}, 2)",
    "max_by({}, whole)",
    "min_by(whole, {})",
    "count(*) FILTER (WHERE {} IS NULL)",
    "count(distinct {}, whole)",
    "sum(distinct {})",
    "collect_set({})",
    "first({})",
    "last({}, true)",
    "any_value({})",
    "stddev({})",
    "kurtosis({})",
    "corr({}, whole)",
    "bool_or({})",
    "bit_xor({})",
    "mode({})",
    "percentile_approx({}, 0.5)",
    "try_sum({})",
    "try_avg({})",
    "listagg({}) WITHIN GROUP (ORDER BY whole)",
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", VALUES)
def test_partials_are_of_the_declared_types(name: str, call: str) -> None:
    try:
        calls = [parse_aggregate(f"{call.format(name)} AS r", SCHEMA)]
    except StrettoError:
        return  # Spark SQL has no such aggregate of this type.
    for key in ("whole", name):
        aggregation = Aggregation(SCHEMA, [key], calls)
        try:
            rows = aggregation.rows(BATCH)
        except ExpressionError:
            continue  # A text that is not a number.
        lifted = aggregation.lift(aggregation.group(BATCH.num_rows, rows, None), rows)
        merged = aggregation.merge(aggregation.group(len(lifted[0]), lifted, None), lifted)
        for table in (lifted, merged):
            assert columns_of(table_of(table, aggregation.objects), aggregation.types, aggregation.objects) == table


def test_other_columns_are_refused() -> None:
    aggregation = Aggregation(SCHEMA, ["whole"], [parse_aggregate("sum(whole) AS r", SCHEMA)])
    kinds = {f"c{place}": kind for place, kind in enumerate(aggregation.types)}
    for wrong in ({"c0": pa.int8()}, {"c1": pa.string()}, {"c9": pa.int64()}):
        table = pa.schema(list({**kinds, **wrong}.items())).empty_table()
        with pytest.raises(ValueError, match="should be"):
            columns_of({"table": table, "objects": {}}, aggregation.types)
    with pytest.raises(ValueError, match="different lengths"):
        columns_of({"table": pa.table({"c0": [1]}), "objects": {"1": []}}, [pa.int64(), pa.int64()], [1])


def test_rows_need_the_declared_columns() -> None:
    declared = pa.schema([("a", pa.list_(pa.field("item", pa.int64()))), ("b", pa.string())])
    renamed = pa.schema([("a", pa.list_(pa.field("element", pa.int64(), nullable=False))), ("b", pa.string())])
    check_rows(declared.empty_table(), declared)
    check_rows(renamed.empty_table(), declared)  # Arrow and Spark name the items of a list differently.
    other = pa.schema([("a", pa.list_(pa.int8())), ("b", pa.string())])
    for wrong in (other.empty_table(), pa.table({"b": ["x"]}), [1], None):
        with pytest.raises(ValueError, match="should be"):
            check_rows(wrong, declared)
