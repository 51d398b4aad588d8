"""Spark's answers: hundreds of expressions over the same rows in one query, in which a row that fails fails alone.

Each expression is wrapped in Catalyst's `TryEval`, which gives NULL where its argument raises, around an array of the
one value, which is not NULL where the value is. So one query tells values, NULLs and failures apart, row by row. Code
generation is off: a query of hundreds of columns over a few rows would mostly compile Java. So is the elimination of
common parts of expressions, since it would evaluate them outside of their wrapping. The interpreter answers what
generated code does, but for defects of Spark's own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
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
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_EARLY_EVALUATION = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_ZERO = "fuzz_zero"
# A constant that fails would fail the query while it is planned, unless a condition decides whether it is evaluated.
_ALWAYS = f"{_ZERO} = 0"
FAILED = Failure("fails in Spark")
_MONTHS = ("interval year", "interval month", "interval year to month")
_NOT_SENT = ("interval year", "interval month", "interval>")
ASKED_MAX = 400
"""Expressions that are asked about together."""
ANALYSED_MAX = 60
"""Columns that are analysed together; one that is refused has the rest analysed again."""
PARTS = 4
"""Parts into which columns are divided when together they fail, and the error does not tell which of them does."""


class SparkOracle:
    """Answers expressions over rows with a Spark session, whose settings it changes."""

    def __init__(self, spark: SparkSession, timezone: str = "UTC", optimized: bool = False) -> None:
        """Spark evaluates expressions over rows at hand before it optimizes them, unless they are to be `optimized`.

        Then it may say less often that a row fails, because what needs not be evaluated is left out."""
        self._spark: Any = spark
        rules = {_EXCLUDED: _EARLY_EVALUATION} if optimized else {}
        for name, value in {**_SETTINGS, **rules, "spark.sql.session.timeZone": timezone}.items():
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
        accepted = _accepted(frame, self._parsed(texts, found), found)
        _evaluate(frame, accepted, found)
        return [found[place] for place in range(len(texts))]

    def kinds(self, texts: list[str], rows: pa.RecordBatch) -> list[str | Refused]:
        """Returns the type of each expression, or why Spark refuses it; none is evaluated."""
        frame = self.frame(rows)
        found: list[str | Refused] = []
        for start in range(0, len(texts), ASKED_MAX):
            asked = texts[start : start + ASKED_MAX]
            refused: dict[int, Answer] = {}
            accepted = _accepted(frame, self._parsed(asked, refused), refused)
            types = _kinds(_selected(frame, accepted), accepted)
            for place in range(len(asked)):
                answer = refused.get(place)
                found.append(answer if isinstance(answer, Refused) else types[place])
        return found

    def _parsed(self, texts: list[str], found: dict[int, Answer]) -> Columns:
        columns: Columns = {}
        for place, text in enumerate(texts):
            # Quoted, since Spark's lexer does not read >> as an operator after the word ARRAY.
            whole = f"if({_ALWAYS}, `array`({text}), NULL)"
            try:
                tree = self._parser.parseExpression(whole)
            except (ParseException, AnalysisException) as error:
                found[place] = Refused(_first_line(error))
            else:
                columns[place] = _Asked(whole, ClassicColumn(self._column(self._try(tree))).alias(f"c{place}"))
        return columns


@dataclass(frozen=True, slots=True)
class _Asked:
    """A column, with the text that it was parsed from, which errors quote."""

    text: str
    column: Column


Columns = dict[int, _Asked]


def _selected(frame: DataFrame, columns: Columns) -> DataFrame:
    return frame.select(*(asked.column for asked in columns.values()))


def _accepted(frame: DataFrame, columns: Columns, found: dict[int, Answer]) -> Columns:
    """Returns the columns that Spark accepts; an error tells which one it does not."""
    accepted: Columns = {}
    for part in _parts(columns, ANALYSED_MAX):
        left = dict(part)
        while left:
            try:
                _selected(frame, left)
            except PySparkException as error:
                for place, cause in _refused(frame, left, error).items():
                    found[place] = Refused(_first_line(cause), crash=not isinstance(cause, AnalysisException))
                    del left[place]
            else:
                break
        accepted |= left
    return accepted


def _refused(frame: DataFrame, columns: Columns, error: PySparkException) -> dict[int, PySparkException]:
    """Returns the column that an error quotes; if it quotes none, those that fail alone."""
    quoted = dict.fromkeys(_quoted(error, columns), error)
    if quoted:
        return quoted
    if len(columns) == 1:
        return dict.fromkeys(columns, error)
    for place, asked in columns.items():
        try:
            _selected(frame, {place: asked})
        except PySparkException as alone:
            quoted[place] = alone
    assert quoted, error
    return quoted


def _quoted(error: Exception, columns: Columns) -> list[int]:
    """Returns the places of the column whose text an error quotes."""
    lines = str(error).splitlines()
    return [place for place, asked in columns.items() if asked.text in lines]


def _evaluate(frame: DataFrame, columns: Columns, found: dict[int, Answer]) -> None:
    """Evaluates columns together; evaluates fewer of them when the query as a whole fails, to find the cause."""
    if not columns:
        return
    kinds = _kinds(_selected(frame, columns), columns)
    for place in columns:
        found[place] = Answered(kinds[place], [], comparable=False)
    sent = {place: _sendable(asked, kinds[place], place) for place, asked in columns.items() if _is_sent(kinds[place])}
    if not sent:
        return
    try:
        table = _selected(frame, sent).toArrow()
    except Exception as error:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
        failed = _quoted(error, sent) or (list(sent) if len(sent) == 1 else [])
        for place in failed:
            if isinstance(error, PySparkException) and "IN_ARROW_STRUCT" not in str(error):
                found[place] = Refused(_first_line(error), crash=True)
        rest = {place: columns[place] for place in sent if place not in failed}
        for part in [rest] if failed else _parts(rest, -(-len(rest) // PARTS)):
            _evaluate(frame, part, found)
        return
    for place, column in zip(sent, table.columns, strict=True):
        found[place] = Answered(kinds[place], _rows(column.combine_chunks()))


def _kinds(selected: DataFrame, columns: Columns) -> dict[int, str]:
    return {place: kind[len("array<") : -1] for place, (_, kind) in zip(columns, selected.dtypes, strict=True)}


def _is_sent(kind: str) -> bool:
    return kind in _MONTHS or not any(word in kind + ">" for word in _NOT_SENT)


def _sendable(asked: _Asked, kind: str, place: int) -> _Asked:
    """Returns the column, or the number of months where it holds such intervals, which Arrow does not have."""
    if kind not in _MONTHS:
        return asked
    months = asked.column.cast("array<interval month>").cast("array<int>").alias(f"c{place}")
    return _Asked(asked.text, months)


def _rows(array: pa.ListArray) -> list[Any]:
    values = iter(plain_values(array.flatten()))
    return [next(values) if succeeded else FAILED for succeeded in array.is_valid().to_pylist()]


def _parts(columns: Columns, size: int) -> list[Columns]:
    places = list(columns)
    return [{place: columns[place] for place in places[start : start + size]} for start in range(0, len(places), size)]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
