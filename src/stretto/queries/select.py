"""A question, compiled: what is computed of rows wherever they are, how parts are merged, and what the answer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from stretto.errors import UserError
from stretto.expressions.zones import in_zone, zone_named
from stretto.queries.clauses import Select, clauses
from stretto.queries.grouped import Aggregating, has_aggregates
from stretto.queries.listed import Listing
from stretto.queries.pruning import EVERY, Span, span_asked
from stretto.queries.rewriting import at_time
from stretto.queries.sources import Rows


class Evaluation(Protocol):
    """What is done with rows and parts. A part is whatever `part` returns; it travels as bytes."""

    schema: pa.Schema

    def part(self, batches: Sequence[pa.RecordBatch]) -> Any: ...
    def merged(self, parts: Sequence[Any]) -> Any: ...
    def finished(self, parts: Sequence[Any]) -> pa.Table: ...
    def is_full(self, part: Any) -> bool: ...
    def packed(self, part: Any) -> bytes: ...
    def unpacked(self, data: bytes) -> Any: ...


@dataclass(frozen=True)
class TableShape:
    """What must be known of a table to compile a question about it: its columns, and that of its time if it has one."""

    schema: pa.Schema
    time: str | None = None


@dataclass(frozen=True)
class Compiled:
    """A question about a table: how it is evaluated, and for which times."""

    select: Select
    evaluation: Evaluation
    span: Span


def read_question(text: str, now_us: int, zone: str) -> Select:
    """Returns the clauses of a question, in which `now()` is a constant. The zone is that of the session."""
    with in_zone(zone_named(zone)):
        clauses(text)  # So that positions in errors are those of the user's text.
        return clauses(at_time(text, now_us))


def compiled(select: Select, shape: TableShape, zone: str, small: pa.Table | None = None) -> Compiled:
    """Returns a question, compiled. `small` is the table that is joined, if there is one; empty where only the columns
    of the answer are wanted."""
    with in_zone(zone_named(zone)):
        rows = Rows(select, shape.schema, small)
        texts = [*select.items, *(each.text for each in select.orders), *([select.having] if select.having else [])]
        grouped = bool(select.groups) or has_aggregates(texts)
        evaluation: Evaluation = Aggregating(select, rows) if grouped else Listing(select, rows)
        where = None if select.where is None else rows.names.plain(select.where)
        return Compiled(select, evaluation, EVERY if shape.time is None else span_asked(where, shape.time))


def answered(question: Compiled, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Returns the answer over rows that are all here."""
    return question.evaluation.finished([question.evaluation.part(batches)])


def shape_of(tables: Mapping[str, TableShape], name: str, position: int) -> TableShape:
    """Returns a table by its name, whatever the case of its letters; a UserError names those that there are."""
    for known, shape in tables.items():
        if known.lower() == name.lower():
            return shape
    known = ", ".join(sorted(tables)) or "none"
    raise UserError(
        f"there is no table {name!r}", f"at position {position}; published tables: {known}", "publish() the stream"
    )
