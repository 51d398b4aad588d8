"""A compiled call of an aggregate, and the text that it is compiled from.

FILTER (WHERE condition) makes an argument null where the condition is not true, because every aggregate that has one
ignores nulls: `sum(x) FILTER (WHERE c)` is `sum(CASE WHEN c THEN x END)`. As in Spark, the argument is evaluated only
for the rows of the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import types
from stretto.expressions.aggregate_texts import CallText
from stretto.expressions.parse import split_direction
from stretto.expressions.scalar import Scalar, compile_value

DISTINCT = "_distinct"
"""At the end of a function's name: the function of the distinct values."""
_COUNTING = frozenset(("count", "approx_count_distinct"))
"""Aggregates that are 0 of a NULL, for which Spark does not look at FILTER."""
_AGNOSTIC = frozenset(
    (
        "max", "min", "bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "collect_set", "first",
        "first_value", "last", "last_value", "any_value",
    )
)  # fmt: skip
"""Functions from which Spark removes DISTINCT, since their answers are the same without it."""

_ONE_ROW = pa.record_batch({"row": [0]})


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate. `sql` is the Spark SQL expression, without an alias, that has the same result."""

    name: str
    function: str
    argument: Scalar | None
    ordering: Scalar | None
    parameter: Any
    type: pa.DataType
    sql: str

    @property
    def is_distinct(self) -> bool:
        """Whether it keeps the distinct values of each group."""
        return self.function.endswith(DISTINCT)

    @property
    def is_by_arrival(self) -> bool:
        """Whether the result depends on the order in which rows arrive."""
        return self.function in ("first", "last")


class Written:
    """A call that is compiled: its arguments as expressions over a schema. `time` is the column of the event time."""

    def __init__(self, call: CallText, schema: pa.Schema, whole: str, time: str | None) -> None:
        self.name = call.name
        self.distinct = call.distinct
        self.ignore_nulls = call.ignore_nulls
        self.arguments = call.arguments
        self.order = call.order
        self.time = time
        self.names = schema.names
        self._call = call
        self._schema = schema
        self._whole = whole
        self._condition = None if call.condition is None else self._checked(call.condition)

    def _checked(self, condition: str) -> str:
        kind = compile_value(condition, self._schema, "a condition").type
        if kind != types.BOOLEAN:
            raise self.error(
                f"FILTER (WHERE {condition}) is not a condition", f"it is {types.spark_type_name(kind)}", "compare it"
            )
        return condition

    def error(self, fact: str, detail: str | None, fix: str) -> ExpressionError:
        where = f"in {self._whole!r}"
        return ExpressionError(fact, where if detail is None else f"{detail}, {where}", fix)

    def check_count(self, least: int, most: int | None) -> None:
        count = len(self.arguments)
        if least <= count and (most is None or count <= most):
            return
        wanted = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise self.error(f"{self.name} takes {wanted} argument(s), not {count}", None, f"pass {wanted}")

    def check_clauses(self, takes_order: bool, takes_nulls: bool) -> None:
        if self.order is not None and not takes_order:
            raise self.error(f"{self.name} takes no WITHIN GROUP (...)", None, "leave it out")
        if self.ignore_nulls and not takes_nulls:
            raise self.error(f"{self.name} takes no IGNORE NULLS", "it ignores nulls", "leave it out")

    def refuse_distinct(self) -> None:
        if self.distinct:
            raise self.error(f"DISTINCT inside {self.name} is not supported", None, "leave it out")

    def type_of(self, text: str) -> pa.DataType:
        """Returns Spark's type of an argument."""
        return types.canonical(compile_value(text, self._schema, "an argument").type)

    def scalar(self, text: str, *conditions: str) -> Scalar:
        """Returns an expression that is null where one of these conditions, or that of FILTER, is not true."""
        condition = self._where(conditions)
        if condition is not None:
            # Compiled for an error about this text alone.
            fails = compile_value(text, self._schema, "an argument").may_fail
            where = self._evaluating(condition, text) or f"CASE WHEN {condition} THEN ({text}) END"
            # Spark groups by what is DISTINCT before FILTER, and so evaluates it for every row.
            before = fails and self.distinct and self._condition is not None and self.name not in _AGNOSTIC
            text = f"CASE WHEN {present(text)} THEN {where} END" if before else where
        return compile_value(text, self._schema, "an argument")

    def _evaluating(self, condition: str, text: str) -> str | None:
        """Returns a NULL that evaluates the condition of FILTER, which may fail, if this is a NULL; None if it is not.

        A CASE of NULLs would be one at once."""
        if self._condition is None or self.name in _COUNTING or not self.is_null_constant(text):
            return None
        made = f"assert_true(({condition}) IS NULL OR ({condition}) IS NOT NULL)"
        kind = compile_value(text, self._schema, "an argument").type
        return made if kind == types.NULL else f"CAST({made} AS {types.spark_type_name(kind)})"

    def first(self, text: str, argument: Scalar) -> Scalar:
        """Returns an argument that is null where this text is; the text is evaluated for every row, before FILTER."""
        return compile_value(f"CASE WHEN {present(text)} THEN {argument.text} END", self._schema, "an argument")

    def _where(self, conditions: Sequence[str]) -> str | None:
        """Returns the condition of FILTER and further ones as one, or None if there are none.

        For the rows that FILTER leaves out, also by a NULL, Spark evaluates nothing else: AND would, after a NULL."""
        every = " AND ".join(f"({each})" for each in conditions)
        if self._condition is None:
            return every or None
        return f"CASE WHEN ({self._condition}) THEN {every} END" if every else f"({self._condition})"

    @property
    def has_condition(self) -> bool:
        return self._condition is not None

    def where(self, *conditions: str) -> str:
        """Returns the clause FILTER for Spark, with further conditions; nothing if there are none."""
        condition = self._where(conditions)
        return "" if condition is None else f" FILTER (WHERE {condition})"

    def call_sql(self, function: str, *arguments: str) -> str:
        """Returns a call for Spark with the clauses DISTINCT and FILTER of this one."""
        inner = ", ".join(arguments)
        return f"{function}({'DISTINCT ' if self.distinct else ''}{inner}){self.where()}"

    def function(self, name: str) -> str:
        """Returns the name of a function, or that of the same one over distinct values."""
        return name + DISTINCT if self.distinct else name

    def constant(self, place: int) -> Any:
        """Returns the value of an argument that reads no column; None if it is null or reads one."""
        node = compile_value(self.arguments[place], self._schema, "an argument")
        return None if node.columns else node.evaluate(_ONE_ROW)[0].as_py()

    def is_null_constant(self, text: str) -> bool:
        """Whether this is a constant that is null; one that fails is not."""
        node = compile_value(text, self._schema, "an argument")
        if node.columns or node.may_fail:
            return False
        return not node.evaluate(_ONE_ROW)[0].is_valid

    def may_fail(self, text: str) -> bool:
        """Whether this fails for some values."""
        return compile_value(text, self._schema, "an argument").may_fail

    def is_never_null(self, text: str) -> bool:
        """Whether this is a constant that is not null. One that fails is not, since it must fail for every row."""
        node = compile_value(text, self._schema, "an argument")
        if node.columns:
            return False
        try:
            return bool(node.evaluate(_ONE_ROW)[0].is_valid)
        except ExpressionError:
            return False

    def ordered_by(self) -> tuple[str, bool]:
        """Returns what WITHIN GROUP orders by, and whether in descending order."""
        assert self.order is not None
        body, descending = split_direction(self.order)
        return body, bool(descending)

    def require(self, kind: pa.DataType, fits: bool, wanted: str, text: str) -> None:
        if not fits:
            raise self.error(
                f"{self.name} needs {wanted}", f"{text!r} is {types.spark_type_name(kind)}", "CAST it first"
            )

    def orderable(self, text: str) -> pa.DataType:
        """Returns the type of an argument, which has an order in Spark: a map has none."""
        kind = self.type_of(text)
        if not types.is_orderable(kind):
            raise self.error(f"cannot order {types.spark_type_name(kind)}", f"{text!r}", "order by one of its parts")
        return kind

    def number(self, text: str) -> tuple[str, pa.DataType]:
        """Returns an argument that is a number, and its type; Spark makes doubles of strings and of untyped nulls."""
        kind = self.type_of(text)
        if kind in (types.STRING, types.NULL):
            return f"CAST(({text}) AS DOUBLE)", types.DOUBLE
        self.require(kind, types.is_numeric(kind), "numbers", text)
        return text, kind

    def require_boolean(self, text: str) -> None:
        kind = self.type_of(text)
        self.require(kind, kind in (types.BOOLEAN, types.NULL), "a boolean", text)

    def made(
        self,
        function: str,
        argument: Scalar | None,
        kind: pa.DataType,
        sql: str,
        ordering: Scalar | None = None,
        parameter: Any = None,
    ) -> AggregateCall:
        """Returns the call; its name is that of the function."""
        return AggregateCall(self.name, function, argument, ordering, parameter, kind, sql)


def present(text: str) -> str:
    """Returns the condition that an expression is not null."""
    return f"({text}) IS NOT NULL"
