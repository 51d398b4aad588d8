"""SELECT: its sources, its conditions where they belong, its groups and ranks, and its list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from stretto.errors import PlanError
from stretto.expressions import compile_projection
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.expressions.aggregate_texts import calls_in
from stretto.expressions.parse import Parsed, parse, split_direction
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import conjuncts, with_parts_replaced
from stretto.sql.grouping import Groups, has_aggregates
from stretto.sql.naming import names
from stretto.sql.projecting import Named, Output, is_star, output_name, outputs_of, parsed_item, projected
from stretto.sql.ranking import bound_of, ranked, renamed_windows
from stretto.sql.ranks import RANK
from stretto.sql.relation import START, Column, PendingRank, Relation, is_pending, parts_of
from stretto.sql.script import Piece, Script
from stretto.sql.tree import Grouping, RankBound, Ranked, Select
from stretto.sql.windows import called_window, divided


@dataclass(frozen=True)
class Selecting:
    """One SELECT over a relation that has its conditions already."""

    script: Script
    select: Select
    relation: Relation
    arrivals: Sequence[str]
    name: str | None

    def result(self) -> Relation:
        """Returns the rows of the SELECT; those of a rank without a bound are known by the names of their columns."""
        select = self.select
        ordinary = [item for item in select.items if item.ranked is None]
        parsed = [parsed_item(item.piece.text) for item in ordinary]
        texts = [each.body for each in parsed] + [piece.text for piece in self._conditions()]
        if select.groups is not None or has_aggregates(texts):
            relation, named = self._grouped(parsed)
        elif select.distinct and self._names_windows(parsed):
            return self._distinct_in_windows(parsed)
        else:
            self._refuse_windows(parsed)
            relation = self.relation if self._ranks_in_windows() else divided(self.relation)
            named = relation.named
        if select.having is not None:
            with self.script.at(select.having.start):
                relation = relation.with_rows(relation.rows.filter(named(self._unaliased(select.having.text, parsed))))
        return self._ranked(relation, lambda text: named(self._unaliased(text, parsed)), named)

    def _distinct_in_windows(self, parsed: Sequence[Parsed]) -> Relation:
        """Returns the different rows of each window: its groups, without aggregates."""
        starts = [item.piece.start for item in self.select.items]
        groups = (Grouping(((Piece(each.body, start),),)) for each, start in zip(parsed, starts, strict=True))
        return replace(self, select=replace(self.select, distinct=False, groups=tuple(groups))).result()

    def _refuse_windows(self, parsed: Sequence[Parsed]) -> None:
        for each, item in zip(parsed, (item for item in self.select.items if item.ranked is None), strict=True):
            with self.script.at(item.piece.start):
                if called_window(each.tree, self.relation) is not None:
                    raise PlanError(
                        "a window without GROUP BY",
                        each.body,
                        "Write GROUP BY it, or FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND).",
                    )

    def _conditions(self) -> list[Piece]:
        """Returns what may have aggregates beside the select list."""
        select = self.select
        found = [] if select.having is None else [select.having]
        for rank in self._ranks():
            found += [*rank.keys, *rank.orders]
        return found

    def _ranks(self) -> list[Ranked]:
        found = [item.ranked for item in self.select.items if item.ranked is not None]
        return [*found, self.select.qualify.ranked] if isinstance(self.select.qualify, RankBound) else found

    def _unaliased(self, text: str, items: Sequence[Parsed]) -> str:
        """Returns an expression with aliases of the select list replaced by what they name."""
        aliases = {(each.alias or "").lower(): each.body for each in items if each.alias}

        def body(tree: exp.Expr) -> str | None:
            if not isinstance(tree, exp.Column) or len(parts_of(tree)) != 1 or tree.name.lower() not in aliases:
                return None
            return None if self.relation.find([tree.name]) else f"({aliases[tree.name.lower()]})"

        found = aliases.get(text.strip().lower())
        if found is not None and self.relation.find([text.strip()]) is None:
            return found  # Without brackets, as a key or an order may be compared with it.
        return _outside_calls(text, body) if any(alias in text.lower() for alias in aliases) else text

    # Rows or groups.

    def _grouped(self, parsed: Sequence[Parsed]) -> tuple[Relation, Named]:
        select = self.select
        if any(is_star(each) for each in parsed):
            raise self.script.error(select.start, "SELECT * with GROUP BY", "Name the keys and the aggregates.")
        groups = Groups(self.relation, list(parsed))
        start = select.start
        if select.groups:
            start = next((p.start for each in select.groups for one in each.sets for p in one), start)
        with self.script.at(start):
            groups.read(select.groups or ())
        # All calls must be known before the verb: they are found as the expressions are read.
        for item in select.items:
            if item.ranked is None:
                with self.script.at(item.piece.start):
                    groups.named(parsed_item(item.piece.text).body)
        for piece in self._conditions():
            with self.script.at(piece.start):
                groups.named(self._unaliased(_undirected(piece.text), parsed))
        with self.script.at(start):
            return groups.aggregated(self.name), groups.named

    def _names_windows(self, parsed: Sequence[Parsed]) -> bool:
        """Whether the select list has a bound of the windows of the rows."""
        relation = self.relation
        bounds = relation.bounds
        own = set() if bounds is None else {bounds, bounds.start, bounds.end}
        refs = [relation.ref(each.tree) for each in parsed]
        if any(ref is not None and (ref in own or is_pending(ref)) for ref in refs):
            return True
        return any(called_window(each.tree, relation) is not None for each in parsed)

    def _ranks_in_windows(self) -> bool:
        """Whether rows are ranked in the windows that a table function asks for, so that they need not be divided."""
        keys = [self.relation.ref(parse(key.text).tree) for rank in self._ranks() for key in rank.keys]
        return any(ref is not None and is_pending(ref) for ref in keys)

    # Ranks.

    def _ranked(self, relation: Relation, over: Named, named: Named) -> Relation:
        select = self.select
        ranks = [(item.ranked, item.alias or RANK) for item in select.items if item.ranked is not None]
        condition = select.qualify
        if isinstance(condition, RankBound):
            ranks.append((condition.ranked, condition.name))
            condition = condition.condition
        if not ranks:
            if condition is not None:
                raise self.script.error(
                    condition.start, "QUALIFY without a rank", "Write QUALIFY ROW_NUMBER() OVER (...) <= 10, or WHERE."
                )
            return self._listed(relation, named, None)
        if len(ranks) > 1:
            raise self.script.error(
                ranks[1][0].start, "two ranks in one SELECT are not supported", "Rank twice, in two queries."
            )
        rank, name = ranks[0]
        pending = PendingRank(
            relation,
            rank.function,
            tuple(self._text(key, over) for key in rank.keys),
            tuple(self._order(order, over) for order in rank.orders),
            name,
            lambda rows, place: self._listed(rows, self._again(rows, relation, named), place),
            rank.start,
        )
        listed = replace(relation, columns=self._columns(relation), rank=pending, pending=None)
        if condition is None:
            return listed
        shown = any(item.ranked is not None for item in select.items)
        own = None if relation.columns == () else self.name  # The groups have it.
        return bounded(self.script, listed, condition, self.arrivals, own, shown)

    def _text(self, piece: Piece, named: Named) -> str:
        with self.script.at(piece.start):
            return named(piece.text)

    def _order(self, piece: Piece, named: Named) -> str:
        with self.script.at(piece.start):
            body = _undirected(piece.text)
            return named(body) + piece.text[len(body) :]

    def _again(self, rows: Relation, relation: Relation, named: Named) -> Named:
        """Returns how names are read after the rank, which may have given windows other names."""
        if relation.columns:
            return rows.named
        if START in rows.rows.schema.names or relation.bounds is None:
            return named
        return lambda text: renamed_windows(named(text))

    def _columns(self, relation: Relation) -> tuple[Column, ...]:
        """Returns the names of the result's columns; what they are is known after the rank."""
        found: list[Column] = []
        for item in self.select.items:
            if item.ranked is not None:
                found.append(Column(item.alias or RANK, RANK))
                continue
            parsed = parsed_item(item.piece.text)
            if is_star(parsed):
                found += [Column(o.name, o.name) for o in outputs_of([item], relation, relation.named)]
            else:
                found += [Column(name, name) for name in parsed.aliases or (output_name(parsed),)]
        return tuple(found)

    # The list.

    def _listed(self, relation: Relation, named: Named, place: str | None) -> Relation:
        outputs: list[Output] = []
        for item in self.select.items:
            with self.script.at(item.piece.start):
                if item.ranked is None:
                    own = outputs_of([item], relation, named)
                    compile_projection(
                        [output.text for output in own if not output.aliases] or ["1"], relation.rows.schema
                    )
                    outputs += own
                elif place is not None:
                    outputs.append(Output(item.alias or RANK, quoted(place)))
        names = [item.alias or RANK for item in self.select.items if item.ranked is not None]
        with self.script.at(self.select.start):
            if place is not None and not names:
                outputs.append(Output(RANK, quoted(place)))
            found = projected(relation, outputs)
            if place is None:
                unused = tuple(Column(name, RANK, hidden=True) for name in names)
                found = replace(found, columns=(*found.columns, *unused))
            if self.select.distinct:
                columns = found.rows.schema.names
                found = found.with_rows(found.stream.drop_duplicates(*columns, name=self.name))
        return found


def bounded(
    script: Script,
    listed: Relation,
    condition: Piece,
    arrivals: Sequence[str],
    name: str | None,
    shown: bool,
    alias: str | None = None,
) -> Relation:
    """Returns the rows of a rank with the bound that a condition has, and the rest of the condition fulfilled. The
    condition may name columns by the alias."""
    rank = listed.rank
    assert rank is not None
    with script.at(condition.start):
        parts = conjuncts(condition.text, "a condition")
        bounds = [(text, bound) for text in parts if (bound := bound_of(text, rank.name)) is not None]
        if not bounds:
            raise PlanError(
                f"the rank {rank.name!r} has no bound in {condition.text!r}",
                "every row would change its rank for ever",
                f"Write {rank.name} <= 10, joined with other conditions by AND.",
            )
        text, (most, is_all) = min(bounds, key=lambda each: each[1][0])
        rest = [part for part in parts if part != text or not is_all]
        wanted = shown or any(names(part, rank.name) for part in rest)
        found = ranked(rank, most, wanted, arrivals, name).under(alias)
        for part in rest:
            found = found.with_rows(found.stream.filter(found.named(part)))
        return replace(found, columns=tuple(column for column in found.columns if column.name != RANK))


def _outside_calls(text: str, replacement: Callable[[exp.Expr], str | None]) -> str:
    """Returns an expression with parts replaced. Calls with WITHIN GROUP, which no expression has, stay as they are."""
    calls = calls_in(text, FUNCTIONS) if "WITHIN" in text.upper() else []
    masked = text
    for number, call in reversed(list(enumerate(calls))):
        masked = f"{masked[: call.first]}__masked{number}_{masked[call.last :]}"
    found = with_parts_replaced(masked, replacement)
    for number, call in enumerate(calls):
        found = found.replace(f"__masked{number}_", call.text)
    return found


def _undirected(text: str) -> str:
    """Returns a text without ASC or DESC at its end."""
    return split_direction(text)[0]
