"""The rows of an answer as a Spark DataFrame, in the types that Spark SQL gives the same question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import UserError
from stretto.expressions.types import INT, MONTHS, is_nested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Returns the rows as a DataFrame. Spark takes all types from Arrow as they are but intervals of months, which go
    there as numbers."""
    names = [str(place) for place in range(table.num_columns)]  # Those of users may need quotes.
    frame = spark.createDataFrame(pa.table([_taken(table, place) for place in range(table.num_columns)], names))
    months = [field.type == MONTHS for field in table.schema]
    if any(months):
        frame = frame.selectExpr(
            *(
                f"make_ym_interval(0, `{name}`)" if is_months else f"`{name}`"
                for name, is_months in zip(names, months, strict=True)
            )
        )
    return frame.toDF(*table.column_names)


def _taken(table: pa.Table, place: int) -> pa.ChunkedArray:
    column = table.column(place)
    if column.type == MONTHS:
        return pa.chunked_array([pa.array([value and value.months for value in column.to_pylist()], INT)])
    if _has_months(column.type):
        raise UserError(
            f"column '{table.column_names[place]}' cannot be one of a DataFrame",
            "Spark takes no interval of months from Arrow that is inside of an array, a map or a struct",
            "Cast it to a string, or use cluster.query.",
        )
    return column


def _has_months(kind: pa.DataType) -> bool:
    if kind == MONTHS:
        return True
    if not is_nested(kind):
        return False
    if pat.is_map(kind):
        return _has_months(kind.key_type) or _has_months(kind.item_type)
    return any(_has_months(kind.field(place).type) for place in range(kind.num_fields))
