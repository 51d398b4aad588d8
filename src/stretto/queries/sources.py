"""The rows that a question is about: those of its table, joined with a small table and filtered.

The small table is whole wherever the question is answered, so each part of the large one is joined by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from stretto.api.conditions import JoinInputs
from stretto.api.joining import joined_schema
from stretto.errors import ExpressionError
from stretto.expressions import Predicate, compile_predicate
from stretto.expressions.parse import tokens_of
from stretto.operators.join_kinds import JoinKind
from stretto.operators.table_join import TableJoin
from stretto.queries.clauses import JoinRef, Select, TableRef
from stretto.queries.rewriting import unqualified

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


@dataclass(frozen=True)
class Names:
    """What the columns of a question are called: by table and name, and in the rows that are made of both tables."""

    by_table: Mapping[str, Mapping[str, str]]
    ambiguous: frozenset[str] = frozenset()

    def plain(self, text: str) -> str:
        """Returns an expression with the names that columns have in the rows of the question."""
        for place, token in enumerate(tokens := tokens_of(text)):
            after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
            is_part = place > 0 and tokens[place - 1].token_type == TokenType.DOT
            if token.token_type not in _NAMES or is_part or after in (TokenType.DOT, TokenType.L_PAREN):
                continue
            if token.text.lower() in self.ambiguous:
                tables = " and ".join(self.by_table)
                raise ExpressionError(
                    f"column {token.text!r} is in both tables",
                    f"at position {token.start + 1} in {text!r}; the tables are {tables}",
                    f"write {next(iter(self.by_table))}.{token.text}",
                )
        return unqualified(text, self._column)

    def _column(self, table: str, name: str) -> str | None:
        columns = self.by_table.get(table.lower())
        return None if columns is None else columns.get(name.lower())


class Rows:
    """Makes the rows of a question of those of its table."""

    def __init__(self, select: Select, schema: pa.Schema, small: pa.Table | None) -> None:
        self._join: TableJoin | None = None
        self.schema = schema
        own = _named(schema)
        self.names = Names({select.table.alias.lower(): own})
        if select.join is not None:
            assert small is not None
            self._join, self.schema, self.names = _joined(select.table, schema, select.join, small)
        self._kept = [name for name in self.schema.names if name]
        self._where: Predicate | None = None
        if select.where is not None:
            self._where = compile_predicate(self.names.plain(select.where), self.schema)

    def of(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Returns the rows that a batch of the table gives."""
        if self._join is None:
            return [batch if self._where is None else self._where.evaluate(batch)]
        found = [rows.select(self._kept) for rows in self._join(batch)]
        return found if self._where is None else [self._where.evaluate(rows) for rows in found]


def _named(schema: pa.Schema) -> dict[str, str]:
    return {name.lower(): name for name in schema.names}


def _joined(table: TableRef, schema: pa.Schema, join: JoinRef, small: pa.Table) -> tuple[TableJoin, pa.Schema, Names]:
    one, other = table.alias, join.table.alias
    if one.lower() == other.lower():
        raise ExpressionError(
            f"two tables are called {one!r}",
            f"at position {join.table.position}",
            f"name one of them: JOIN {join.table.name} AS other",
        )
    pair = joined_schema(schema, small.schema, f"_of_{other}")
    how = JoinKind(join.how)
    inputs = JoinInputs(one, schema, other, small.schema, pair)
    condition = inputs.condition(list(join.using) if join.on is None else join.on, None)
    made = TableJoin(small, condition.keys, pair, condition.residual, how)
    mine, renamed = _named(schema), pair.names[len(schema) :]
    theirs = {name.lower(): new for name, new in zip(small.schema.names, renamed, strict=True)}
    both = mine.keys() & theirs.keys()
    if not how.sends_pairs:
        return made, schema, Names({one.lower(): mine})
    if join.on is None:
        shared = {name.lower() for name in join.using}
        pair = pa.schema([field for field in pair if field.name not in {theirs[name] for name in shared}])
        theirs = {name: new for name, new in theirs.items() if name not in shared}
        both -= shared
    return made, pair, Names({one.lower(): mine, other.lower(): theirs}, frozenset(both))
