"""Select lists: stars, names of columns, and the select that a stream gets for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from stretto.api.stream import Stream
from stretto.errors import PlanError
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.expressions.aggregate_texts import calls_in
from stretto.expressions.parse import Parsed, parse
from stretto.expressions.scalar import quoted
from stretto.sql.relation import END, START, Bounds, Column, Ref, Relation, parts_of
from stretto.sql.tree import Item

Named = Callable[[str], str]
"""Returns an expression with the names that its columns have in the stream."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: its name, and the text over the stream that computes it. One text may make several."""

    name: str
    text: str
    aliases: tuple[str, ...] = ()


def outputs_of(items: Sequence[Item], relation: Relation, named: Named) -> list[Output]:
    """Returns the columns of a select list, without ranks."""
    found: list[Output] = []
    for item in items:
        parsed = parsed_item(item.piece.text)
        if (stars := _star(parsed, relation)) is not None:
            found += stars
        else:
            found.append(Output(output_name(parsed), named(parsed.body), parsed.aliases))
    return found


def parsed_item(text: str) -> Parsed:
    """Returns one of a select list. WITHIN GROUP is no expression, so such a call is read as a name of its length."""
    if "WITHIN" not in text.upper():
        return parse(text, several=True)
    text = text.strip()
    plain = text
    for call in calls_in(text, FUNCTIONS):
        plain = f"{plain[: call.first]}`{'c' * (call.last - call.first - 2)}`{plain[call.last :]}"
    parsed = parse(plain)
    return replace(parsed, body=text[: len(parsed.body)])


def output_name(parsed: Parsed) -> str:
    """Returns the name that Spark gives a column of a select list."""
    tree = parsed.tree
    if parsed.alias is not None:
        return parsed.alias
    return tree.name if isinstance(tree, exp.Column | exp.Dot) else parsed.body


def is_star(parsed: Parsed) -> bool:
    tree = parsed.tree
    return isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star))


def excepted(parsed: Parsed) -> set[str]:
    """Returns the names after EXCEPT, in lower case."""
    star = parsed.tree if isinstance(parsed.tree, exp.Star) else parsed.tree.this
    return {column.name.lower() for column in star.args.get("except_") or ()}


def _star(parsed: Parsed, relation: Relation) -> list[Output] | None:
    if not is_star(parsed):
        return None
    left_out = excepted(parsed)
    parts = parts_of(parsed.tree) if isinstance(parsed.tree, exp.Column) else []
    if not parts:
        columns = [column for column in relation.columns if not column.hidden]
    else:
        columns = [column for column in relation.columns if (column.qualifier or "").lower() == parts[0].lower()]
        if not columns:
            return _fields(parts, relation, left_out)
    missing = left_out - {column.name.lower() for column in relation.columns}
    if missing:
        raise relation.unknown([sorted(missing)[0]])
    return [Output(c.name, sql_of(c.ref)) for c in columns if c.name.lower() not in left_out]


def _fields(parts: list[str], relation: Relation, left_out: set[str]) -> list[Output]:
    """Returns the fields of a struct."""
    found = relation.find(parts)
    if found is None:
        raise relation.unknown(parts)
    ref = found[0].ref
    if isinstance(ref, Bounds):
        return [Output("start", quoted(ref.start)), Output("end", quoted(ref.end))]
    kind = relation.rows.schema.field(ref).type
    if not pa.types.is_struct(kind):
        raise PlanError(f"{'.'.join(parts)}.* is neither a table nor a struct", f"it is {kind}", None)
    return [Output(f.name, f"{quoted(ref)}.{quoted(f.name)}") for f in kind if f.name.lower() not in left_out]


def sql_of(ref: Ref) -> str:
    """Returns the text of a column."""
    return ref.sql if isinstance(ref, Bounds) else quoted(ref)


def projected(relation: Relation, outputs: Sequence[Output]) -> Relation:
    """Returns the rows with these columns. The bounds of their windows stay with them, if they are named or not."""
    if (same := _reordered(relation, outputs)) is not None:
        return same
    making = _Making(relation)
    columns: list[Column] = []
    for output in outputs:
        columns += making.columns(output)
    bounds = making.keep_bounds()
    texts = making.texts
    if texts == [quoted(name) for name in relation.rows.schema.names]:
        return Relation(relation.rows, tuple(columns), bounds)
    return Relation(relation.rows.select(*texts), tuple(columns), bounds)


def _reordered(relation: Relation, outputs: Sequence[Output]) -> Relation | None:
    """Returns the same rows with other names, if all of their columns are outputs and nothing is computed."""
    refs: dict[str, Ref] = {quoted(name): name for name in relation.rows.schema.names}
    if relation.bounds is not None:
        refs[relation.bounds.sql] = relation.bounds
    columns = [Column(o.name, refs[o.text]) for o in outputs if o.text in refs]
    used: set[str] = set()
    for column in columns:
        ref = column.ref
        used |= {ref.start, ref.end} if isinstance(ref, Bounds) else {ref}
    if len(columns) < len(outputs) or used != set(relation.rows.schema.names):
        return None
    return Relation(relation.rows, tuple(columns), relation.bounds)


class _Making:
    """A select list for a stream, in which no two columns have one name."""

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._names = {quoted(name): name for name in relation.rows.schema.names}
        self._taken: set[str] = set()
        self._kept: dict[str, str] = {}
        self.texts: list[str] = []

    def columns(self, output: Output) -> list[Column]:
        bounds = self._relation.bounds
        if bounds is not None and output.text == bounds.sql:
            return [Column(output.name, Bounds(self._keep(bounds.start), self._keep(bounds.end)))]
        if bounds is not None and output.text in (quoted(bounds.start), quoted(bounds.end)):
            return [Column(output.name, self._keep(self._names[output.text]))]
        if output.aliases:
            names = [self._free(name) for name in output.aliases]
            self.texts.append(f"{output.text} AS ({', '.join(map(quoted, names))})")
            return [Column(alias, name) for alias, name in zip(output.aliases, names, strict=True)]
        name = self._free(output.name)
        same = output.text == quoted(name)
        self.texts.append(output.text if same else f"{output.text} AS {quoted(name)}")
        return [Column(output.name, name)]

    def _keep(self, name: str) -> str:
        """Keeps a column under its own name, once."""
        if name not in self._kept:
            self._kept[name] = self._free(name)
            self.texts.append(
                quoted(name) if self._kept[name] == name else f"{quoted(name)} AS {quoted(self._kept[name])}"
            )
        return self._kept[name]

    def keep_bounds(self) -> Bounds | None:
        """Returns the bounds of windows, kept although they were not named; None if there is no place for them."""
        bounds = self._relation.bounds
        if bounds is None:
            return None
        found = Bounds(self._keep(bounds.start), self._keep(bounds.end))
        return found if found == Bounds(START, END) else None

    def _free(self, wish: str) -> str:
        name, number = wish, 2
        while name.lower() in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name.lower())
        return name


def result(relation: Relation, names: Sequence[str] = ()) -> Stream:
    """Returns the stream of a result with exactly the columns that were asked for, under these names if given."""
    stream = relation.stream
    columns = relation.shown
    wanted = list(names) or [column.name for column in columns]
    if len(wanted) != len(columns):
        raise PlanError(
            f"the query has {len(columns)} columns, and the table {len(wanted)}",
            f"{', '.join(column.name for column in columns)}; {', '.join(wanted)}",
            "Name as many.",
        )
    pairs = zip(columns, wanted, strict=True)
    texts = [
        quoted(name) if column.ref == name else f"{sql_of(column.ref)} AS {quoted(name)}" for column, name in pairs
    ]
    if texts == [quoted(name) for name in stream.schema.names]:
        return stream
    return stream.select(*texts)
