"""A question with aggregates: partial aggregates where the rows are, and one merge.

A part is a table of partials (`operators/aggregation.py`): the keys, then what each call has so far. The list, HAVING
and ORDER BY are expressions over keys and results, evaluated once, after the merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import AggregateCall, Predicate, compile_predicate, compile_projection, compile_value
from stretto.expressions.aggregate_functions import FUNCTIONS
from stretto.expressions.aggregate_texts import calls_in
from stretto.expressions.aggregates import compiled_call, read_aggregates
from stretto.expressions.parse import parse
from stretto.expressions.projection import Projection
from stretto.expressions.scalar import quoted
from stretto.operators.aggregation import Aggregation, columns_of, table_of
from stretto.operators.grouping import Column, Groups, concat_columns, group, plain_type
from stretto.queries.clauses import Select
from stretto.queries.ordering import Direction, places_in_order
from stretto.queries.rewriting import Words, with_columns, words_of
from stretto.queries.sources import Rows
from stretto.state.packing import packed, unpacked

KEY, CALL, ORDER = "__key {}", "__call {}", "__order {}"
Partials = list[Column]


def has_aggregates(texts: Sequence[str]) -> bool:
    """Whether one of these expressions calls an aggregate."""
    return any(calls_in(text, FUNCTIONS) for text in texts)


@dataclass
class _Reader:
    """Turns expressions of a question into expressions over keys and results of calls."""

    rows: Rows
    keys: dict[Words, str]
    calls: list[AggregateCall] = field(default_factory=list)
    _known: dict[str, str] = field(default_factory=dict)

    def over_results(self, text: str) -> str:
        """Returns an expression, without a name, over the keys and the results of calls."""
        if not calls_in(text, FUNCTIONS):
            return with_columns(text, self.keys)
        read = read_aggregates(text)
        columns = {column: self._call(call.text) for column, call in read.columns.items()}
        # Keys are looked for around the calls alone: what is in a call is an expression over rows.
        return with_columns(read.over({column: quoted(name) for column, name in columns.items()}), self.keys)

    def _call(self, text: str) -> str:
        if text not in self._known:
            (call,) = calls_in(text, FUNCTIONS)
            name = self._known[text] = CALL.format(len(self.calls))
            self.calls.append(replace(compiled_call(call, self.rows.schema, text, None), name=name))
        return self._known[text]


class Aggregating:
    """Groups with their aggregates, filtered, ordered and cut off."""

    def __init__(self, select: Select, rows: Rows) -> None:
        self._rows = rows
        items = [_split(rows.names.plain(item)) for item in select.items]
        aliases = {name.lower(): body for body, name in items if name is not None}
        texts = [self._key(rows.names.plain(each), items, aliases) for each in select.groups]
        names = [KEY.format(place) for place in range(len(texts))]
        self._keyed = _keyed(rows, texts, names)
        keys = {words_of(text): quoted(name) for text, name in zip(texts, names, strict=True)}
        reader = _Reader(rows, keys)
        outputs = [(self._over(reader, body), _name_of(body, name)) for body, name in items]
        by_alias = {words_of(quoted(name)): f"({self._over(reader, body)})" for body, name in items if name is not None}
        own = {name.lower() for name in rows.schema.names}
        later = {words: text for words, text in by_alias.items() if words[0][1] not in own}
        having = select.having and with_columns(self._over(reader, rows.names.plain(select.having)), later)
        orders = [self._order(reader, rows.names.plain(each.text), outputs, by_alias) for each in select.orders]
        self._calls = reader.calls
        self._aggregation = Aggregation(self._keyed.schema, names, reader.calls)
        self._results = pa.schema([*self._aggregation.key_fields, *self._aggregation.result_fields])
        listed = [f"({text}) AS {quoted(name)}" for text, name in outputs]
        self._outputs = self._checked(listed, select)
        self._having: Predicate | None = compile_predicate(having, self._results) if having else None
        ordered = [f"({text}) AS {quoted(ORDER.format(place))}" for place, text in enumerate(orders)]
        self._orders = self._checked(ordered, select) if ordered else None
        self._directions = [Direction(each.descending, each.nulls_first) for each in select.orders]
        self._select = select
        self.schema: pa.Schema = self._outputs.schema

    def _key(self, text: str, items: Sequence[tuple[str, str | None]], aliases: dict[str, str]) -> str:
        """Returns the expression of a key, which may be the number or the name of one of the list."""
        if text.isdecimal():
            if not 1 <= int(text) <= len(items):
                raise ExpressionError(f"GROUP BY {text}", f"the list has {len(items)} expressions", "group by one")
            text = items[int(text) - 1][0]
        elif text.strip("`").lower() not in {name.lower() for name in self._rows.schema.names}:
            text = aliases.get(text.strip("`").lower(), text)
        if calls_in(text, FUNCTIONS):
            raise ExpressionError("GROUP BY an aggregate", f"{text!r}", "group by columns")
        return text

    def _over(self, reader: _Reader, text: str) -> str:
        if not calls_in(text, FUNCTIONS) and parse(text).tree.is_star:
            raise ExpressionError("a star beside aggregates", f"{text!r}", "name the columns of GROUP BY")
        return reader.over_results(text)

    def _order(self, reader: _Reader, text: str, outputs: Sequence[tuple[str, str]], by_alias: dict[Words, str]) -> str:
        if text.isdecimal():
            if not 1 <= int(text) <= len(outputs):
                raise ExpressionError(f"ORDER BY {text}", f"the answer has {len(outputs)} columns", "order by one")
            return outputs[int(text) - 1][0]
        named = by_alias.get(words_of(text))
        return with_columns(self._over(reader, text), by_alias) if named is None else named

    def _checked(self, texts: Sequence[str], select: Select) -> Projection:
        """Returns expressions over keys and results; one that reads a column of a row is refused by name."""
        try:
            return compile_projection(texts, self._results)
        except ExpressionError as error:
            for name in self._rows.schema.names:
                if name not in self._results.names and f"unknown column {name!r}".lower() in error.fact.lower():
                    raise ExpressionError(
                        f"column {name!r} is neither in GROUP BY nor in an aggregate",
                        f"in {select.text!r}",
                        f"add it to GROUP BY, or write any_value({name})",
                    ) from None
            raise

    def part(self, batches: Sequence[pa.RecordBatch]) -> Partials:
        """Returns the partials of batches of the table."""
        found = [self._lifted(rows) for batch in batches for rows in self._rows.of(batch)]
        return self.merged(found)

    def _lifted(self, rows: pa.RecordBatch) -> Partials:
        columns = self._aggregation.rows(self._keyed.evaluate(rows))
        return self._aggregation.lift(self._groups(columns, rows.num_rows), columns)

    def _groups(self, columns: Sequence[Column], rows: int) -> Groups:
        if not self._aggregation.keys:
            return Groups(np.zeros(rows, np.intp), min(rows, 1))
        return group(columns[: self._aggregation.keys], rows)

    def merged(self, parts: Sequence[Partials]) -> Partials:
        """Returns one part of several."""
        if len(parts) == 1:
            return list(parts[0])
        if not parts:
            return self._lifted(pa.RecordBatch.from_pylist([], schema=self._rows.schema))
        columns = [concat_columns(each) for each in zip(*parts, strict=True)]
        return self._aggregation.merge(self._groups(columns, len(columns[0])), columns)

    def _of_nothing(self) -> Partials:
        """Returns the partials of no rows at all, which are a group where nothing is grouped by. They are those of one
        null, which no aggregate counts; only count(*) has no argument that could be one."""
        found: Partials = []
        for accumulator, call in zip(self._aggregation.accumulators, self._calls, strict=True):
            rows = 0 if accumulator.arity == 0 or call.argument is None else 1
            kinds = [each.type for each in (call.argument, call.ordering) if each is not None][: accumulator.arity]
            nulls = [pa.nulls(rows, plain_type(kind)) for kind in kinds]
            found += accumulator.lift(Groups(np.zeros(rows, np.intp), 1), nulls)
        return found

    def finished(self, parts: Sequence[Partials]) -> pa.Table:
        """Returns the answer."""
        partials = self.merged(parts)
        if not self._aggregation.keys and not len(partials[0]):
            partials = self._of_nothing()
        keys = partials[: self._aggregation.keys]
        rows = pa.RecordBatch.from_arrays([*keys, *self._aggregation.finish(partials)], schema=self._results)
        if self._having is not None:
            rows = self._having.evaluate(rows)
        answer = pa.Table.from_batches([self._outputs.evaluate(rows)], self.schema)
        orders = self._orders.evaluate(rows).columns if self._orders is not None else []
        if self._select.distinct and answer.num_rows:
            kept = sorted(group([each.combine_chunks() for each in answer.columns], answer.num_rows).sample.tolist())
            answer, orders = answer.take(pa.array(kept)), [each.take(pa.array(kept)) for each in orders]
        if self._directions:
            answer = answer.take(pa.array(places_in_order(orders, self._directions, answer.num_rows)))
        return answer.slice(self._select.offset, self._select.limit)

    def is_full(self, part: Partials) -> bool:
        """Every row counts."""
        return False

    def packed(self, part: Partials) -> bytes:
        return packed(table_of(part, self._aggregation.objects))

    def unpacked(self, data: bytes) -> Partials:
        return columns_of(unpacked(data), self._aggregation.types, self._aggregation.objects)


def _split(text: str) -> tuple[str, str | None]:
    """Returns an expression without its name, and the name."""
    if calls_in(text, FUNCTIONS):
        read = read_aggregates(text)
        body = read.over({column: call.text for column, call in read.columns.items()})
        return body, None if read.name == body else read.name
    parsed = parse(text)
    return parsed.body, parsed.alias


def _name_of(body: str, name: str | None) -> str:
    if name is not None:
        return name
    if calls_in(body, FUNCTIONS):
        return body
    tree = parse(body).tree
    return tree.name if tree.name and body.strip("`").replace("``", "`").endswith(tree.name) else body


def _keyed(rows: Rows, texts: Sequence[str], names: Sequence[str]) -> Projection:
    """Returns the columns of rows, and the keys after them."""
    for text in texts:
        compile_value(text, rows.schema, "a key")
    keys = [f"({text}) AS {quoted(name)}" for text, name in zip(texts, names, strict=True)]
    return compile_projection([*map(quoted, rows.schema.names), *keys], rows.schema)
