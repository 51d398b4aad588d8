"""Spark's answers: hundreds of expressions over the same rows in one query, in which a row that fails fails alone.

Each expression is wrapped in Catalyst's `TryEval`, which gives NULL where its argument raises, around an array of the
one value, which is not NULL where the value is. So one query tells values, NULLs and failures apart, row by row. Code
generation is off: a query of hundreds of columns over a few rows would mostly compile Java. So is the elimination of
common parts of expressions, since it would evaluate them outside of their wrapping. The interpreter answers what
generated code does, but for defects of Spark's own.
"""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused
from stretto.bench.fuzz.plain import plain_values

_SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.ansi.enabled": "true",
}
_ZERO = "fuzz_zero"
# A constant that fails would fail the query while it is planned, unless a condition decides whether it is evaluated.
_ALWAYS = f"{_ZERO} = 0"
FAILED = Failure("fails in Spark")
_MONTHS = ("interval year", "interval month", "interval year to month")
_NOT_SENT = ("interval year", "interval month", "interval>")
ASKED_MAX = 400
"""Expressions that are asked about together."""
PARTS = 20
"""Parts into which columns are divided when together they fail. Twice divided, a round's columns stand alone."""


class SparkOracle:
    """Answers expressions over rows with a Spark session, whose settings it changes."""

    def __init__(self, spark: SparkSession, timezone: str = "UTC") -> None:
        self._spark: Any = spark
        for name, value in {**_SETTINGS, "spark.sql.session.timeZone": timezone}.items():
            spark.conf.set(name, value)
        # PySpark logs every error that it raises; here errors are answers.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        jvm: Any = self._spark._jvm
        self._parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
        self._try = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
        self._column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column

    def frame(self, rows: pa.RecordBatch) -> DataFrame:
        """Returns rows as a DataFrame in which they keep their order, with a column that is always 0."""
        zeros = pa.array([0] * rows.num_rows, pa.int32())
        # PySpark does not take slices of arrays; these are copies.
        whole = pa.Table.from_batches([rows.take(pa.array(range(rows.num_rows), pa.int64()))])
        frame: DataFrame = self._spark.createDataFrame(whole.append_column(_ZERO, zeros))
        return frame

    def answers(self, texts: list[str], rows: pa.RecordBatch) -> list[Answer]:
        """Returns an answer for each expression, in order."""
        frame = self.frame(rows)
        found: dict[int, Answer] = {}
        columns = self._all_parsed(texts, found)
        accepted = self._accepted_of(frame, columns, found)
        self._evaluate(frame, accepted, found)
        return [found[place] for place in range(len(texts))]

    def kinds(self, texts: list[str], rows: pa.RecordBatch) -> list[str | Refused]:
        """Returns the type of each expression, or why Spark refuses it; none is evaluated."""
        frame = self.frame(rows)
        found: list[str | Refused] = []
        for start in range(0, len(texts), ASKED_MAX):
            refused: dict[int, Answer] = {}
            columns = self._all_parsed(texts[start : start + ASKED_MAX], refused)
            accepted = self._accepted_of(frame, columns, refused)
            types = _kinds(frame.select(*accepted.values()), accepted)
            for place in range(len(texts[start : start + ASKED_MAX])):
                answer = refused.get(place)
                found.append(answer if isinstance(answer, Refused) else types[place])
        return found

    def _all_parsed(self, texts: list[str], found: dict[int, Answer]) -> dict[int, Column]:
        columns: dict[int, Column] = {}
        for place, text in enumerate(texts):
            parsed = self._parsed(text, place)
            if isinstance(parsed, Refused):
                found[place] = parsed
            else:
                columns[place] = parsed
        return columns

    def _parsed(self, text: str, place: int) -> Column | Refused:
        try:
            # Quoted, since Spark's lexer does not read >> as an operator after the word ARRAY.
            tree = self._parser.parseExpression(f"if({_ALWAYS}, `array`({text}), NULL)")
        except (ParseException, AnalysisException) as error:
            return Refused(_first_line(error))
        return ClassicColumn(self._column(self._try(tree))).alias(f"c{place}")

    def _accepted_of(self, frame: DataFrame, columns: dict[int, Column], found: dict[int, Answer]) -> dict[int, Column]:
        """Returns the columns that Spark accepts; asks about fewer of them when one is refused, to find it."""
        if not columns:
            return {}
        try:
            frame.select(*columns.values())
        except AnalysisException as error:
            if len(columns) == 1:
                found[next(iter(columns))] = Refused(_first_line(error))
                return {}
            accepted: dict[int, Column] = {}
            for part in _parts(columns):
                accepted |= self._accepted_of(frame, part, found)
            return accepted
        return columns

    def _evaluate(self, frame: DataFrame, columns: dict[int, Column], found: dict[int, Answer]) -> None:
        """Evaluates columns together; evaluates fewer of them when the query as a whole fails, to find the cause."""
        if not columns:
            return
        selected = frame.select(*columns.values())
        kinds = _kinds(selected, columns)
        for place in columns:
            found[place] = Answered(kinds[place], [], comparable=False)
        sent = {place: _sendable(columns[place], kinds[place], place) for place in columns if _is_sent(kinds[place])}
        if not sent:
            return
        try:
            table = frame.select(*sent.values()).toArrow()
        except Exception as error:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
            if len(sent) == 1 and isinstance(error, PySparkException):
                found[next(iter(sent))] = Refused(_first_line(error), crash=True)
            if len(sent) == 1:
                return
            for part in _parts({place: columns[place] for place in sent}):
                self._evaluate(frame, part, found)
            return
        for place, column in zip(sent, table.columns, strict=True):
            found[place] = Answered(kinds[place], _rows(column.combine_chunks()))


def _kinds(selected: DataFrame, columns: dict[int, Column]) -> dict[int, str]:
    return {place: kind[len("array<") : -1] for place, (_, kind) in zip(columns, selected.dtypes, strict=True)}


def _is_sent(kind: str) -> bool:
    return kind in _MONTHS or not any(word in kind + ">" for word in _NOT_SENT)


def _sendable(column: Column, kind: str, place: int) -> Column:
    """Returns the column, or the number of months where it holds such intervals, which Arrow does not have."""
    if kind not in _MONTHS:
        return column
    return column.cast("array<interval month>").cast("array<int>").alias(f"c{place}")


def _rows(array: pa.ListArray) -> list[Any]:
    values = iter(plain_values(array.flatten()))
    return [next(values) if succeeded else FAILED for succeeded in array.is_valid().to_pylist()]


def _parts(columns: dict[int, Column]) -> list[dict[int, Column]]:
    places = list(columns)
    size = -(-len(places) // PARTS)
    return [{place: columns[place] for place in places[start : start + size]} for start in range(0, len(places), size)]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
