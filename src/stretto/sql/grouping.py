"""GROUP BY and aggregates: one aggregate verb, and what is computed over its results.

Each call of an aggregate in the whole SELECT becomes one column of the verb, however often it is written; HAVING,
QUALIFY and the select list are expressions over these columns and the keys. A part of an expression that equals a key
is that key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from sqlglot import exp

from stretto.errors import PlanError
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.expressions.aggregate_texts import CallText, calls_in
from stretto.expressions.aggregates import GROUPING_CALLS
from stretto.expressions.parse import Parsed, parse, split_direction
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import with_parts_replaced
from stretto.operators.windows import Session, Window, span
from stretto.sql.projecting import Named, output_name
from stretto.sql.relation import (
    END,
    START,
    WINDOW_END,
    WINDOW_START,
    WINDOW_TIME,
    Bounds,
    Column,
    Relation,
    parts_of,
)
from stretto.sql.script import Script
from stretto.sql.tree import Grouping
from stretto.sql.windows import CALLS, called_window, divided
from stretto.sql.words import words_of

_NAMES = {*FUNCTIONS, *GROUPING_CALLS}
_CALL = "__call"


def has_aggregates(texts: Sequence[str]) -> bool:
    """Whether there is a call of an aggregate in one of these texts."""
    return any(calls_in(text, _NAMES) for text in texts)


@dataclass(frozen=True, slots=True)
class _Key:
    """A key: its text over the stream, and the column that it is in the result."""

    text: str
    name: str

    @property
    def tree(self) -> exp.Expr:
        return parse(self.text).tree

    @property
    def declared(self) -> str:
        return self.text if self.text == quoted(self.name) else f"{self.text} AS {quoted(self.name)}"


@dataclass
class Groups:
    """The groups of a SELECT: rows, keys, window, and the calls that have been found so far."""

    relation: Relation
    items: list[Parsed]
    window: Window | None = None
    keys: list[_Key] = field(default_factory=list)
    sets: list[list[str]] | None = None
    calls: dict[str, str] = field(default_factory=dict)

    def read(self, groups: Sequence[Grouping]) -> None:
        """Finds the window and the keys among the elements of GROUP BY."""
        texts = {piece.text: self._meant(piece.text) for each in groups for one in each.sets for piece in one}
        self._find_window(groups, texts)
        rows = self.relation.rows.schema.names
        named: dict[str, str] = {}
        for given, text in texts.items():
            if not self._is_window(text):
                key = self._key(self.relation.named(text), text, rows)
                named[given] = key.name
        if not all(each.is_plain for each in groups):
            sets = [[[named[p.text] for p in one if p.text in named] for one in each.sets] for each in groups]
            found = [list(dict.fromkeys(name for part in chosen for name in part)) for chosen in product(*sets)]
            self.sets = [list(one) for one in dict.fromkeys(map(tuple, found))]

    def _meant(self, text: str) -> str:
        """Returns the expression that a number or an alias of the select list stands for."""
        tree = parse(text).tree
        if isinstance(tree, exp.Literal) and tree.is_int:
            number = int(tree.this)
            if not 1 <= number <= len(self.items):
                raise PlanError(f"GROUP BY {number} is not one of the columns", f"there are {len(self.items)}", None)
            return self.items[number - 1].body
        if isinstance(tree, exp.Column) and len(parts_of(tree)) == 1 and self.relation.find(parts_of(tree)) is None:
            item = next((each for each in self.items if (each.alias or "").lower() == tree.name.lower()), None)
            if item is not None:
                return item.body
        return text

    def _find_window(self, groups: Sequence[Grouping], texts: dict[str, str]) -> None:
        marks: set[str] = set()
        for given, text in texts.items():
            tree = parse(text).tree
            window = called_window(tree, self.relation)
            marks |= self._marks(tree) if window is None else {"call"}
            if window is not None:
                if self.window not in (None, window):
                    raise PlanError("GROUP BY has two windows", text, "Group twice, in two queries.")
                self.window = window
            if (window is not None or self._marks(tree)) and not self._always(given, groups):
                raise PlanError(
                    "a window is in ROLLUP, CUBE or GROUPING SETS", text, "Write it beside: GROUP BY w, ROLLUP (a)."
                )
        bounds = marks - {"call", "time"}
        if not bounds:
            if self.window is None:
                self.relation = divided(self.relation)
            return
        if self.window is not None or bounds != {"start", "end"}:
            raise PlanError(
                "GROUP BY has half of a window",
                f"there is window_{sorted(bounds)[0]}" if self.window is None else "and another window",
                "Group by both window_start and window_end, or by window(ts, '10 seconds') alone.",
            )
        pending = self.relation.pending
        self.window = span(START, END) if pending is None else pending.window
        if pending is not None and isinstance(pending.window, Session):
            self._check_session(pending.keys, texts)

    def _check_session(self, keys: Sequence[str], texts: dict[str, str]) -> None:
        named = {self.relation.named(text) for text in texts.values() if not self._is_window(text)}
        if named != set(map(quoted, keys)):
            raise PlanError(
                "SESSION is partitioned by other columns than GROUP BY has",
                f"PARTITION BY {', '.join(keys) or 'nothing'}",
                "Group by window_start, window_end and the same columns.",
            )

    def _always(self, given: str, groups: Sequence[Grouping]) -> bool:
        return all(each.is_plain for each in groups if any(p.text == given for one in each.sets for p in one))

    def _marks(self, tree: exp.Expr) -> set[str]:
        """Returns which parts of the windows of the rows a tree names."""
        ref, bounds = self.relation.ref(tree), self.relation.bounds
        if self.relation.pending is not None:
            bounds = Bounds(WINDOW_START, WINDOW_END)
        if ref is None or bounds is None:
            return set()
        if ref == bounds:
            return {"start", "end"}
        known = {bounds.start: "start", bounds.end: "end", WINDOW_TIME: "time"}
        return {known[ref]} if isinstance(ref, str) and ref in known else set()

    def _is_window(self, text: str) -> bool:
        tree = parse(text).tree
        if isinstance(tree, exp.Anonymous) and tree.name.lower() in CALLS:
            return True
        return self.window is not None and bool(self._marks(tree))

    def _key(self, named: str, text: str, taken: Sequence[str]) -> _Key:
        known = next((key for key in self.keys if key.text == named), None)
        if known is not None:
            return known
        name = next((column for column in taken if quoted(column) == named), None)
        if name is None:
            item = next((each for each in self.items if each.alias and each.tree == parse(text).tree), None)
            name = f"__key{len(self.keys) + 1}" if item is None or item.alias is None else item.alias
            if name.lower() in {each.lower() for each in taken}:
                name = f"__key{len(self.keys) + 1}"
        self.keys.append(_Key(named, name))
        return self.keys[-1]

    # Expressions over the result.

    def named(self, text: str) -> str:
        """Returns an expression over keys, windows and aggregates as one over the columns of the result."""
        pieces, at = [], 0
        for call in calls_in(text, _NAMES):
            pieces += [text[at : call.first], quoted(self._column(call, text))]
            at = call.last
        return self._over_result("".join([*pieces, text[at:]]))

    def _column(self, call: CallText, text: str) -> str:
        """Returns the column that a call of an aggregate is computed in."""
        named = self._call(call)
        if named not in self.calls:
            item = next((each for each in self.items if each.body == call.text), None)
            wish = None if item is None else output_name(item)
            taken = {*(key.name.lower() for key in self.keys), START, END, *map(str.lower, self.calls.values())}
            if wish is None or wish.lower() in taken:
                wish = f"{_CALL}{len(self.calls) + 1}"
            self.calls[named] = wish
        return self.calls[named]

    def _call(self, call: CallText) -> str:
        """Returns the text of a call with the names of the stream, or with those of keys in grouping(key)."""
        named = self._over_result if call.name in GROUPING_CALLS else self.relation.named
        words = words_of(Script(call.text))
        ends = {word.end for word in words}
        pieces, at = [], 0
        for part in (*call.arguments, call.order, call.condition):
            if part is None or part == "*":
                continue
            # Whole words after the name: `count(distinct c)` has a c in its name, and a d in distinct.
            begins = (word.start for word in words[1:] if word.start >= at and word.start + len(part) in ends)
            first = next(begin for begin in begins if call.text.startswith(part, begin))
            pieces += [call.text[at:first], _ordered(part, named) if part is call.order else named(part)]
            at = first + len(part)
        return "".join([*pieces, call.text[at:]])

    def _over_result(self, text: str) -> str:
        over = with_parts_replaced(text, self._in_stream)
        trees = [(key.tree, key.name) for key in self.keys]

        def column(tree: exp.Expr) -> str | None:
            name = next((name for key, name in trees if tree == key), None)
            if name is not None:
                return quoted(name)
            if not isinstance(tree, exp.Column):
                return None
            name = parts_of(tree)[0]
            if name in (WINDOW_START, WINDOW_END):
                return quoted(START if name == WINDOW_START else END)
            if name == WINDOW_TIME:
                return f"({END} - INTERVAL 1 MICROSECOND)"
            if name in self.calls.values() or (self.window is not None and name in (START, END)):
                return ".".join(map(quoted, parts_of(tree)))
            raise PlanError(
                f"column {name!r} is neither in GROUP BY nor inside an aggregate",
                f"in {text!r}",
                f"Group by it, or write any_value({name}).",
            )

        return with_parts_replaced(over, column)

    def _in_stream(self, tree: exp.Expr) -> str | None:
        """Returns what stands for a part of an expression before the rows are grouped."""
        window = Bounds(WINDOW_START, WINDOW_END)
        if (
            isinstance(tree, exp.Dot)
            and self.window is not None
            and self.window == called_window(tree.this, self.relation)
        ):
            marks = {"start": WINDOW_START, "end": WINDOW_END}
            return quoted(marks[tree.name.lower()]) if tree.name.lower() in marks else None
        if isinstance(tree, exp.Anonymous):
            if tree.name.lower() == "window_time" and self.window is not None:
                return quoted(WINDOW_TIME)
            return (
                window.sql if tree.name.lower() in CALLS and self.window == called_window(tree, self.relation) else None
            )
        if not isinstance(tree, exp.Column):
            return None
        parts = parts_of(tree)
        if len(parts) == 1 and parts[0] in self.calls.values():
            return quoted(parts[0])
        if self.relation.find(parts) is None and self.window is not None and self.relation.pending is None:
            marked = Relation(
                self.relation.rows,
                (*(Column(name, window) for name in CALLS), Column(START, WINDOW_START), Column(END, WINDOW_END)),
            )
            if marked.find(parts) is not None:
                return marked.replacement(tree)
        return self.relation.replacement(tree)

    def aggregated(self, name: str | None) -> Relation:
        """Returns the groups with their keys, their window and all calls that were found."""
        stream = self.relation.stream
        calls = [f"{text} AS {quoted(column)}" for text, column in self.calls.items()]
        declared = [key.declared for key in self.keys]
        if self.window is None and not calls:
            if self.sets is not None or stream.changes:
                calls = [f"count(*) AS {quoted(_CALL)}"]
            else:
                return Relation(stream.select(*declared).drop_duplicates(name=name), ())
        if self.sets is not None:
            grouped = stream.grouping_sets(self.sets, *declared)
            rows = (grouped if self.window is None else grouped.window(self.window)).aggregate(*calls, name=name)
        elif self.window is not None:
            keyed = stream.key_by(*declared) if declared else stream
            rows = keyed.window(self.window).aggregate(*calls, name=name)
        else:
            rows = (stream.key_by(*declared) if declared else stream).aggregate(*calls, name=name)
        return Relation(rows, (), None if self.window is None else Bounds(START, END))


def _ordered(part: str, named: Named) -> str:
    """Returns what follows ORDER BY in an aggregate with the names of the stream; it may have a direction."""
    body, _ = split_direction(part)
    return named(body) + part[len(body) :]
