"""The tables that statements name: what was declared, and what a format of storage makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.errors import PlanError
from stretto.sql.script import Script
from stretto.sql.tree import (
    Ask,
    Body,
    CreateTable,
    Explain,
    Insert,
    Join,
    Query,
    Rows,
    Select,
    Statement,
    Subquery,
    TableName,
    Union,
    Watermark,
    WindowedTable,
)
from stretto.sql.tree import Source as From


class Formats(Protocol):
    """Makes sources, sinks and tables of what USING and OPTIONS say."""

    def source(
        self, format: str, options: Mapping[str, str], schema: pa.Schema | None, columns: Sequence[str] | None
    ) -> Source:
        """Returns the source of a stream. It may leave out columns that are not among the wanted ones."""

    def sink(self, format: str, options: Mapping[str, str], partition_by: Sequence[str]) -> Sink:
        """Returns a sink."""

    def table(self, format: str, options: Mapping[str, str]) -> tuple[Any, pa.Table]:
        """Returns what a table is read from, again and again if need be, and its rows."""

    def reads(self, format: str) -> bool:
        """Whether there is a source of this format, so that its tables can be read."""

    def function(self, target: str) -> Any:
        """Returns the Python function that 'module:function' names."""


@dataclass
class Catalog:
    """Tables by their names: those that statements declare, and those that Python passes."""

    declared: dict[str, CreateTable] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)

    def declare(self, script: Script, table: CreateTable) -> None:
        """Adds a table; a name that is taken needs OR REPLACE."""
        key = table.name.lower()
        if (key in self.declared and not table.replace) or key in self.given:
            raise script.error(
                table.start, f"there is a table {table.name} already", "Choose another name, or CREATE OR REPLACE."
            )
        self.declared[key] = table

    def names(self) -> list[str]:
        return [*(table.name for table in self.declared.values()), *self.given]

    def unknown(self, name: str) -> PlanError:
        """Returns the error that there is no such table."""
        known = ", ".join(self.names()) or "none"
        return PlanError(
            f"there is no table {name}", f"there are {known}", "Write CREATE STREAMING TABLE, or pass it in tables=."
        )


def sources_in(query: Query) -> Iterator[From]:
    """Yields everything that a query reads from, with what is inside of it."""
    for table in query.tables:
        yield from sources_in(table.query)
    yield from _in_body(query.body)


def _in_body(body: Body) -> Iterator[From]:
    if isinstance(body, Union):
        for part in body.parts:
            yield from _in_body(part)
    elif isinstance(body, Select) and body.source is not None:
        yield from _in_source(body.source)


def _in_source(source: From) -> Iterator[From]:
    yield source
    match source:
        case Join(left=left, right=right):
            yield from _in_source(left)
            yield from _in_source(right)
        case WindowedTable(table=table):
            yield from _in_source(table)
        case Subquery(query=query):
            yield from sources_in(query)
        case TableName() | Rows():
            pass


def queries_of(statement: Statement) -> Iterator[Query]:
    """Yields the query of a statement, if it has one."""
    match statement:
        case CreateTable(query=query) if query is not None:
            yield query
        case Insert(query=query) | Ask(query=query):
            yield query
        case Explain(statement=inner):
            yield from queries_of(inner)


def watermarks(script: Script, statements: Sequence[Statement]) -> dict[str, Watermark]:
    """Returns the watermark of each table that has one, wherever it is written; two must not differ."""
    from stretto.operators.windows import duration_us

    found: dict[str, Watermark] = {}

    def add(name: str, mark: Watermark) -> None:
        known = found.setdefault(name.lower(), mark)
        with script.at(mark.start):
            same = known.column.lower() == mark.column.lower() and duration_us(known.delay) == duration_us(mark.delay)
        if not same:
            raise script.error(
                mark.start,
                f"table {name} has two watermarks",
                "A stream has one event time: write the same one, or declare it in CREATE STREAMING TABLE.",
                f"the other one is {known.column} DELAY OF INTERVAL {known.delay}",
            )

    for statement in statements:
        if isinstance(statement, CreateTable) and statement.watermark is not None:
            add(statement.name, statement.watermark)
        for query in queries_of(statement):
            for source in sources_in(query):
                if isinstance(source, TableName) and source.watermark is not None:
                    add(source.name, source.watermark)
    return found
