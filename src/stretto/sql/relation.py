"""What a query or a table is while others are made of it: a stream, and the names that its columns have in SQL.

A column is known by a name of SQL, and is a column of the stream under another one perhaps, since streams have
`window_start` and `window_end` where SQL may name them as it likes, or has both as one struct. So names of SQL are
replaced by those of the stream in each expression, and the last select gives results the names that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from stretto.api.stream import Stream
from stretto.errors import ExpressionError, PlanError
from stretto.expressions import compile_predicate, compile_projection
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import with_parts_replaced
from stretto.operators.windows import Window

START, END = "window_start", "window_end"
"""The names that bounds of windows have in a stream."""
WINDOW_START, WINDOW_END, WINDOW_TIME = "__window_start", "__window_end", "__window_time"
"""They stand for the bounds of windows that rows are not divided into yet."""
_PENDING = (WINDOW_START, WINDOW_END, WINDOW_TIME)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A window as a struct with the fields start and end, of two columns."""

    start: str
    end: str

    @property
    def sql(self) -> str:
        return f"named_struct('start', {quoted(self.start)}, 'end', {quoted(self.end)})"


Ref = str | Bounds


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its name in SQL, and where it comes from. A hidden one needs that qualifier to be found."""

    name: str
    ref: Ref
    qualifier: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class StaticRows:
    """Rows that are all there: a table, VALUES, range. Its verbs compute at once."""

    name: str
    data: pa.Table
    original: object = None
    """What the table is read from again, and how often."""
    refresh: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.data.schema

    def select(self, *texts: str) -> StaticRows:
        projection = compile_projection(texts, self.schema)
        return StaticRows(self.name, pa.Table.from_batches([projection.evaluate(self._batch())], projection.schema))

    def filter(self, text: str) -> StaticRows:
        kept = compile_predicate(text, self.schema).evaluate(self._batch())
        return StaticRows(self.name, pa.Table.from_batches([kept], self.schema))

    def _batch(self) -> pa.RecordBatch:
        if self.refresh is not None:
            raise PlanError(
                f"table '{self.name}' is read again while the stream runs",
                "what is selected of it would be computed once",
                "Join with the table itself, and select afterwards.",
            )
        (batch,) = self.data.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=self.schema)]
        return batch


@dataclass(frozen=True)
class PendingWindow:
    """The window that a table function has asked for; a session has its keys."""

    window: Window
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class PendingRank:
    """Rows with a rank whose bound is not known yet: what they are ranked by, as texts over their stream, and what
    makes the result of the rows that are left and of the column that has the rank, if one is wanted."""

    rows: Relation
    function: str
    keys: tuple[str, ...]
    orders: tuple[str, ...]
    name: str
    finished: Callable[[Relation, str | None], Relation]
    start: int


@dataclass(frozen=True)
class Relation:
    """Rows and the names of their columns. `bounds` are the columns of a stream with the windows that its rows are of;
    `pending` is a window that they are not divided into yet; with a `rank`, only the names of columns are known."""

    rows: Stream | StaticRows
    columns: tuple[Column, ...]
    bounds: Bounds | None = None
    pending: PendingWindow | None = None
    rank: PendingRank | None = None

    @property
    def stream(self) -> Stream:
        if self.rank is not None:
            raise unbounded_rank(self.rank)
        if isinstance(self.rows, StaticRows):
            raise PlanError(
                "a query of tables alone has no stream",
                f"it reads {self.rows.name}",
                "Write STREAM before a table in FROM, or CREATE STREAMING TABLE; others may be joined with it.",
            )
        return self.rows

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that `*` stands for."""
        return tuple(column for column in self.columns if not column.hidden)

    def with_rows(self, rows: Stream | StaticRows) -> Relation:
        return replace(self, rows=rows)

    def under(self, alias: str | None, columns: Sequence[str] = ()) -> Relation:
        """Returns the relation under an alias, and with other names of columns if they are given."""
        if columns and len(columns) != len(self.shown):
            raise PlanError(
                f"{len(columns)} names for {len(self.shown)} columns", ", ".join(columns), "Name all of them."
            )
        named = zip(columns, self.shown, strict=True)
        found = [replace(column, name=name) for name, column in named] if columns else self.columns
        return replace(self, columns=tuple(replace(c, qualifier=alias or c.qualifier) for c in found))

    def find(self, parts: Sequence[str]) -> tuple[Column, int] | None:
        """Returns the column that a name of several parts begins with, and how many parts name it."""
        lower = [part.lower() for part in parts]
        if len(parts) > 1:
            found = [c for c in self.columns if (c.qualifier or "").lower() == lower[0] and c.name.lower() == lower[1]]
            if found:
                return self._only(found, ".".join(parts[:2])), 2
        found = [column for column in self.columns if column.name.lower() == lower[0] and not column.hidden]
        return (self._only(found, parts[0]), 1) if found else None

    def _only(self, found: Sequence[Column], name: str) -> Column:
        if len({column.ref for column in found}) > 1:
            named = ", ".join(f"{column.qualifier or '?'}.{column.name}" for column in found)
            raise ExpressionError(f"column {name!r} is in several tables", named, "write its table before it")
        return found[0]

    def ref(self, tree: exp.Expr) -> Ref | None:
        """Returns what a tree names, if it is a column and nothing else."""
        if not isinstance(tree, exp.Column):
            return None
        parts = parts_of(tree)
        found = self.find(parts)
        if found is None:
            return None
        column, used = found
        if used == len(parts):
            return column.ref
        if isinstance(column.ref, Bounds) and used + 1 == len(parts):
            return {"start": column.ref.start, "end": column.ref.end}.get(parts[-1].lower())
        return None

    def named(self, text: str) -> str:
        """Returns an expression with the names that its columns have in the stream."""
        return with_parts_replaced(text, self.replacement)

    def replacement(self, tree: exp.Expr) -> str | None:
        """Returns what stands for a part of an expression in the stream, if it is a column."""
        if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
            return None
        parts = parts_of(tree)
        found = self.find(parts)
        if found is None:
            raise self.unknown(parts)
        column, used = found
        rest = parts[used:]
        ref = column.ref
        if isinstance(ref, Bounds):
            if rest and rest[0].lower() in ("start", "end"):
                ref, rest = (ref.start if rest[0].lower() == "start" else ref.end), rest[1:]
            else:
                return "".join([ref.sql, *(f".{quoted(part)}" for part in rest)])
        return ".".join(map(quoted, [ref, *rest]))

    def unknown(self, parts: Sequence[str]) -> ExpressionError:
        """Returns the error that there is no such column."""
        several = len({column.qualifier for column in self.columns}) > 1
        known = [f"{c.qualifier}.{c.name}" if several and c.qualifier else c.name for c in self.columns]
        return ExpressionError(f"unknown column {'.'.join(parts)!r}", f"there are {', '.join(known)}")


def parts_of(tree: exp.Column) -> list[str]:
    """Returns the names that a column is written with."""
    return [part.name for part in tree.parts if isinstance(part, exp.Identifier)]


def relation_of(rows: Stream | StaticRows, alias: str | None) -> Relation:
    """Returns a relation with all columns of a stream or a table under their own names."""
    names = rows.schema.names
    bounds = Bounds(START, END) if not isinstance(rows, StaticRows) and {START, END} <= set(names) else None
    return Relation(rows, tuple(Column(name, name, alias) for name in names), bounds)


def is_pending(ref: Ref) -> bool:
    """Whether this stands for what is not a column of the stream yet."""
    return (ref.start if isinstance(ref, Bounds) else ref) in _PENDING


def unbounded_rank(rank: PendingRank) -> PlanError:
    """Returns the error that a rank has no bound."""
    return PlanError(
        f"the rank {rank.name!r} has no bound",
        "every row would change its rank for ever",
        f"Write QUALIFY {rank.function.upper()}() OVER (...) <= 10, or WHERE {rank.name} <= 10 around it.",
    )
