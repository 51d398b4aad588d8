"""Spark's answers: hundreds of expressions over the same rows in one query, in which a row that fails fails alone.

Each expression is wrapped in Catalyst's `TryEval`, which gives NULL where its argument raises, around an array of the
one value, which is not NULL where the value is. So one query tells values, NULLs and failures apart, row by row. The
elimination of common parts of expressions is off, since it would evaluate them outside of their wrapping.

Spark can answer in three modes (`Mode`), which rarely differ. Most is asked of the interpreter: a query of hundreds of
columns over a few rows would otherwise mostly compile Java.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn

from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused
from stretto.bench.fuzz.collecting import Collector
from stretto.bench.fuzz.lookups import keep_lookups
from stretto.bench.fuzz.plain import plain_values

_SETTINGS = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Two fields of a struct may have one name, which Arrow's structs cannot unless they are renamed.
    "spark.sql.execution.pandas.structHandlingMode": "row",
}
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_RULES = "spark.sql.optimizer.excludedRules"
_EARLY_RULE = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_CAST_RULE = "org.apache.spark.sql.catalyst.optimizer.SimplifyCasts"
_REFUSALS = (AnalysisException, Py4JJavaError)
"""What Spark raises for an expression that it does not accept; the second is an internal error of its analysis."""
_ERRORS = (PySparkException, Py4JJavaError)
_ZERO, ROW = "fuzz_zero", "fuzz_row"
# A constant that fails would fail the query while it is planned, unless a condition decides whether it is evaluated.
_ALWAYS = f"{_ZERO} = 0"
FAILED = Failure("fails in Spark")
_CUT = "..."
"""What stands in an error for text that it leaves out."""
_NAMED = re.compile(r"in `(\w+)`")
_SIGNS = {"ArrayBasedMapBuilder": "map"}
"""Functions that an error of Java's is about, by what it says."""
SUSPECTS_MAX = 3
"""Columns that are asked about together if one of them is at fault."""


class Mode(Enum):
    """How Spark evaluates: the settings of a session."""

    EARLY = "rows at hand are evaluated by the interpreter, before an expression is optimized"
    OPTIMIZED = "the interpreter, of what the optimizer leaves"
    GENERATED = "generated code, of what the optimizer leaves"
    EVERY_CAST = "the interpreter, of what the optimizer leaves if it leaves all casts"

    @property
    def settings(self) -> dict[str, str]:
        match self:
            case Mode.EARLY:
                return _INTERPRETED
            case Mode.OPTIMIZED:
                return {**_INTERPRETED, _RULES: _EARLY_RULE}
            case Mode.GENERATED:
                return {**_GENERATED, _RULES: _EARLY_RULE}
            case Mode.EVERY_CAST:
                return {**_INTERPRETED, _RULES: f"{_EARLY_RULE},{_CAST_RULE}"}


MONTHS = ("interval year", "interval month", "interval year to month")
_AS_MONTHS = "cast(cast({} as array<interval month>) as array<int>)"
_NOT_SENT = ("interval year", "interval month", "interval>")
ASKED_MAX = 50
"""Expressions that are asked about together. One that is refused or fails has the rest asked again, and generated code
of more would be interpreted, since it is too long."""
PARTS = 4
"""Parts into which columns are divided when together they fail, and the error does not tell which of them does."""


class SparkOracle:
    """Answers expressions over rows with a Spark session, whose settings it changes."""

    def __init__(self, spark: SparkSession, timezone: str = "UTC", mode: Mode = Mode.EARLY) -> None:
        """The session's settings are those of the mode from now on."""
        self._spark: Any = spark
        self._mode = mode
        for name, value in {**_SETTINGS, **mode.settings, "spark.sql.session.timeZone": timezone}.items():
            spark.conf.set(name, value)
        # PySpark logs every error that it raises; here errors are answers.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        jvm: Any = self._spark._jvm
        keep_lookups(jvm)
        self._parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
        self._try = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
        self._column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
        self._collector = Collector(jvm, timezone, without_jobs=mode is Mode.EARLY)
        self._framed: tuple[pa.RecordBatch, DataFrame] | None = None
        """The rows that were asked about last, as Spark has them."""

    def frame(self, rows: pa.RecordBatch) -> DataFrame:
        """Returns rows as a DataFrame in which they keep their order, with a column that is always 0, and one that
        numbers them."""
        if self._framed is None or self._framed[0] is not rows:
            self._framed = rows, self._frame_of(rows)
        return self._framed[1]

    def _frame_of(self, rows: pa.RecordBatch) -> DataFrame:
        zeros = pa.array([0] * rows.num_rows, pa.int32())
        numbers = pa.array(range(rows.num_rows), pa.int32())
        # PySpark does not take slices of arrays; these are copies.
        whole = pa.Table.from_batches([rows.take(numbers)]).append_column(_ZERO, zeros).append_column(ROW, numbers)
        frame: DataFrame = self._spark.createDataFrame(whole)
        return frame

    def answers(self, texts: list[str], rows: pa.RecordBatch) -> list[Answer]:
        """Returns an answer for each expression, in order."""
        frame = self.frame(rows)
        found: dict[int, Answer] = {}
        apart = partial(self._apart_of, texts, frame, rows.num_rows)
        for part in _parts(self._parsed(texts, found), ASKED_MAX):
            for kinds, selected in _analysed(frame, part, found):
                self._evaluate(frame, selected, {place: part[place] for place in kinds}, kinds, found, apart)
        return [found[place] for place in range(len(texts))]

    def _evaluate(
        self,
        frame: DataFrame,
        selected: DataFrame,
        columns: Columns,
        kinds: dict[int, str],
        found: dict[int, Answer],
        apart: Apart,
    ) -> None:
        """Evaluates columns together, which are all that is selected; fewer of them when the query as a whole fails, to
        find the cause."""
        for place in columns:
            found[place] = Answered(kinds[place], [], comparable=False)
        sent = [place for place in columns if _is_sent(kinds[place])]
        if not sent:
            return
        try:
            table = self._collector.table(self._sendable(selected, sent, kinds))
        except Exception as error:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
            failed = _quoted(error, columns) or (sent if len(columns) == 1 else [])
            for place in failed:
                if place in sent:
                    found[place] = _failed(error, kinds[place], partial(apart, place))
            rest = {place: asked for place, asked in columns.items() if place not in failed}
            for part in [rest] if failed else _divided(error, rest):
                if part:
                    self._evaluate(frame, _selected(frame, part), part, kinds, found, apart)
            return
        for place, column in zip(sent, table.columns, strict=True):
            found[place] = Answered(kinds[place], _rows(column.combine_chunks()))

    def _sendable(self, selected: DataFrame, sent: list[int], kinds: dict[int, str]) -> DataFrame:
        """Returns the columns that can be sent, as a number of months for such intervals, which Arrow does not have."""
        months = {place for place in sent if kinds[place] in MONTHS}
        if len(sent) == len(selected.columns) and not months:
            return selected
        texts = {place: f"c{place}" for place in sent} | {place: _AS_MONTHS.format(f"c{place}") for place in months}
        return selected.select(*(self.column(text, f"c{place}") for place, text in texts.items()))

    def apart(self, text: str, rows: pa.RecordBatch) -> list[Any] | None:
        """Returns the values of an expression that Spark accepts, of which each row has its own copy, or None.

        What evaluates a map keeps the entries of a row that failed, and so spoils the rows after it."""
        return self._apart(text, self.frame(rows), rows.num_rows)

    def _apart_of(self, texts: list[str], frame: DataFrame, count: int, place: int) -> list[Any] | None:
        return self._apart(texts[place], frame, count)

    def _apart(self, text: str, frame: DataFrame, count: int) -> list[Any] | None:
        try:
            columns = {row: self._column_of(f"{ROW} = {row}", text, row) for row in range(count)}
            table = self._collector.table(_selected(frame, columns))
        except Exception:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
            return None
        return [_rows(column.combine_chunks())[row] for row, column in zip(columns, table.columns, strict=True)]

    def kinds(self, texts: list[str], rows: pa.RecordBatch) -> list[str | Refused]:
        """Returns the type of each expression, or why Spark refuses it; none is evaluated."""
        frame = self.frame(rows)
        found: list[str | Refused] = []
        for start in range(0, len(texts), ASKED_MAX):
            asked = texts[start : start + ASKED_MAX]
            found += _kinds_together(frame, asked) or self._kinds_apart(frame, asked)
        return found

    def _kinds_apart(self, frame: DataFrame, texts: list[str]) -> list[str | Refused]:
        refused: dict[int, Answer] = {}
        types: dict[int, str] = {}
        for kinds, _ in _analysed(frame, self._parsed(texts, refused), refused):
            types |= kinds
        found = [refused.get(place) for place in range(len(texts))]
        return [each if isinstance(each, Refused) else types[place] for place, each in enumerate(found)]

    def _parsed(self, texts: list[str], found: dict[int, Answer]) -> Columns:
        columns: Columns = {}
        for place, text in enumerate(texts):
            try:
                columns[place] = self._column_of(_ALWAYS, text, place)
            except (ParseException, AnalysisException) as error:
                found[place] = Refused(_first_line(error))
        return columns

    def _column_of(self, condition: str, text: str, place: int) -> _Asked:
        # Without the backticks Spark's lexer would take a >> in the text for the end of the type `array<...>`.
        whole = f"if({condition}, `array`({text}), NULL)"
        return _Asked(whole, self._named(self._try(self._parser.parseExpression(whole)), f"c{place}"))

    def column(self, text: str, name: str) -> Column:
        """Returns an expression as a column of this name; where a row fails, its query does."""
        return self._named(self._parser.parseExpression(text), name)

    def _named(self, tree: Any, name: str) -> Column:
        # Java's own method, since PySpark's asks Java four times more to note the place of the call.
        return ClassicColumn(self._column(tree).alias(name))


@dataclass(frozen=True, slots=True, eq=False)  # To compare columns would make another one.
class _Asked:
    """A column, with the text that it was parsed from, which errors quote."""

    text: str
    column: Column


Columns = dict[int, _Asked]
Apart = Callable[[int], list[Any] | None]
"""Returns the values of the column at a place, of which each row has its own copy."""


def _kinds_together(frame: DataFrame, texts: list[str]) -> list[str | Refused] | None:
    """Returns the types of expressions, or None if Spark refuses one of them.

    Each is sent as a text, with a quarter of the calls that a column takes, and is analysed without a wrapping."""
    try:
        selected = frame.selectExpr(*(f"{text} AS c{place}" for place, text in enumerate(texts)))
    except _ERRORS:
        return None
    return [kind for _, kind in selected.dtypes]


def _selected(frame: DataFrame, columns: Columns) -> DataFrame:
    return frame.select(*(asked.column for asked in columns.values()))


def _analysed(
    frame: DataFrame, columns: Columns, found: dict[int, Answer]
) -> Iterator[tuple[dict[int, str], DataFrame]]:
    """Yields the types of the columns that Spark accepts, and what selects them; an error tells which it does not."""
    left = dict(columns)
    while left:
        try:
            selected = _selected(frame, left)
            kinds = _kinds(selected, left)
        except _ERRORS as error:
            for place, cause in _refused(frame, left, error).items():
                found[place] = Refused(_first_line(cause), crash=not isinstance(cause, _REFUSALS))
                del left[place]
        else:
            yield kinds, selected
            return


def _refused(frame: DataFrame, columns: Columns, error: Exception) -> dict[int, Exception]:
    """Returns the column that an error quotes; if it quotes none, those that fail alone."""
    quoted = dict.fromkeys(_quoted(error, columns), error)
    if quoted:
        return quoted
    if len(columns) == 1:
        return dict.fromkeys(columns, error)
    for place, asked in columns.items():
        try:
            _selected(frame, {place: asked})
        except _ERRORS as alone:
            quoted[place] = alone
    assert quoted, error
    return quoted


def _quoted(error: Exception, columns: Columns) -> list[int]:
    """Returns the place of the column whose text an error quotes, maybe only around the part that is at fault."""
    lines = [line for line in str(error).splitlines() if line]
    whole = [place for place, asked in columns.items() if asked.text in lines]
    if whole:
        return whole
    parts = [line.removeprefix(_CUT).removesuffix(_CUT) for line in lines if _CUT in (line[:3], line[-3:])]
    found = [place for place, asked in columns.items() if any(part and part in asked.text for part in parts)]
    return found if len(found) == 1 else []


def _divided(error: Exception, columns: Columns) -> list[Columns]:
    """Returns columns in parts: if an error names a function, what has it is apart from the rest."""
    names = _NAMED.findall(str(error).split("SQLSTATE")[0]) + [
        name for sign, name in _SIGNS.items() if sign in str(error)
    ]
    suspects = {place: asked for place, asked in columns.items() if any(name in asked.text for name in names)}
    rest = {place: asked for place, asked in columns.items() if place not in suspects}
    if not rest or not suspects:
        return _parts(columns, -(-len(columns) // PARTS))
    return [rest, *_parts(suspects, SUSPECTS_MAX)]


def _failed(error: Exception, kind: str, apart: Callable[[], list[Any] | None]) -> Answer:
    """Returns the answer for a column with which a query fails: that of each row alone, if it has one."""
    if isinstance(error, PySparkException):
        return Refused(_first_line(error), crash=True)
    rows = None if kind in MONTHS else apart()
    return Answered(kind, rows or [], comparable=rows is not None)


def _kinds(selected: DataFrame, columns: Columns) -> dict[int, str]:
    return {place: kind[len("array<") : -1] for place, (_, kind) in zip(columns, selected.dtypes, strict=True)}


def _is_sent(kind: str) -> bool:
    return kind in MONTHS or not any(word in kind + ">" for word in _NOT_SENT)


def _rows(array: pa.ListArray) -> list[Any]:
    values = iter(plain_values(array.flatten()))
    return [next(values) if succeeded else FAILED for succeeded in array.is_valid().to_pylist()]


def _parts(columns: Columns, size: int) -> list[Columns]:
    places = list(columns)
    return [{place: columns[place] for place in places[start : start + size]} for start in range(0, len(places), size)]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
