"""Statements to an app: tables are made when a query first reads them, and each INSERT and SELECT ends in a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.errors import PlanError
from stretto.expressions.scalar import quoted
from stretto.expressions.types import spark_type_name
from stretto.expressions.udf import knowing
from stretto.expressions.zones import UTC, in_zone
from stretto.sql.catalog import Catalog, Formats, watermarks
from stretto.sql.objectives import Objectives, apply_setting
from stretto.sql.projecting import result
from stretto.sql.reading import Reading
from stretto.sql.relation import Relation, StaticRows, unbounded_rank
from stretto.sql.script import Script
from stretto.sql.statements import read_statements
from stretto.sql.tables import Tables, declared_schema
from stretto.sql.tree import (
    Ask,
    CreateFunction,
    CreateTable,
    Explain,
    Insert,
    Rows,
    SessionQuestion,
    Setting,
    Statement,
    TableName,
)

RESULT = "result"
"""The sink of a SELECT that is a statement."""
_OBJECTIVE = ("latency", "percentile", "throughput", "priority", "share")


@dataclass
class Compiled:
    """What a script has made of an app. `results` are the sinks that collect rows; it `explains` if it asks to."""

    app: App
    results: list[str] = field(default_factory=list)
    explains: bool = False


def compiled(
    app: App, text: str, formats: Formats, tables: Mapping[str, Any] | None = None, every_table: bool = True
) -> Compiled:
    """Adds the statements of a text to an app. `tables` are sources, sinks and data by their names.

    With `every_table`, a streaming table that is a query and that nothing reads is a result too."""
    script = Script(text)
    statements = [read.statement for read in read_statements(script)]
    return _Compiling(script, app, formats, dict(tables or {})).all(statements, every_table)


def columns_of(app: App, text: str, formats: Formats, name: str | None) -> pa.Schema | None:
    """Returns the columns of a table that a text declares; None for one that only takes rows. Without a name, the
    declarations are checked."""
    script = Script(text)
    statements = [read.statement for read in read_statements(script)]
    return _Compiling(script, app, formats, {}).described(statements, name)


class _Compiling:
    """One script, statement by statement."""

    def __init__(self, script: Script, app: App, formats: Formats, given: dict[str, Any]) -> None:
        self._script = script
        self._app = app
        self._formats = formats
        self._catalog = Catalog(given={name.lower(): value for name, value in given.items()})
        self._objectives = Objectives(script)
        self._done = Compiled(app)
        self._sinks: dict[str, str] = {}

    def all(self, statements: Sequence[Statement], every_table: bool) -> Compiled:
        self._begin(statements)
        # Rows of tables are computed here and now, with the app's functions and in its zone.
        with knowing(self._app.udfs), in_zone(self._app.zone or UTC):
            for statement in statements:
                self._run(statement)
            if every_table:
                for table in self._catalog.declared.values():
                    if table.query is not None and not self._is_values(table):
                        self._end_table(table)
        self._objectives.set(self._app)
        if not self._app.has_streams:
            raise PlanError("the text has no query", None, "Write INSERT INTO ... SELECT, or SELECT.")
        return self._done

    def described(self, statements: Sequence[Statement], name: str | None) -> pa.Schema | None:
        """Returns the columns of a table."""
        self._begin(statements)
        self._objectives.set(self._app)
        table = self._catalog.declared.get((name or "").lower())
        if table is None or (table.query is None and (table.format is None or not self._formats.reads(table.format))):
            return None
        with knowing(self._app.udfs), in_zone(self._app.zone or UTC):
            asked = TableName(table.name, False, None, None, table.start)
            relation = self._tables.relation(asked, self._reading.query)
            if relation.rank is not None:
                raise unbounded_rank(relation.rank)
            if isinstance(relation.rows, StaticRows):
                return relation.rows.schema
            return result(relation).schema

    def _begin(self, statements: Sequence[Statement]) -> None:
        marks = watermarks(self._script, statements)
        self._tables = Tables(self._script, self._app, self._formats, self._catalog, marks)
        self._reading = Reading(self._script, self._tables)
        for statement in statements:
            self._declare(statement)

    def _declare(self, statement: Statement) -> None:
        match statement:
            case CreateTable():
                self._catalog.declare(self._script, statement)
                options = {name: value for name, value in statement.options.items() if name in _OBJECTIVE}
                self._objectives.add(options, statement.start)
            case CreateFunction(target=target, start=start):
                with self._script.at(start):
                    self._app.register(self._formats.function(target))
            case Setting():
                if statement.name in _OBJECTIVE:
                    self._objectives.add({statement.name: statement.value}, statement.start)
                else:
                    with self._script.at(statement.start):
                        apply_setting(self._app, statement.name, statement.value)

    def _run(self, statement: Statement) -> None:
        match statement:
            case Insert():
                self._insert(statement)
            case Ask(query=query, options=options, start=start):
                self._objectives.add(options, start)
                relation = self._reading.query(query)
                self._end(relation, CollectSink(), self._app.free_name(RESULT), (), start)
            case Explain(statement=inner):
                self._done.explains = True
                if isinstance(inner, CreateTable):
                    self._declare(inner)
                else:
                    self._run(inner)
            case SessionQuestion(wanted=wanted, start=start):
                raise self._script.error(
                    start, f"{wanted.value} is for a session", "Use it at the prompt of stretto sql."
                )

    # Sinks.

    def _insert(self, insert: Insert) -> None:
        self._objectives.add(insert.options, insert.start)
        name = insert.table
        if name.lower() in self._sinks:
            fix = "Write one INSERT INTO with UNION ALL between the queries."
            raise self._script.error(insert.start, f"two queries insert into {name}", fix)
        given = self._catalog.given.get(name.lower())
        table = self._catalog.declared.get(name.lower())
        if given is None and table is None:
            raise self._script.error(insert.start, *_facts(self._catalog.unknown(name)))
        if given is not None and not isinstance(given, Sink):
            raise self._script.error(
                insert.start, f"{name} is not a sink", "Pass a sink in tables=, such as sinks.collect()."
            )
        with self._script.at(insert.start):
            sink = given if given is not None else self._sink_of(table)
        schema = None if table is None or table.columns is None else declared_schema(table.columns)
        relation = self._reading.query(insert.query)
        names = self._names(insert, relation, schema)
        place = self._app.free_name(table.name if table is not None else name)
        self._end(relation, sink, place, names, insert.start, schema)
        self._sinks[name.lower()] = place

    def _names(self, insert: Insert, relation: Relation, schema: pa.Schema | None) -> tuple[str, ...]:
        """Returns the names of the columns in the table: by their place, or their own."""
        if insert.by_name:
            return ()
        return insert.columns or (tuple(schema.names) if schema is not None else ())

    def _sink_of(self, table: CreateTable | None) -> Sink:
        assert table is not None
        if table.query is not None:
            raise PlanError(f"{table.name} is a query", None, "Write CREATE TABLE with USING, and insert into that.")
        options = {name: value for name, value in table.options.items() if name not in _OBJECTIVE}
        return self._formats.sink(table.format or "collect", options, table.partition_by)

    def _end_table(self, table: CreateTable) -> None:
        """Ends a table that is a query in its sink, or collects it if nothing reads it."""
        is_read = table.name.lower() in self._tables.read
        if table.format is None and (is_read or (table.is_view and not self._is_alone())):
            return
        relation = self._tables.declared_query(table, self._reading.query)
        with self._script.at(table.start):
            sink: Sink = CollectSink()
            if table.format is not None:
                options = {name: value for name, value in table.options.items() if name not in _OBJECTIVE}
                sink = self._formats.sink(table.format, options, table.partition_by)
        self._end(relation, sink, self._app.free_name(f"{table.name}.sink"), (), table.start)

    def _is_alone(self) -> bool:
        """Whether nothing else is a result."""
        return not self._sinks and not self._done.results

    def _is_values(self, table: CreateTable) -> bool:
        return table.query is not None and isinstance(table.query.body, Rows)

    def _end(
        self,
        relation: Relation,
        sink: Sink,
        name: str,
        names: Sequence[str],
        start: int,
        schema: pa.Schema | None = None,
    ) -> None:
        if relation.rank is not None:
            error = unbounded_rank(relation.rank)
            raise self._script.error(relation.rank.start, error.fact, error.fix, error.detail)
        with self._script.at(start):
            try:
                stream = result(relation, names)
                if schema is not None:
                    stream = stream.select(*_checked(stream.schema, schema))
                stream.sink(sink, name=name)
            except PlanError as error:
                if "cannot replace rows" in error.fact or "cannot remove rows" in error.fact:
                    raise PlanError(error.fact, error.detail, _UPDATES) from error
                raise
        if sink.collects:
            self._done.results.append(name)


_UPDATES = (
    "Aggregate in windows, which send each row once, or declare the table with OPTIONS (changelog = '_change'), which "
    "keeps every update, or USING collect."
)


def _checked(found: pa.Schema, wanted: pa.Schema) -> list[str]:
    """Returns the columns of a table, of a result that must have their types."""
    for name in wanted.names:
        if name not in found.names:
            raise PlanError(f"the query has no column {name!r}", f"it has {', '.join(found.names)}", "Name it with AS.")
        types = [spark_type_name(schema.field(name).type) for schema in (found, wanted)]
        if types[0] != types[1]:
            raise PlanError(
                f"column {name!r} has another type than in the table",
                f"{types[0]}, and the table has {types[1]}",
                f"Write CAST(... AS {types[1].upper()}) AS {name}.",
            )
    return [quoted(name) for name in wanted.names]


def _facts(error: PlanError) -> tuple[str, str | None, str | None]:
    return error.fact, error.fix, error.detail
