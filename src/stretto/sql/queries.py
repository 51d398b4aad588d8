"""The grammar of queries: WITH, SELECT and its clauses, UNION."""

from __future__ import annotations

from stretto.sql.cursor import Cursor
from stretto.sql.ranks import rank_bound, read_ranked
from stretto.sql.refused import refuse_after_query
from stretto.sql.script import Piece
from stretto.sql.sources import AFTER_SOURCE, read_source, read_values
from stretto.sql.tree import Body, CommonTable, Grouping, Item, Query, RankBound, Select, Union

_AFTER_ITEM = frozenset(("FROM", ",", *(AFTER_SOURCE - {"LEFT", "RIGHT", "ON", "USING"})))
_SETS_MAX = 12
"""The greatest number of columns of CUBE that is expanded here; the verb refuses fewer."""


def read_query(cursor: Cursor) -> Query:
    """Reads a query up to where it ends."""
    tables: list[CommonTable] = []
    if cursor.accept("WITH"):
        if cursor.at("RECURSIVE"):
            raise cursor.script.error(
                cursor.start,
                "WITH RECURSIVE is not supported",
                "A dataflow goes from sources to sinks: break the loop.",
            )
        while True:
            tables.append(_common_table(cursor))
            if not cursor.accept(","):
                break
    body = _union(cursor)
    refuse_after_query(cursor)
    return Query(body, tuple(tables))


def _common_table(cursor: Cursor) -> CommonTable:
    name = cursor.name("the name of a common table")
    columns = tuple(cursor.names("a column")) if cursor.at("(") else ()
    cursor.expect("AS")
    cursor.expect("(")
    query = read_query(cursor)
    cursor.expect(")")
    return CommonTable(name, columns, query)


def _union(cursor: Cursor) -> Body:
    start = cursor.start
    found = _core(cursor)
    while cursor.accept("UNION"):
        distinct = not cursor.accept("ALL")
        cursor.accept("DISTINCT")
        found = Union((found, _core(cursor)), distinct, start)
    return found


def _core(cursor: Cursor) -> Body:
    if cursor.at("VALUES"):
        return read_values(cursor)
    if cursor.accept("("):
        query = read_query(cursor)
        cursor.expect(")")
        if query.tables:
            raise cursor.script.error(cursor.start, "WITH inside of a UNION is not supported", "Write it at the front.")
        return query.body
    start = cursor.start
    if cursor.accept("TABLE"):
        every = (Item(Piece("*", start)),)
        return Select(every, False, read_source(cursor, read_query), None, None, None, None, start)
    return _select(cursor)


def _select(cursor: Cursor) -> Select:
    start = cursor.expect("SELECT")
    distinct = cursor.accept("DISTINCT")
    cursor.accept("ALL")
    items = [_item(cursor)]
    while cursor.accept(","):
        items.append(_item(cursor))
    source = read_source(cursor, read_query) if cursor.accept("FROM") else None
    refuse_after_query(cursor)
    where = cursor.expression("a condition", AFTER_SOURCE) if cursor.accept("WHERE") else None
    refuse_after_query(cursor)
    groups = _groups(cursor) if cursor.accept("GROUP", "BY") else None
    having = cursor.expression("a condition", AFTER_SOURCE) if cursor.accept("HAVING") else None
    refuse_after_query(cursor)
    qualify: Piece | RankBound | None = None
    if cursor.accept("QUALIFY"):
        condition = cursor.expression("a condition", AFTER_SOURCE)
        qualify = rank_bound(cursor.script, condition) or condition
    return Select(tuple(items), distinct, source, where, groups, having, qualify, start)


def _item(cursor: Cursor) -> Item:
    piece = cursor.expression("a column", _AFTER_ITEM)
    ranked = read_ranked(cursor.script, piece)
    return Item(piece) if ranked is None else Item(piece, *ranked)


def _groups(cursor: Cursor) -> tuple[Grouping, ...]:
    if cursor.at("ALL") and not cursor.at("ALL", "("):
        raise cursor.script.error(cursor.start, "GROUP BY ALL is not supported", "Name the columns to group by.")
    found = [_group(cursor)]
    while cursor.accept(","):
        found.append(_group(cursor))
    if cursor.accept("WITH", "ROLLUP"):
        return (_rolled_up([each.sets[0] for each in found]),)
    if cursor.accept("WITH", "CUBE"):
        return (_cubed(cursor, [each.sets[0] for each in found]),)
    return tuple(found)


def _group(cursor: Cursor) -> Grouping:
    if cursor.accept("ROLLUP"):
        return _rolled_up(_elements(cursor))
    if cursor.accept("CUBE"):
        return _cubed(cursor, _elements(cursor))
    if cursor.accept("GROUPING", "SETS"):
        return Grouping(tuple(_elements(cursor)), is_plain=False)
    return Grouping(((cursor.expression("a column", (*AFTER_SOURCE, "WITH")),),))


def _elements(cursor: Cursor) -> list[tuple[Piece, ...]]:
    """Reads (a, (b, c), ()): lists of expressions, of which one alone needs no parentheses."""
    cursor.expect("(")
    found: list[tuple[Piece, ...]] = []
    while True:
        if cursor.accept("("):
            found.append(() if cursor.at(")") else tuple(cursor.expressions("a column", ())))
            cursor.expect(")")
        else:
            found.append((cursor.expression("a column", (",",)),))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def _rolled_up(elements: list[tuple[Piece, ...]]) -> Grouping:
    sets = [tuple(piece for each in elements[:count] for piece in each) for count in range(len(elements), -1, -1)]
    return Grouping(tuple(sets), is_plain=False)


def _cubed(cursor: Cursor, elements: list[tuple[Piece, ...]]) -> Grouping:
    if len(elements) > _SETS_MAX:
        raise cursor.unexpected(f"a CUBE of at most {_SETS_MAX} columns", "Name the sets: GROUPING SETS ((a, b), (a)).")
    sets = []
    for number in range(2 ** len(elements) - 1, -1, -1):
        chosen = [each for place, each in enumerate(reversed(elements)) if number >> place & 1]
        sets.append(tuple(piece for each in reversed(chosen) for piece in each))
    return Grouping(tuple(sets), is_plain=False)
