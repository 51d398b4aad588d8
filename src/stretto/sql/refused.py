"""What SQL has and streams do not, or not so: by their words, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from stretto.errors import SqlError
from stretto.sql.cursor import Cursor

_Known = Mapping[tuple[str, ...], tuple[str, str]]
_AFTER_QUERY: _Known = {
    ("ORDER", "BY"): (
        "ORDER BY at the end of a query",
        "A stream has no end to sort at. For the first rows write QUALIFY ROW_NUMBER() OVER (ORDER BY ...) <= 10; "
        "sort the results where they are read.",
    ),
    ("SORT", "BY"): ("SORT BY", "A stream has no end to sort at; sort the results where they are read."),
    ("LIMIT",): (
        "LIMIT",
        "A stream has no first rows without an order. Write QUALIFY ROW_NUMBER() OVER (ORDER BY ...) <= 10.",
    ),
    ("OFFSET",): ("OFFSET", "A stream has no first rows without an order; rank them with ROW_NUMBER()."),
    ("CLUSTER", "BY"): ("CLUSTER BY", "Rows are distributed by the keys of what follows. Leave it out."),
    ("DISTRIBUTE", "BY"): ("DISTRIBUTE BY", "Rows are distributed by the keys of what follows. Leave it out."),
    ("INTERSECT",): ("INTERSECT", "Write a LEFT SEMI JOIN on all columns."),
    ("EXCEPT",): ("EXCEPT between queries", "Write a LEFT ANTI JOIN on all columns."),
    ("MINUS",): ("MINUS", "Write a LEFT ANTI JOIN on all columns."),
    ("EMIT",): (
        "EMIT",
        "Windows send their rows when they close, and aggregates without a window send each change. Leave it out.",
    ),
    ("WINDOW",): ("a WINDOW clause", "Write what it says inside of OVER (...)."),
    ("LATERAL", "VIEW"): ("LATERAL VIEW", "Write explode(...) in the select list of a subquery."),
}
_AFTER_TABLE: _Known = {
    ("MATCH_RECOGNIZE",): (
        "MATCH_RECOGNIZE",
        "Write a stretto.Function with state in Python, or a join of the stream with itself within an interval.",
    ),
    ("PIVOT",): ("PIVOT", "Write one aggregate for each column: sum(x) FILTER (WHERE y = 'a') AS a."),
    ("UNPIVOT",): ("UNPIVOT", "Write stack(n, 'a', a, 'b', b) AS (name, value) in the select list."),
    ("TABLESAMPLE",): ("TABLESAMPLE", "Write a condition, such as WHERE hash(id) % 10 = 0, which a replay repeats."),
    ("FOR", "SYSTEM_TIME"): (
        "FOR SYSTEM_TIME AS OF",
        "Join with the table itself: its rows are those of when a row arrives, and the option refresh has it read "
        "again.",
    ),
    ("FOR", "SYSTEM_VERSION"): ("FOR SYSTEM_VERSION AS OF", "Join with the table as it is."),
    ("TIMESTAMP", "AS"): ("TIMESTAMP AS OF", "Read the table as it is."),
    ("VERSION", "AS"): ("VERSION AS OF", "Read the table as it is."),
}
_JOINS: _Known = {
    ("CROSS",): ("CROSS JOIN", "Name at least one equality of both sides: JOIN ... ON a.x = b.y."),
    ("NATURAL",): ("NATURAL JOIN", "Name the columns: JOIN ... USING (id)."),
    ("LATERAL",): ("LATERAL", "Write a join with a condition, or explode(...) in a select list."),
}
_STATEMENTS: _Known = {
    ("UPDATE",): ("UPDATE", "A stream computes new rows: write INSERT INTO ... SELECT."),
    ("DELETE",): ("DELETE", "A stream computes new rows: write INSERT INTO ... SELECT ... WHERE."),
    ("MERGE",): (
        "MERGE",
        "Write INSERT INTO a table USING parquet with OPTIONS (changelog = '_change'), and merge where it is read.",
    ),
    ("APPLY",): ("APPLY CHANGES", "Write QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY time DESC) = 1."),
    ("AUTO",): ("AUTO CDC", "Write QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY time DESC) = 1."),
    ("ALTER",): ("ALTER", "Change the CREATE statement."),
    ("CACHE",): ("CACHE", "A stream is read once by all that follows it. Leave it out."),
    ("USE",): ("USE", "There is one list of tables, without catalogs and schemas."),
}


def refuse_after_query(cursor: Cursor) -> None:
    """Raises if a clause is next that may follow a query in SQL, and not here."""
    _refuse(cursor, _AFTER_QUERY)


def refuse_after_table(cursor: Cursor) -> None:
    """Raises if a clause is next that may follow a table in SQL, and not here."""
    _refuse(cursor, _AFTER_TABLE)


def refuse_join(cursor: Cursor) -> None:
    """Raises if a join is next that streams do not have."""
    _refuse(cursor, _JOINS)


def refuse_statement(cursor: Cursor) -> None:
    """Raises if a statement is next that changes what is stored."""
    _refuse(cursor, _STATEMENTS)


def _refuse(cursor: Cursor, known: _Known) -> None:
    for words, (what, fix) in known.items():
        if cursor.at(*words):
            raise _error(cursor, what, fix)


def _error(cursor: Cursor, what: str, fix: str) -> SqlError:
    return cursor.script.error(cursor.start, f"{what} is not supported", fix)
