"""Tables that a query reads: each becomes a source of the app, or a table beside streams, when it is first read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.api.app import App
from stretto.api.memory import MemorySource
from stretto.api.tables import Table
from stretto.errors import PlanError
from stretto.expressions import parse_schema, spark_type_name
from stretto.expressions.scalar import quoted
from stretto.sql.catalog import Catalog, Formats
from stretto.sql.relation import Relation, StaticRows, relation_of
from stretto.sql.script import Script
from stretto.sql.tree import CreateTable, Query, Rows, TableName, Watermark
from stretto.sql.words import Kind, words_of

STREAM_OPTIONS = ("stamp", "max_jump", "parallelism")
"""Options of a streaming table that belong to the stream and not to what it is stored in."""
STREAMING_ONLY = ("nexmark", "watch")
ReadQuery = Callable[[Query, str | None], Relation]


class Tables:
    """The tables of a script, as relations."""

    def __init__(
        self, script: Script, app: App, formats: Formats, catalog: Catalog, watermarks: Mapping[str, Watermark]
    ) -> None:
        self._script = script
        self._app = app
        self._formats = formats
        self._catalog = catalog
        self._watermarks = watermarks
        self._made: dict[str, Relation] = {}
        self._static: dict[str, StaticRows] = {}
        self._beside: dict[str, tuple[StaticRows, Table]] = {}
        self._open: list[str] = []
        self.read: set[str] = set()
        self.arrivals: list[str] = []

    @property
    def app(self) -> App:
        return self._app

    def relation(self, asked: TableName, read_query: ReadQuery) -> Relation:
        """Returns what a table has: a stream, or rows that are all there."""
        name = asked.name.lower()
        self.read.add(name)
        given, table = self._catalog.given.get(name), self._catalog.declared.get(name)
        with self._script.at(asked.start):
            if given is None and table is None:
                raise self._catalog.unknown(asked.name)
            if table is not None and table.query is not None:
                found = self.declared_query(table, read_query)
                if asked.watermark is not None and not isinstance(found.rows, StaticRows):
                    raise PlanError(
                        f"{asked.name} is a query, and has a watermark",
                        None,
                        "Write WATERMARK where its table is read: the event time goes with the rows.",
                    )
                return self._streamed(asked, found) if asked.stream or table.streaming else found
            if given is not None:
                return self._given(asked, given)
            assert table is not None
            if asked.stream or table.streaming or (table.format or "").lower() in STREAMING_ONLY:
                return self._source(table.name, table, None)
            return relation_of(self._static_table(table), None)

    def declared_query(self, table: CreateTable, read_query: ReadQuery) -> Relation:
        """Returns the rows of a table or a view that is a query; it is read once, however often it is named."""
        key = table.name.lower()
        if key in self._open:
            raise self._script.error(
                table.start,
                f"{table.name} is computed from itself",
                "A dataflow goes from sources to sinks: break the loop.",
                " -> ".join([*self._open, key]),
            )
        if key not in self._made:
            assert table.query is not None
            self._open.append(key)
            found = read_query(table.query, table.name)
            self._open.pop()
            if table.columns is not None:
                found = self._declared(table, found)
            self._made[key] = found
        return self._made[key]

    def _declared(self, table: CreateTable, found: Relation) -> Relation:
        """Returns the rows of VALUES with their declared types, and those of a query under their declared names."""
        assert table.columns is not None
        if table.is_view or not isinstance(found.rows, StaticRows):
            return found.under(None, declared_names(table.columns))
        schema = declared_schema(table.columns)
        if len(schema) != len(found.columns):
            raise self._script.error(
                table.start, f"{table.name} has {len(schema)} columns, its rows {len(found.columns)}"
            )
        pairs = zip(schema, found.rows.schema.names, strict=True)
        cast = [f"CAST({quoted(old)} AS {spark_type_name(f.type)}) AS {quoted(f.name)}" for f, old in pairs]
        return relation_of(found.rows.select(*cast), None)

    def _given(self, asked: TableName, given: Any) -> Relation:
        if isinstance(given, Sink):
            raise PlanError(f"{asked.name} is a sink", None, f"Write INSERT INTO {asked.name} SELECT ...")
        if isinstance(given, Source):
            return self._source(asked.name, None, given)
        name = asked.name.lower()
        if name not in self._static:
            self._static[name] = StaticRows(asked.name, self._app.table(asked.name, given).data)
        found = relation_of(self._static[name], None)
        return self._streamed(asked, found) if asked.stream else found

    def _static_table(self, table: CreateTable) -> StaticRows:
        name = table.name.lower()
        if name not in self._static:
            if table.format is None:
                raise PlanError(
                    f"table {table.name} is stored nowhere", None, "Write USING and a format, or AS and a query."
                )
            options = {key: value for key, value in table.options.items() if key not in (*STREAM_OPTIONS, "refresh")}
            original, data = self._formats.table(table.format, options)
            refresh = table.options.get("refresh")
            self._static[name] = StaticRows(table.name, data, None if refresh is None else original, refresh)
        return self._static[name]

    def beside(self, rows: StaticRows) -> Table:
        """Returns a table of the app for joins."""
        name, number = rows.name, 2
        while name in self._beside and self._beside[name][0] is not rows:
            name, number = f"{rows.name}-{number}", number + 1
        if name not in self._beside:
            given = rows.data if rows.original is None else rows.original
            self._beside[name] = rows, self._app.table(name, given, refresh=rows.refresh)
        return self._beside[name][1]

    # Streams.

    def _streamed(self, asked: TableName, found: Relation) -> Relation:
        """Returns rows that are all there as a stream."""
        if not isinstance(found.rows, StaticRows):
            return found
        shown = StaticRows(found.rows.name, found.rows.data)
        return self._source(asked.name, self._catalog.declared.get(asked.name.lower()), MemorySource(shown.data))

    def _source(self, name: str, table: CreateTable | None, given: Source | None) -> Relation:
        key = f"stream {name.lower()}"
        if key not in self._made:
            options = {} if table is None else table.options
            stamp = options.get("stamp")
            mark = self._watermarks.get(name.lower())
            source = given or self._stored(table, stamp)
            time = None if mark is None else self._time(mark, source.schema.names, stamp)
            if stamp is not None:
                self.arrivals.append(stamp)
            further = {"max_jump": options["max_jump"]} if "max_jump" in options else {}
            stream = self._app.source(
                self._app.free_name(name),
                source,
                time=time,
                delay=0 if mark is None else mark.delay,
                stamp=stamp,
                parallelism=int(options["parallelism"]) if "parallelism" in options else None,
                **further,
            )
            self._made[key] = relation_of(stream, None)
        return self._made[key]

    def _time(self, mark: Watermark, names: list[str], stamp: str | None) -> str:
        """Returns the column of event time with the name that the source has for it."""
        known = [*names, *([] if stamp is None else [stamp])]
        found = next((name for name in known if name.lower() == mark.column.lower()), None)
        if found is None:
            raise self._script.error(
                mark.start,
                f"there is no column {mark.column}",
                "Name a timestamp of the table.",
                f"there are {', '.join(known)}",
            )
        return found

    def _stored(self, table: CreateTable | None, stamp: str | None) -> Source:
        assert table is not None
        if table.format is None:
            raise PlanError(
                f"table {table.name} is stored nowhere", None, "Write USING and a format, or AS and a query."
            )
        options = {key: value for key, value in table.options.items() if key not in STREAM_OPTIONS}
        schema = None if table.columns is None else declared_schema(table.columns)
        return self._formats.source(table.format, options, schema, self._named_columns())

    def _named_columns(self) -> list[str] | None:
        """Returns all names in the script, of which columns that are not among them need not be read; None for all."""
        words = words_of(self._script)
        every = ("SELECT", "DISTINCT", "ALL", ",", ".")
        if any(word.key == "*" and before.key in every for before, word in pairwise(words)):
            return None
        return sorted({word.value.lower() for word in words if word.kind in (Kind.NAME, Kind.QUOTED)})


def values_of(script: Script, rows: Rows) -> Relation:
    """Returns the rows of VALUES or range."""
    if rows.numbers is not None:
        data = pa.table({rows.columns[0]: pa.array(range(*rows.numbers), pa.int64())})
        return relation_of(StaticRows(rows.alias or "range", data), None)
    one = StaticRows("VALUES", pa.table({"__one": [0]}))
    parts: list[pa.Table] = []
    for row in rows.rows:
        with script.at(row[0].start):
            kinds = parts[0].schema if parts else None
            texts = []
            for place, (piece, name) in enumerate(zip(row, rows.columns, strict=True)):
                value = (
                    piece.text if kinds is None else f"CAST({piece.text} AS {spark_type_name(kinds.field(place).type)})"
                )
                texts.append(f"{value} AS {quoted(name)}")
            parts.append(one.select(*texts).data)
    return relation_of(StaticRows(rows.alias or "VALUES", pa.concat_tables(parts)), None)


def union_of_static(relations: list[Relation]) -> Relation:
    """Returns rows that are all there, put together."""
    first = relations[0].rows
    assert isinstance(first, StaticRows)
    parts = [
        relation.rows.data.rename_columns(first.schema.names)
        for relation in relations
        if isinstance(relation.rows, StaticRows)
    ]
    return relation_of(StaticRows(first.name, pa.concat_tables(parts, promote_options="none")), None)


def declared_names(columns: str) -> list[str]:
    """Returns the names of the columns of a declaration, which may have no types."""
    names, depth, begins = [], 0, True
    for word in words_of(Script(columns)):
        if begins:
            names.append(word.value)
        depth += (word.key in ("(", "<")) - (word.key in (")", ">"))
        begins = word.key == "," and not depth
    return names


def declared_schema(columns: str) -> pa.Schema:
    """Returns the columns of a declaration."""
    return parse_schema(columns)
