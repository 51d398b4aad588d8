"""Compares expressions over a batch with what Spark answers for the same texts: values, types and failures."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection, spark_type_name

#: As many units in the last place as the functions of Java and of C differ.
ULPS = 4


def listed(block: str) -> list[str]:
    """Returns the expressions of a block of text, which stand on lines or between " | "."""
    return [text.strip() for line in block.strip().splitlines() for text in line.split(" | ")]


def same(mine: Any, theirs: Any) -> bool:
    """Whether two values are the same, but for a few units in the last place of a double."""
    if not isinstance(mine, float) or not isinstance(theirs, float):
        return bool(mine == theirs) and isinstance(mine, type(theirs))
    if math.isnan(mine) or math.isnan(theirs):
        return math.isnan(mine) and math.isnan(theirs)
    if mine == theirs:
        return math.copysign(1.0, mine) == math.copysign(1.0, theirs)
    return abs(mine - theirs) <= ULPS * max(math.ulp(mine), math.ulp(theirs)) and math.isfinite(mine)


def of_spark(table: DataFrame, texts: list[str]) -> list[Any]:
    """Returns the type and values of each expression, or the error; halves the list to find what fails."""
    try:
        frame = table.selectExpr(*(f"{text} AS c{number}" for number, text in enumerate(texts)))
        answer = frame.toArrow()
    except Exception as error:
        if len(texts) == 1:
            return [error]
        middle = len(texts) // 2
        return of_spark(table, texts[:middle]) + of_spark(table, texts[middle:])
    return [(kind, answer.column(place).to_pylist()) for place, (_, kind) in enumerate(frame.dtypes)]


def _difference(text: str, theirs: Any, batch: pa.RecordBatch) -> str | None:
    if isinstance(theirs, Exception):
        return f"{text}: fails in Spark: {str(theirs)[:160]}"
    try:
        mine = compile_projection([f"{text} AS c"], batch.schema).evaluate(batch)
        for size in (0, 1, 7):
            compile_projection([f"{text} AS c"], batch.schema).evaluate(batch.slice(3, size)).validate(full=True)
    except ExpressionError as error:
        return f"{text}: {error}"
    mine.validate(full=True)
    kind = spark_type_name(mine.schema.field(0).type)
    if kind != theirs[0]:
        return f"{text}: type {kind}, Spark's {theirs[0]}"
    values = mine.column(0).to_pylist()
    wrong = [row for row, pair in enumerate(zip(values, theirs[1], strict=True)) if not same(*pair)]
    if not wrong:
        return None
    row = wrong[0]
    inputs = {name: value for name, value in batch.slice(row, 1).to_pylist()[0].items() if name in text}
    return f"{text}: {len(wrong)} rows, such as {inputs}: {values[row]!r}, Spark's {theirs[1][row]!r}"


def differences(texts: list[str], table: DataFrame, batch: pa.RecordBatch) -> list[str]:
    """Returns a line for each expression that differs from Spark's, with the first row that shows it."""
    found = [_difference(text, theirs, batch) for text, theirs in zip(texts, of_spark(table, texts), strict=True)]
    return [line for line in found if line is not None]


def not_failing(texts: list[str], table: DataFrame, batch: pa.RecordBatch) -> list[str]:
    """Returns a line for each expression that does not fail in Spark, or not here."""
    wrong = []
    for text in texts:
        if not isinstance(of_spark(table, [text])[0], Exception):
            wrong.append(f"{text}: does not fail in Spark")
        try:
            compile_projection([f"{text} AS c"], batch.schema).evaluate(batch)
        except ExpressionError:
            continue
        wrong.append(f"{text}: does not fail here")
    return wrong
