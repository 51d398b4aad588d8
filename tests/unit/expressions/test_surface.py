"""The public interface of projections, predicates, aggregates and schemas."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from stretto.expressions import (
    compile_predicate,
    compile_projection,
    parse_aggregate,
    parse_schema,
    spark_type_name,
)


def test_projection(batch: pa.RecordBatch) -> None:
    projection = compile_projection(["i", "n AS `big one`", "i + n AS total", "s"], batch.schema)
    assert projection.schema.names == ["i", "big one", "total", "s"]
    assert projection.passthrough == {"i": "i", "big one": "n", "s": "s"}
    assert projection.sql == ["i AS `i`", "n AS `big one`", "i + n AS `total`", "s AS `s`"]
    result = projection.evaluate(batch)
    assert result.schema == projection.schema
    assert result.column("total").to_pylist() == [130, 239, None, -1]
    again = pickle.loads(pickle.dumps(projection))
    assert again.evaluate(batch).equals(result)


def test_bare_columns_are_not_copied(batch: pa.RecordBatch) -> None:
    result = compile_projection(["*", "i + 1 AS j"], batch.schema).evaluate(batch)
    for name in batch.schema.names:
        mine, theirs = result.column(name).buffers(), batch.column(name).buffers()
        assert [b and b.address for b in mine] == [b and b.address for b in theirs]


def test_bare_columns_keep_types_that_spark_lacks() -> None:
    rows = pa.record_batch({"t": pa.array([1], pa.timestamp("ms")), "u": pa.array([1], pa.uint8())})
    projection = compile_projection(["*"], rows.schema)
    assert projection.schema == rows.schema
    assert projection.evaluate(rows).equals(rows)


def test_columns_with_odd_names() -> None:
    rows = pa.record_batch({"a.b": [1], "select": [2], "c`d": [3]})
    projection = compile_projection(["`a.b` + 1 AS x", "*"], rows.schema)
    assert projection.evaluate(rows).to_pylist() == [{"x": 2, "a.b": 1, "select": 2, "c`d": 3}]
    assert projection.sql[-1] == "`c``d` AS `c``d`"


def test_predicate(batch: pa.RecordBatch) -> None:
    predicate = compile_predicate("i > 0 or s = ''", batch.schema)
    assert predicate.mask(batch).tolist() == [True, False, False, True]
    assert predicate.evaluate(batch).column("i").to_pylist() == [7, 0]
    assert predicate.sql == "i > 0 or s = ''"
    assert pickle.loads(pickle.dumps(predicate)).mask(batch).tolist() == [True, False, False, True]


def test_predicate_keeps_the_same_batch_when_all_rows_pass(batch: pa.RecordBatch) -> None:
    assert compile_predicate("true", batch.schema).evaluate(batch) is batch
    assert compile_predicate("coalesce(i, 1) < 100", batch.schema).evaluate(batch) is batch
    empty = batch.slice(0, 0)
    assert compile_predicate("i > 0", batch.schema).evaluate(empty) is empty


def test_predicate_on_runs_of_rows(batch: pa.RecordBatch) -> None:
    rows = pa.record_batch({"k": np.arange(100)})
    for text in ("k = 57", "k >= 90", "k < 3", "k between 10 and 20", "k % 7 = 3", "k > 1000", "k = 0 or k = 99"):
        predicate = compile_predicate(text, rows.schema)
        kept = predicate.evaluate(rows).column("k").to_pylist()
        assert kept == [k for k, keep in enumerate(predicate.mask(rows)) if keep]
        assert kept or text == "k > 1000"


def _best(extreme: str, by: str, value: str) -> str:
    """Returns the SQL of max_by or min_by in which ties do not depend on the order of rows."""
    return f"({extreme}(named_struct('o', {by}, 'v', {value})) FILTER (WHERE (({by}) IS NOT NULL))).v"


@pytest.mark.parametrize(
    ("text", "function", "kind", "sql"),
    [
        ("count(*)", "count", "bigint", "count(*)"),
        ("count(1)", "count", "bigint", "count(*)"),
        ("count(s)", "count", "bigint", "count(s)"),
        ("count(null)", "count", "bigint", "count(null)"),
        ("count(cast(null as int))", "count", "bigint", "count(cast(null as int))"),
        ("count(1 div 0)", "count", "bigint", "count(1 div 0)"),
        ("COUNT(DISTINCT i % 2)", "count_distinct", "bigint", "count(DISTINCT i % 2)"),
        ("sum(i)", "sum", "bigint", "sum(i)"),
        ("sum(x)", "sum", "double", "sum(x)"),
        ("sum(d)", "sum", "decimal(20,2)", "sum(d)"),
        ("sum(n * 0.908)", "sum", "decimal(34,3)", "sum(n * 0.908)"),
        ("avg(i)", "avg", "double", "avg(i)"),
        ("mean(d)", "avg", "decimal(14,6)", "avg(d)"),
        ("min(t)", "min", "timestamp", "min(t)"),
        ("max(if(b, i, n))", "max", "bigint", "max(if(b, i, n))"),
        ("top_k(i, 3)", "top_k", "array<int>", "slice(sort_array(collect_list(i), false), 1, 3)"),
        ("quantile(i, 0.5)", "quantile", "double", "percentile(i, 0.5)"),
        ("percentile(i, 0.9)", "quantile", "double", "percentile(i, 0.9)"),
        ("collect(s)", "collect", "array<string>", "sort_array(collect_list(s))"),
        ("collect_list(i)", "collect", "array<int>", "sort_array(collect_list(i))"),
        ("max_by(s, i + 1L)", "max_by", "string", _best("max", "i + 1L", "s")),
        ("min_by(st, t)", "min_by", "struct<a:int,B:string>", _best("min", "t", "st")),
    ],
)
def test_aggregate(text: str, function: str, kind: str, sql: str, batch: pa.RecordBatch) -> None:
    call = parse_aggregate(text, batch.schema)
    assert (call.name, call.function, spark_type_name(call.type), call.sql) == (text, function, kind, sql)
    again = pickle.loads(pickle.dumps(call))
    assert (again.name, again.function, again.type, again.sql) == (call.name, call.function, call.type, call.sql)


def test_aggregate_parts(batch: pa.RecordBatch) -> None:
    call = parse_aggregate("max_by(s, i) AS best", batch.schema, name="ignored")
    assert call.name == "best"
    assert call.argument is not None
    assert call.ordering is not None
    assert (call.argument.sql, call.ordering.sql) == ("s", "i")
    assert parse_aggregate("count(*)", batch.schema, name="rows").name == "rows"
    assert parse_aggregate("count(*)", batch.schema).argument is None
    assert parse_aggregate("top_k(i, 3)", batch.schema).parameter == 3
    assert parse_aggregate("quantile(i, 0.25)", batch.schema).parameter == 0.25


def test_schema() -> None:
    schema = parse_schema(
        "id bigint, name string NOT NULL, tags array<string>, `a b` struct<x:int,y:decimal(5,2)>, t timestamp"
    )
    assert schema.field("id").type == pa.int64()
    assert not schema.field("name").nullable
    assert schema.field("tags").type == pa.list_(pa.string())
    assert schema.field("a b").type == pa.struct({"x": pa.int32(), "y": pa.decimal128(5, 2)})
    assert schema.field("t").type == pa.timestamp("us", tz="UTC")
    names = "boolean tinyint smallint int bigint float double decimal(24,3) string binary date timestamp array<int>"
    for name in names.split():
        assert spark_type_name(parse_schema(f"c {name}").field("c").type) == name
