"""A question without aggregates: the rows of its list, of each part as many as can be in the answer."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stretto.errors import ExpressionError
from stretto.expressions import compile_projection
from stretto.expressions.parse import parse
from stretto.expressions.projection import Projection
from stretto.expressions.scalar import quoted
from stretto.operators.grouping import group
from stretto.queries.clauses import Select
from stretto.queries.ordering import Direction, places_in_order
from stretto.queries.rewriting import Words, with_columns, words_of
from stretto.queries.sources import Rows
from stretto.state.packing import packed, unpacked
from stretto.state.schemas import check_rows

ORDER = "__order {}"


class Listing:
    """Rows that are selected, and perhaps made distinct, ordered and cut off."""

    def __init__(self, select: Select, rows: Rows) -> None:
        if select.having is not None:
            raise ExpressionError(
                "HAVING without GROUP BY or an aggregate", f"in {select.text!r}", "write the condition in WHERE"
            )
        self._rows = rows
        self._distinct = select.distinct
        self._outputs = compile_projection([rows.names.plain(item) for item in select.items], rows.schema)
        self._directions = [Direction(each.descending, each.nulls_first) for each in select.orders]
        self._from_outputs: list[int | None] = []
        texts = [self._order(each.text, place) for place, each in enumerate(select.orders)]
        self._orders = compile_projection(texts, self._order_schema()) if texts else None
        self._most = None if select.limit is None else select.limit + select.offset
        self._offset = select.offset
        self.schema: pa.Schema = self._outputs.schema
        self._whole = pa.schema([*self.schema, *(self._orders.schema if self._orders is not None else ())])

    def _order_schema(self) -> pa.Schema:
        """Returns the columns that an order may read: those of the answer, and of the rows where each gives one."""
        own = {name.lower() for name in self._outputs.schema.names}
        if self._distinct or self._outputs.generator is not None:
            return self._outputs.schema
        return pa.schema(
            [*self._outputs.schema, *(field for field in self._rows.schema if field.name.lower() not in own)]
        )

    def _order(self, text: str, place: int) -> str:
        name = ORDER.format(place)
        if text.isdecimal():
            return f"{quoted(self._numbered(int(text), text))} AS {quoted(name)}"
        plain = self._rows.names.plain(text)
        return f"({with_columns(plain, _outputs_by_text(self._outputs))}) AS {quoted(name)}"

    def _numbered(self, number: int, text: str) -> str:
        names: list[str] = self._outputs.schema.names
        if not 1 <= number <= len(names):
            raise ExpressionError(f"ORDER BY {text}", f"the answer has {len(names)} columns", "order by one of them")
        return names[number - 1]

    def part(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """Returns what batches of the table give."""
        found = [self._of(rows) for batch in batches for rows in self._rows.of(batch)]
        return self._cut(pa.Table.from_batches(found, self._whole))

    def _of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        answer = self._outputs.evaluate(rows)
        if self._orders is None:
            return answer
        columns = dict(zip(rows.schema.names, rows.columns, strict=True)) if answer.num_rows == rows.num_rows else {}
        columns |= dict(zip(answer.schema.names, answer.columns, strict=True))
        schema = self._orders.input_schema
        readable = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
        orders = self._orders.evaluate(readable)
        return pa.RecordBatch.from_arrays([*answer.columns, *orders.columns], schema=self._whole)

    def merged(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Returns one part of several."""
        return self._cut(pa.concat_tables([self._whole.empty_table(), *parts]))

    def _cut(self, part: pa.Table) -> pa.Table:
        """Returns the rows that can be in the answer: distinct ones, and those that come first."""
        if self._distinct and part.num_rows:
            columns = [_one(part.column(place)) for place in range(len(self.schema))]
            part = part.take(pa.array(sorted(group(columns, part.num_rows).sample.tolist())))
        if self._most is None:
            return part
        if self._directions and part.num_rows > self._most:
            part = part.take(pa.array(self._places(part)[: self._most]))
        return part.slice(0, self._most)

    def _places(self, part: pa.Table) -> Sequence[int]:
        columns = [_one(part.column(place)) for place in range(len(self.schema), part.num_columns)]
        found: Sequence[int] = places_in_order(columns, self._directions, part.num_rows)
        return found

    def finished(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Returns the answer."""
        part = self.merged(parts)
        if self._directions:
            part = part.take(pa.array(self._places(part)))
        return part.select(list(range(len(self.schema)))).slice(self._offset)

    def is_full(self, part: pa.Table) -> bool:
        """Whether no further row can change the answer: enough are there, in whatever order."""
        return self._most is not None and not self._directions and part.num_rows >= self._most

    def packed(self, part: pa.Table) -> bytes:
        return packed(part)

    def unpacked(self, data: bytes) -> pa.Table:
        part = unpacked(data)
        check_rows(part, self._whole)
        found: pa.Table = part
        return found


def _outputs_by_text(outputs: Projection) -> dict[Words, str]:
    """Returns the columns of the answer by the expressions that they are of, so that an order may repeat one."""
    found = {}
    for scalar in outputs.scalars:
        parsed = parse(scalar.text)
        if scalar.column is None and parsed.body.lower() != scalar.name.lower():
            found[words_of(parsed.body)] = quoted(scalar.name)
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
