"""What is evaluated for a row, what a star stands for and how strings become numbers, against Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.expression_cases import FAILING, FORMS, LAZY, LAZY_ROWS, REFUSED

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection, parse_aggregate, spark_type_name

# Spark evaluates what several expressions of a query share for every row, even if each alone would not reach it.
SPARK_SETTINGS = {"spark.sql.subexpressionElimination.enabled": "false"}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([LAZY_ROWS])).coalesce(1).cache()


@pytest.mark.parametrize("cases", [LAZY, FORMS], ids=["lazy", "forms"])
def test_values_and_types_are_sparks(cases: dict[str, list[Any]], table: DataFrame) -> None:
    sqls = [f"{text} AS c{number}" for number, text in enumerate(cases)]
    frame = table.selectExpr(*sqls)
    answer = frame.toArrow()
    mine = compile_projection(sqls, LAZY_ROWS.schema).evaluate(LAZY_ROWS)
    for number, (text, expected) in enumerate(cases.items()):
        assert answer.column(number).to_pylist() == expected, text
        assert mine.column(number).to_pylist() == expected, text
        assert spark_type_name(mine.schema.field(number).type) == frame.dtypes[number][1], text


@pytest.mark.parametrize("text", [*FAILING, *REFUSED])
def test_what_fails_in_spark_fails_here(text: str, table: DataFrame) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - any failure of Spark's will do
        table.selectExpr(text).collect()
    with pytest.raises(ExpressionError):
        compile_projection([text], LAZY_ROWS.schema).evaluate(LAZY_ROWS)


def test_a_constant_null_is_not_counted(table: DataFrame) -> None:
    for text in ("count(null)", "count(cast(null as int))", "count(null + 1)"):
        call = parse_aggregate(text, LAZY_ROWS.schema)
        assert table.selectExpr(call.sql).collect()[0][0] == 0
        assert call.argument is not None
        assert call.argument.evaluate(LAZY_ROWS).null_count == LAZY_ROWS.num_rows


def test_stars_stand_for_sparks_columns(table: DataFrame) -> None:
    for text in ("*", "* EXCEPT (s)", "* except(S, `n`, z)", "* EXCEPT (z, Z)", "z asc"):
        assert compile_projection([text], LAZY_ROWS.schema).schema.names == table.selectExpr(text).columns
