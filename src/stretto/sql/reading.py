"""Queries to relations: common tables, unions, and the sources of a SELECT with its conditions where they belong.

Conditions of WHERE and of inner joins are taken apart. One that only reads one side is a filter before the join; the
others are conditions of the join, so that a bound in time is found wherever it is written. Beside outer joins only the
side whose rows are all kept is filtered before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from stretto.errors import PlanError
from stretto.expressions.parse import parse
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import conjuncts
from stretto.sql.asof import asof_joined
from stretto.sql.joins import columns_of, joined, using, with_table
from stretto.sql.naming import named_in, names_column
from stretto.sql.projecting import parsed_item, result
from stretto.sql.relation import (
    Bounds,
    Column,
    Relation,
    StaticRows,
    is_pending,
    parts_of,
    relation_of,
    unbounded_rank,
)
from stretto.sql.script import Piece, Script
from stretto.sql.selecting import Selecting, bounded
from stretto.sql.sources import ASOF
from stretto.sql.tables import Tables, union_of_static, values_of
from stretto.sql.tree import (
    Body,
    CommonTable,
    Join,
    Query,
    Rows,
    Select,
    Source,
    Subquery,
    TableName,
    Union,
    WindowedTable,
)
from stretto.sql.windows import divided, windowed

_LEFT_KEPT = ("inner", "left", "semi", "anti", "asof", "left asof")
_RIGHT_KEPT = ("inner", "right")
"""Joins after which a condition on one side alone may as well be fulfilled before."""
_FROM_ON = {
    "inner": (0, 1),
    "left": (1,),
    "right": (0,),
    "semi": (0, 1),
    "anti": (1,),
    "full": (),
    "asof": (0, 1),
    "left asof": (1,),
}
"""The sides whose rows a condition of ON alone may remove before the join."""


@dataclass
class _Common:
    """A common table and what its query may name; it is read once."""

    table: CommonTable
    visible: dict[str, _Common]
    relation: Relation | None = None


Visible = dict[str, _Common]


@dataclass
class Reading:
    """Reads queries of one script."""

    script: Script
    tables: Tables
    _names: set[str] = field(default_factory=set)

    def query(self, query: Query, name: str | None = None, visible: Visible | None = None) -> Relation:
        """Returns the rows of a query. Its last function that keeps state has this name, if it is free."""
        own = dict(visible or {})
        for table in query.tables:
            own[table.name.lower()] = _Common(table, dict(own))
        return self._body(query.body, name, own)

    def _body(self, body: Body, name: str | None, visible: Visible) -> Relation:
        if isinstance(body, Rows):
            return values_of(self.script, body)
        if isinstance(body, Union):
            return self._union(body, name, visible)
        for item in body.items:
            with self.script.at(item.piece.start):
                parsed_item(item.piece.text)  # A list that cannot be read is told of before anything else.
        with self.script.at(body.start):
            wanted = _Reader(self, body, visible).relation()
            return Selecting(self.script, body, wanted, self.tables.arrivals, self._free(name)).result()

    def _free(self, name: str | None) -> str | None:
        """Returns a name for a function, once, if the app has none of it."""
        if name is None or name in self._names or self.tables.app.free_name(name) != name:
            return None
        self._names.add(name)
        return name

    def _union(self, union: Union, name: str | None, visible: Visible) -> Relation:
        parts = [self._body(part, None, visible) for part in union.parts]
        with self.script.at(union.start):
            if all(isinstance(part.rows, StaticRows) for part in parts):
                return union_of_static(parts)
            names = [column.name for column in parts[0].shown]
            first, *others = [result(part, names) for part in parts]
            apart = [
                each.select(*(f"`{column}`" for column in names)) if each.name == first.name else each
                for each in others
            ]
            stream = first.union(*apart)
            return relation_of(stream.drop_duplicates(name=self._free(name)) if union.distinct else stream, None)

    def leaf(self, source: Source, visible: Visible) -> Relation:
        """Returns a table, a subquery or a window function with the names of its columns."""
        match source:
            case TableName():
                return self._named(source, visible).under(source.alias or source.name.split(".")[-1])
            case Subquery(query=query, alias=alias, columns=columns, start=start):
                with self.script.at(start):
                    return self.query(query, alias, visible).under(alias, columns)
            case WindowedTable(table=table, start=start):
                relation = self.leaf(table, visible)
                with self.script.at(start):
                    return windowed(relation, source)
            case Rows(alias=alias):
                return values_of(self.script, source).under(alias)
        raise AssertionError(source)

    def _named(self, source: TableName, visible: Visible) -> Relation:
        common = visible.get(source.name.lower())
        if common is None:
            return self.tables.relation(source, lambda query, name: self.query(query, name))
        if source.watermark is not None:
            raise self.script.error(
                source.watermark.start,
                f"{source.name} is a query, and has a watermark",
                "Write WATERMARK where its table is read: the event time goes with the rows.",
            )
        if common.relation is None:
            found = self.query(common.table.query, common.table.name, common.visible)
            with self.script.at(source.start):
                common.relation = found.under(None, common.table.columns)
        return common.relation


@dataclass
class _Condition:
    """A part of a condition, as it is written, and where."""

    text: str
    start: int


class _Reader:
    """The sources of one SELECT."""

    def __init__(self, reading: Reading, select: Select, visible: Visible) -> None:
        self._reading = reading
        self._script = reading.script
        self._select = select
        self._visible = visible
        self._leaves: dict[int, Relation] = {}
        self._on: list[Piece] = []

    def relation(self) -> Relation:
        source = self._select.source
        if source is None:
            found = Relation(StaticRows("SELECT", pa.table({"__one": [0]})), ())
            rest = self._parts(self._select.where)
        else:
            self._read_leaves(source)
            found, rest = self._built(source, self._parts(self._select.where))
        for condition in rest:
            found = self._filtered(found, condition)
        return found

    def _pruned(self, relation: Relation) -> Relation:
        """Returns rows that will be kept for a while with no more than the columns that the SELECT names."""
        if isinstance(relation.rows, StaticRows) or relation.rank is not None:
            return relation
        named = named_in(self._select, self._on)
        if named is None:
            return relation
        kept = [column for column in relation.columns if column.name.lower() in named]
        wanted = {part for c in kept for part in ((c.ref.start, c.ref.end) if isinstance(c.ref, Bounds) else (c.ref,))}
        stream = relation.stream
        if relation.bounds is not None:
            wanted |= {relation.bounds.start, relation.bounds.end}
        if relation.pending is not None and stream.time is not None:
            wanted.add(stream.time.column)
        names = [name for name in stream.schema.names if name in wanted]
        if not names or len(names) == len(stream.schema):
            return relation
        return replace(relation, rows=stream.select(*map(quoted, names)), columns=tuple(kept))

    def _read_leaves(self, source: Source) -> None:
        if isinstance(source, Join):
            self._read_leaves(source.left)
            self._read_leaves(source.right)
            self._on += [piece for piece in (source.on, source.match) if piece is not None]
        else:
            self._leaves[id(source)] = self._reading.leaf(source, self._visible)

    def _parts(self, piece: Piece | None) -> list[_Condition]:
        if piece is None:
            return []
        with self._script.at(piece.start):
            return [_Condition(text, piece.start) for text in conjuncts(piece.text, "a condition")]

    def _columns(self, source: Source) -> tuple[Column, ...]:
        """Returns the columns of a source before anything is joined."""
        if isinstance(source, Join):
            return (*self._columns(source.left), *self._columns(source.right))
        return columns_of([self._leaves[id(source)]])

    def _reads(self, condition: _Condition, source: Source) -> bool:
        """Whether a condition names columns, and a source has all of them."""
        every = Relation(StaticRows("", pa.table({})), self._columns(source))
        with self._script.at(condition.start):
            named = [parts_of(column) for column in parse(condition.text).tree.find_all(exp.Column)]
            return bool(named) and all(every.find(parts) is not None for parts in named)

    def _built(self, source: Source, conditions: Sequence[_Condition]) -> tuple[Relation, list[_Condition]]:
        """Returns the rows of a source with those of the conditions that it can fulfil, and the others."""
        if not isinstance(source, Join):
            own = [each for each in conditions if self._reads(each, source)]
            return self._leaf(source, own), [each for each in conditions if each not in own]
        above, on = list(conditions), self._parts(source.on)
        sides = (source.left, source.right)
        pushed: tuple[list[_Condition], list[_Condition]] = ([], [])
        for side, kept in ((0, _LEFT_KEPT), (1, _RIGHT_KEPT)):
            other = sides[1 - side]
            if source.kind in kept:
                pushed[side].extend(c for c in above if self._reads(c, sides[side]) and not self._reads(c, other))
            if side in _FROM_ON[source.kind]:
                pushed[side].extend(c for c in on if self._reads(c, sides[side]) and not self._reads(c, other))
        rest = [c for c in above if c not in pushed[0] and c not in pushed[1]]
        on = [c for c in on if c not in pushed[0] and c not in pushed[1]]
        if source.kind == "inner":
            both = [c for c in rest if self._reads(c, source)]
            on, rest = on + both, [c for c in rest if c not in both]
        left, left_over = self._built(sides[0], pushed[0])
        right, right_over = self._built(sides[1], pushed[1])
        texts = [c.text for c in (*on, *left_over, *right_over)]
        with self._script.at(source.start if source.on is None else source.on.start):
            return self._joined(source, left, right, texts), rest

    def _leaf(self, source: Source, conditions: Sequence[_Condition]) -> Relation:
        found = self._leaves[id(source)]
        rank = found.rank
        if rank is not None:
            bounds = [c for c in conditions if rank.name.lower() in c.text.lower()]
            if not bounds:
                raise self._with_place(rank.start, unbounded_rank(rank))
            shown = names_column(self._select, rank.name) or any(
                rank.name.lower() in on.text.lower() for on in self._on
            )
            piece = Piece(" AND ".join(f"({c.text})" for c in bounds), bounds[0].start)
            alias = found.columns[0].qualifier if found.columns else None
            arrivals = self._reading.tables.arrivals
            found = bounded(self._script, found, piece, arrivals, None, shown, alias)
            conditions = [c for c in conditions if c not in bounds]
        for condition in conditions:
            found = self._filtered(found, condition)
        return self._pruned(found) if isinstance(self._select.source, Join) or self._has_ranks() else found

    def _has_ranks(self) -> bool:
        return self._select.qualify is not None or any(item.ranked for item in self._select.items)

    def _with_place(self, start: int, error: PlanError) -> PlanError:
        return self._script.error(start, error.fact, error.fix, error.detail)

    def _filtered(self, relation: Relation, condition: _Condition) -> Relation:
        with self._script.at(condition.start):
            tree = parse(condition.text).tree
            refs = [relation.ref(column) for column in tree.find_all(exp.Column)]
            if any(ref is not None and is_pending(ref) for ref in refs):
                relation = divided(relation)
            rows = relation.rows if isinstance(relation.rows, StaticRows) else relation.stream
            return relation.with_rows(rows.filter(relation.named(condition.text)))

    def _joined(self, source: Join, left: Relation, right: Relation, texts: Sequence[str]) -> Relation:
        if source.using:
            left, right, equal = using(source.using, left, right, source.kind)
            texts = [*equal, *texts]
        static = [isinstance(each.rows, StaticRows) for each in (left, right)]
        if source.match is not None:
            return self._asof(source, left, right, texts, any(static))
        if all(static):
            raise PlanError("a join of two tables has no stream", None, "Write FROM STREAM before one of them.")
        if not any(static):
            if not texts:
                raise PlanError("a join has no condition", None, "Name at least one equality of both sides.")
            return joined(left, right, source.kind, texts, None)
        how, swapped = source.kind, static[0]
        if swapped and how in ("semi", "anti"):
            raise PlanError(f"the left side of a {how} join is a table", None, "Write STREAM before it.")
        how = {"left": "right", "right": "left"}.get(how, how) if swapped else how
        stream, rows = (right, left) if swapped else (left, right)
        assert isinstance(rows.rows, StaticRows)
        found = with_table(stream, rows, self._reading.tables.beside(rows.rows), how, self._turned(texts), None)
        if swapped and how not in ("semi", "anti"):
            split = len(stream.columns)
            found = replace(found, columns=(*found.columns[split:], *found.columns[:split]))
        return found

    def _asof(self, source: Join, left: Relation, right: Relation, texts: Sequence[str], static: bool) -> Relation:
        assert source.match is not None
        if static:
            raise PlanError("an ASOF join is of two streams", "one side is a table", "Write STREAM before it.")
        with self._script.at(source.match.start):
            return asof_joined(left, right, ASOF[source.kind], source.match.text, self._turned(texts))

    def _turned(self, texts: Sequence[str]) -> list[str]:
        if not texts:
            raise PlanError("a join has no condition", None, "Name at least one equality of both sides.")
        return list(texts)
