"""The grammar of statements: CREATE, INSERT, SELECT, EXPLAIN, SET and those for a session."""

from __future__ import annotations

from collections.abc import Iterator

from stretto.sql.cursor import Cursor
from stretto.sql.durations import duration
from stretto.sql.queries import read_query
from stretto.sql.refused import refuse_after_query, refuse_statement
from stretto.sql.script import Piece, Script
from stretto.sql.tree import (
    Ask,
    CreateFunction,
    CreateTable,
    Explain,
    Insert,
    Options,
    Query,
    Read,
    SessionQuestion,
    Setting,
    Statement,
    Wanted,
    Watermark,
)
from stretto.sql.words import Word, words_of

_BEGIN = "Statements begin with CREATE, INSERT, SELECT, WITH, EXPLAIN or SET."


def read_statements(script: Script) -> list[Read]:
    """Returns the statements of a script; semicolons end them."""
    found = []
    for words in _divided(words_of(script)):
        cursor = Cursor(script, words)
        statement = _statement(cursor)
        if not cursor.ended:
            refuse_after_query(cursor)
            raise cursor.unexpected("the end of the statement")
        first, last = words[0].start, words[-1].end
        found.append(Read(statement, Piece(script.text[first:last], first)))
    return found


def _divided(words: list[Word]) -> Iterator[list[Word]]:
    own: list[Word] = []
    for word in words:
        if word.key != ";":
            own.append(word)
        elif own:
            yield own
            own = []
    if own:
        yield own


def _statement(cursor: Cursor) -> Statement:
    start = cursor.start
    refuse_statement(cursor)
    if cursor.at_any(("SELECT", "WITH", "VALUES", "(", "TABLE")):
        return Ask(read_query(cursor), _trailing_options(cursor), start)
    if cursor.accept("FROM"):
        raise cursor.script.error(start, "FROM before SELECT is not supported", "Write SELECT ... FROM ...")
    if cursor.accept("INSERT"):
        return _insert(cursor, start)
    if cursor.accept("CREATE"):
        return _create(cursor, start)
    if cursor.accept("EXPLAIN"):
        cursor.accept("PLAN", "FOR")
        return Explain(_statement(cursor), start)
    if cursor.accept("SET"):
        name = cursor.dotted("the name of a setting")
        cursor.expect("=")
        return Setting(name.lower(), cursor.literal("a value"), start)
    return _of_session(cursor, start)


def _of_session(cursor: Cursor, start: int) -> Statement:
    if cursor.accept("SHOW"):
        cursor.expect("TABLES")
        return SessionQuestion(Wanted.TABLES, None, start)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        cursor.accept("TABLE")
        return SessionQuestion(Wanted.COLUMNS, cursor.dotted("the name of a table"), start)
    if cursor.accept("DROP"):
        if not (cursor.accept("TABLE") or cursor.accept("VIEW")):
            raise cursor.unexpected("TABLE or VIEW")
        cursor.accept("IF", "EXISTS")
        return SessionQuestion(Wanted.DROP, cursor.dotted("the name of a table"), start)
    raise cursor.unexpected("a statement", _BEGIN)


def _insert(cursor: Cursor, start: int) -> Insert:
    if cursor.at("OVERWRITE"):
        raise cursor.script.error(
            start,
            "INSERT OVERWRITE is not supported",
            "Write INSERT INTO, and OPTIONS (mode = 'overwrite') of the table.",
        )
    cursor.expect("INTO")
    cursor.accept("TABLE")
    by_name = cursor.accept("BY", "NAME")
    table = cursor.dotted("the name of a table")
    by_name = cursor.accept("BY", "NAME") or by_name
    columns = tuple(cursor.names("a column")) if cursor.at("(") else ()
    return Insert(table, columns, by_name, read_query(cursor), _trailing_options(cursor), start)


def _trailing_options(cursor: Cursor) -> Options:
    return _options(cursor) if cursor.accept("OPTIONS") else {}


def _create(cursor: Cursor, start: int) -> Statement:
    replace = cursor.accept("OR", "REPLACE") or cursor.accept("OR", "REFRESH")
    temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if cursor.accept("FUNCTION"):
        return _function(cursor, start)
    if cursor.accept("FLOW"):
        cursor.dotted("the name of a flow")
        cursor.expect("AS")
        cursor.expect("INSERT")
        return _insert(cursor, start)
    streaming = cursor.accept("STREAMING", "TABLE")
    is_view = not streaming and (cursor.accept("MATERIALIZED", "VIEW") or cursor.accept("VIEW"))
    if not streaming and not is_view and (temporary or not cursor.accept("TABLE")):
        raise cursor.unexpected(
            "VIEW" if temporary else "[STREAMING] TABLE, VIEW, MATERIALIZED VIEW, FUNCTION or FLOW",
        )
    return _table(cursor, start, streaming, is_view, replace)


def _function(cursor: Cursor, start: int) -> CreateFunction:
    name = cursor.name("the name of a function")
    if not cursor.accept("AS") or not cursor.is_string():
        raise cursor.script.error(
            start, "a function is written in Python", "Write CREATE FUNCTION f AS 'module:function', with @stretto.udf."
        )
    return CreateFunction(name, cursor.string("'module:function'"), start)


def _table(cursor: Cursor, start: int, streaming: bool, is_view: bool, replace: bool) -> CreateTable:
    cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.dotted("the name of a table")
    columns, watermark = _columns(cursor) if cursor.at("(") else (None, None)
    format_: str | None = None
    options: Options = {}
    partition_by: tuple[str, ...] = ()
    query: Query | None = None
    while not cursor.ended:
        if cursor.accept("USING"):
            format_ = cursor.string("a format") if cursor.is_string() else cursor.dotted("a format")
        elif cursor.accept("OPTIONS") or cursor.accept("TBLPROPERTIES") or cursor.accept("WITH"):
            options |= _options(cursor)
        elif cursor.accept("PARTITIONED", "BY"):
            partition_by = tuple(cursor.names("a column"))
        elif cursor.accept("LOCATION"):
            options["path"] = cursor.string("a path")
        elif cursor.accept("COMMENT"):
            cursor.string("a comment")
        elif cursor.accept("AS"):
            query = read_query(cursor)
            options |= _trailing_options(cursor)
            break
        else:
            raise cursor.unexpected("USING, OPTIONS, PARTITIONED BY, LOCATION, COMMENT or AS")
    if format_ is None and "connector" in options:
        format_ = options.pop("connector")
    if is_view and (query is None or format_ is not None):
        raise cursor.script.error(start, f"the view {name} is not a query", "Write CREATE VIEW name AS SELECT ...")
    return CreateTable(
        name, streaming, is_view, columns, format_, options, partition_by, watermark, query, start, replace
    )


def _columns(cursor: Cursor) -> tuple[str | None, Watermark | None]:
    """Reads the columns of a table, and WATERMARK FOR ts AS ts - INTERVAL '5' SECOND among them."""
    cursor.expect("(")
    texts, watermark = [], None
    while True:
        start = cursor.start
        if cursor.accept("WATERMARK", "FOR"):
            column = cursor.name("the column of event time")
            cursor.expect("AS")
            if cursor.name("the column of event time") != column:
                raise cursor.script.error(start, f"the watermark of {column} is another column's", None)
            delay = duration(cursor) if cursor.accept("-") else "0 seconds"
            watermark = Watermark(column, delay, start)
        else:
            texts.append(cursor.expression("a column and its type", (",",)).text)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return ", ".join(texts) or None, watermark


def _options(cursor: Cursor) -> Options:
    """Reads (name = 'value', 'other' = 5)."""
    cursor.expect("(")
    found: Options = {}
    while not cursor.at(")"):
        start = cursor.start
        name = cursor.string("an option") if cursor.is_string() else cursor.dotted("the name of an option")
        cursor.accept("=")
        if name.lower() in found:
            raise cursor.script.error(start, f"the option {name} is given twice", "Give it once.")
        found[name.lower()] = cursor.literal("a value")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found
