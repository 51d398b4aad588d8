"""The verbs that compute columns or choose rows by Spark SQL expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stretto.api import plan
from stretto.api.arguments import COLUMN, COLUMNS, EXPRESSION, EXPRESSIONS, NAMES, takes
from stretto.api.changes import filter_removes
from stretto.api.columns import flat, renamed, star_replaced, with_columns, without
from stretto.api.step import Verbs
from stretto.errors import PlanError
from stretto.expressions import compile_predicate
from stretto.expressions.scalar import quoted

if TYPE_CHECKING:
    from stretto.api.stream import Stream


class ColumnVerbs(Verbs):
    """Each makes new rows of single rows, and keeps their order and their time."""

    @takes(expressions=EXPRESSION, named=EXPRESSION)
    def select(
        self, *expressions: str, name: str | None = None, parallelism: int | None = None, **named: str
    ) -> Stream:
        """Returns columns of SQL expressions: `select("auction", "2 * price AS twice")`, `select(twice="2 * price")`.

        An expression with the name of a column replaces it in `*`: `select("*", price="2 * price")`."""
        texts = [*expressions, *(f"{text} AS {quoted(alias)}" for alias, text in named.items())]
        if not texts:
            raise PlanError(
                f"select on '{self.name}' has no expressions", None, 'Name columns, or "*" for all of them.'
            )
        texts = star_replaced(f"select on '{self.name}'", self.schema, texts)
        return self._step.projected("select", texts, name, parallelism).stream

    @takes(column=COLUMN, expression=EXPRESSION)
    def with_column(
        self, column: str, expression: str, *, name: str | None = None, parallelism: int | None = None
    ) -> Stream:
        """Returns all columns and one more, or with one replaced: `with_column("euros", "0.9 * price")`"""
        texts = with_columns(f"with_column on '{self.name}'", self.schema, {column: expression})
        return self._step.projected("with_column", texts, name, parallelism).stream

    @takes(columns=EXPRESSIONS.optional(), named=EXPRESSION)
    def with_columns(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        **named: str,
    ) -> Stream:
        """Returns all columns, some of them replaced, and new ones: `with_columns({"euros": "0.9 * price"})`. The
        expressions are over the columns as they were."""
        texts = with_columns(f"with_columns on '{self.name}'", self.schema, {**(columns or {}), **named})
        return self._step.projected("with_columns", texts, name, parallelism).stream

    @takes(columns=COLUMNS)
    def drop(self, *columns: str | Sequence[str], name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns all columns but these."""
        texts = without(f"drop on '{self.name}'", self.schema, flat(columns))
        return self._step.projected("drop", texts, name, parallelism).stream

    @takes(columns=NAMES)
    def rename(self, columns: Mapping[str, str], *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns all columns, some under new names: `rename({"old": "new"})`"""
        texts = renamed(f"rename on '{self.name}'", self.schema, columns)
        return self._step.projected("rename", texts, name, parallelism).stream

    @takes(expression=EXPRESSION)
    def filter(self, expression: str, *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns the rows for which a Spark SQL expression is true. After a running aggregate it is SQL's HAVING."""
        predicate = compile_predicate(expression, self.schema)
        return self._step.add(
            plan.FilterNode,
            "filter",
            name,
            parallelism=parallelism,
            predicate=predicate,
            removes=filter_removes(self._step.node, predicate.columns),
        ).stream
