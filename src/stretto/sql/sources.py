"""The grammar of FROM: tables, subqueries, window functions, rows, and joins of them."""

from __future__ import annotations

from collections.abc import Callable

from stretto.sql.cursor import Cursor
from stretto.sql.durations import duration, read_watermark
from stretto.sql.refused import refuse_after_table, refuse_join
from stretto.sql.script import Piece
from stretto.sql.tree import Join, Query, Rows, Shape, Source, Subquery, TableName, WindowedTable

AFTER_SOURCE = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "QUALIFY",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "MINUS",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "JOIN",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "CROSS",
        "NATURAL",
        "ASOF",
        "SEMI",
        "ANTI",
        "LATERAL",
        "OPTIONS",
        "EMIT",
        "MATCH_CONDITION",
        "ON",
        "USING",
        ",",
        ";",
    ]
)
_KINDS = {
    ("INNER", "ASOF"): "asof",
    ("LEFT", "ASOF"): "left asof",
    ("LEFT", "OUTER", "ASOF"): "left asof",
    ("ASOF",): "asof",
    ("INNER",): "inner",
    ("LEFT", "OUTER"): "left",
    ("LEFT", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("LEFT",): "left",
    ("RIGHT", "OUTER"): "right",
    ("RIGHT",): "right",
    ("FULL", "OUTER"): "full",
    ("FULL",): "full",
    ("SEMI",): "semi",
    ("ANTI",): "anti",
}
ASOF = {"asof": "inner", "left asof": "left"}
"""The kinds of ASOF joins, and what they are besides."""
#: The sizes of each window function in the order of its arguments; after them may come the offset.
_SIZES = {
    Shape.TUMBLE: ("SIZE",),
    Shape.HOP: ("SLIDE", "SIZE"),
    Shape.CUMULATE: ("STEP", "SIZE"),
    Shape.SESSION: ("GAP",),
}
_FORM = {
    Shape.TUMBLE: "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    Shape.HOP: "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND), the slide and then the size",
    Shape.CUMULATE: "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    Shape.SESSION: "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
}

ReadQuery = Callable[[Cursor], Query]


def read_source(cursor: Cursor, read_query: ReadQuery) -> Source:
    """Reads what follows FROM."""
    found = _joined(cursor, read_query)
    while cursor.at(","):
        start = cursor.start
        cursor.accept(",")
        refuse_join(cursor)
        found = Join("inner", found, _joined(cursor, read_query), None, (), start)
    return found


def _joined(cursor: Cursor, read_query: ReadQuery) -> Source:
    found = _one(cursor, read_query)
    while True:
        refuse_join(cursor)
        start = cursor.start
        kind = _kind(cursor)
        if kind is None:
            return found
        refuse_join(cursor)
        right = _one(cursor, read_query)
        match = _match(cursor) if kind in ASOF else None
        on: Piece | None = None
        using: tuple[str, ...] = ()
        if cursor.accept("ON"):
            on = cursor.expression("a condition", AFTER_SOURCE)
        elif cursor.accept("USING"):
            using = tuple(cursor.names("a column"))
        else:
            raise cursor.unexpected("ON or USING", "A join of streams needs at least one equality of both sides.")
        found = Join(kind, found, right, on, using, start, match)


def _kind(cursor: Cursor) -> str | None:
    if cursor.accept("JOIN"):
        return "inner"
    for words, kind in _KINDS.items():
        if cursor.at(*words):
            cursor.accept(*words)
            refuse_join(cursor)
            cursor.expect("JOIN")
            return kind
    return None


def _match(cursor: Cursor) -> Piece:
    cursor.expect("MATCH_CONDITION", "(", fix="Write ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k.")
    found = cursor.expression("a comparison of two times", ())
    cursor.expect(")")
    return found


def _one(cursor: Cursor, read_query: ReadQuery) -> Source:
    start = cursor.start
    if cursor.at("("):
        return _parenthesis(cursor, read_query)
    if cursor.at("VALUES"):
        return read_values(cursor)
    refuse_join(cursor)
    if cursor.accept("TABLE", "("):
        found = _function(cursor, read_query)
        cursor.expect(")")
        return _named(cursor, found)
    if _is_window_function(cursor):
        return _named(cursor, _function(cursor, read_query))
    if cursor.accept("RANGE", "("):
        return _range(cursor, start)
    return _table(cursor)


def _parenthesis(cursor: Cursor, read_query: ReadQuery) -> Source:
    start = cursor.expect("(")
    if cursor.at("SELECT") or cursor.at("WITH") or cursor.at("VALUES") or cursor.at("("):
        query = read_query(cursor)
        cursor.expect(")")
        alias = cursor.alias()
        columns = tuple(cursor.names("a column")) if alias and cursor.at("(") else ()
        refuse_after_table(cursor)
        return Subquery(query, alias, columns, start)
    found = read_source(cursor, read_query)
    cursor.expect(")")
    return found


def _table(cursor: Cursor) -> TableName:
    start = cursor.start
    stream = cursor.accept("STREAM")
    if stream and (cursor.ended or cursor.at_any(AFTER_SOURCE) or cursor.at("AS") or cursor.at(")")):
        cursor.back(1)  # A table of this name.
        stream = False
    enclosed = stream and cursor.accept("(")
    name = cursor.dotted("the name of a table")
    if enclosed:
        cursor.expect(")")
    if cursor.at("("):
        raise cursor.script.error(
            start,
            f"the table function {name} is not supported",
            "There are TUMBLE, HOP, CUMULATE, SESSION and range; write explode(...) in a select list.",
        )
    refuse_after_table(cursor)
    watermark = read_watermark(cursor)
    alias = cursor.alias()
    watermark = watermark or read_watermark(cursor)
    refuse_after_table(cursor)
    return TableName(name, stream, alias, watermark, start)


def _is_window_function(cursor: Cursor) -> bool:
    return any(cursor.at(shape.value, "(") for shape in Shape)


def _function(cursor: Cursor, read_query: ReadQuery) -> WindowedTable:
    """Reads TUMBLE(TABLE t, DESCRIPTOR(ts), ...), also with names of arguments."""
    start = cursor.start
    if not _is_window_function(cursor):
        raise cursor.unexpected("TUMBLE, HOP, CUMULATE or SESSION")
    shape = Shape(cursor.name("a window function").upper())
    cursor.expect("(")
    table: Source | None = None
    time = ""
    keys: tuple[str, ...] = ()
    sizes: dict[str, str] = {}
    waiting = ["DATA", "TIMECOL", *_SIZES[shape], "OFFSET"]
    while not cursor.at(")"):
        named = next((name for name in waiting if cursor.accept(name, "=>")), None)
        if not waiting:
            raise cursor.unexpected(")", f"Write {_FORM[shape]}.")
        role = named or waiting[0]
        waiting.remove(role)
        if role == "DATA":
            table = _argument(cursor, read_query)
            if cursor.accept("PARTITION", "BY"):
                keys = tuple(cursor.names("a column")) if cursor.at("(") else _bare_names(cursor)
        elif role == "TIMECOL":
            cursor.expect("DESCRIPTOR", fix=f"Write {_FORM[shape]}.")
            (time,) = cursor.names("the column of event time")
        else:
            sizes[role] = duration(cursor)
        if not cursor.accept(","):
            break
    cursor.expect(")", fix=f"Write {_FORM[shape]}.")
    missing = [name for name in waiting if name != "OFFSET"]
    if table is None or missing:
        raise cursor.script.error(
            start, f"{shape.value} has no {missing[0].lower() if missing else 'table'}", f"Write {_FORM[shape]}."
        )
    return WindowedTable(shape, table, time, sizes, keys, None, start)


def _bare_names(cursor: Cursor) -> tuple[str, ...]:
    """Reads columns up to the next argument, which begins with DESCRIPTOR or has a name."""
    found = [cursor.name("a column")]
    while cursor.at(",") and not cursor.at(",", "DESCRIPTOR") and not cursor.at(",", "TIMECOL"):
        cursor.accept(",")
        found.append(cursor.name("a column"))
    return tuple(found)


def _argument(cursor: Cursor, read_query: ReadQuery) -> Source:
    cursor.accept("TABLE")
    if cursor.at("("):
        return _parenthesis(cursor, read_query)
    start = cursor.start
    stream = cursor.accept("STREAM")
    name = cursor.dotted("the name of a table")
    return TableName(name, stream, None, read_watermark(cursor), start)


def _named(cursor: Cursor, found: WindowedTable) -> WindowedTable:
    refuse_after_table(cursor)
    alias = cursor.alias()
    return WindowedTable(found.shape, found.table, found.time, found.sizes, found.partition_by, alias, found.start)


def _range(cursor: Cursor, start: int) -> Rows:
    numbers = []
    while not cursor.accept(")"):
        numbers.append(cursor.literal("a number"))
        cursor.accept(",")
    if not 1 <= len(numbers) <= 3 or not all(number.lstrip("-").isdigit() for number in numbers):
        raise cursor.script.error(start, "range takes one to three whole numbers", "Write range(10).")
    values = [int(number) for number in numbers]
    begin, end, step = (0, values[0], 1) if len(values) == 1 else (*values[:2], values[2] if len(values) == 3 else 1)
    return Rows((), ("id",), cursor.alias(), start, (begin, end, step))


def read_values(cursor: Cursor) -> Rows:
    """Reads VALUES (1, 'a'), (2, 'b') AS t (id, name)."""
    start = cursor.expect("VALUES")
    rows = [_row(cursor)]
    while cursor.accept(","):
        rows.append(_row(cursor))
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise cursor.script.error(start, "the rows of VALUES have different lengths")
    alias = cursor.alias()
    columns = tuple(cursor.names("a column")) if alias and cursor.at("(") else ()
    columns = columns or tuple(f"col{place + 1}" for place in range(width))
    if len(columns) != width:
        raise cursor.script.error(start, f"VALUES has {width} columns, and {len(columns)} names")
    return Rows(tuple(rows), columns, alias, start)


def _row(cursor: Cursor) -> tuple[Piece, ...]:
    if not cursor.accept("("):
        return (cursor.expression("a value", (",", ";", "AS", "OPTIONS")),)
    found = cursor.expressions("a value", ())
    cursor.expect(")")
    return tuple(found)
