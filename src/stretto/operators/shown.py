"""Converts the content of a state to columns of Spark's types, and the columns of several partitions to one type.

Values of one type keep it. If types differ, or Spark does not have one, values become text: the rows read from a state
are for people and for queries, and no job resumes from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import ExpressionError
from stretto.expressions.types import DOUBLE, STRING, canonical, is_fractional, is_integral

_MISFIT = (pa.ArrowException, ExpressionError, TypeError, ValueError, OverflowError)


def column_of(values: Sequence[Any]) -> pa.Array:
    """Returns Python values as a column: tuples of one length as a struct, dicts as a map, sets as a list."""
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {tuple} and None not in values and len({len(value) for value in values}) == 1 and values[0]:
            parts = [column_of(part) for part in zip(*values, strict=True)]
            return pa.StructArray.from_arrays(parts, [f"_{place}" for place in range(1, len(parts) + 1)])
        if kinds == {dict}:
            keys = column_of([key for value in values for key in value or ()]).type
            items = column_of([item for value in values for item in (value or {}).values()]).type
            if not pat.is_null(keys):
                pairs = [None if value is None else list(value.items()) for value in values]
                return pa.array(pairs, pa.map_(keys, items))
        if kinds and kinds <= {set, frozenset}:
            values = [None if value is None else list(value) for value in values]
        return spark_column(pa.array(values))
    except _MISFIT:
        return text_of(values)


def text_of(values: Sequence[Any]) -> pa.Array:
    texts = [value if value is None or isinstance(value, str) else repr(value) for value in values]
    return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in texts], STRING)


def spark_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column in the nearest type that Spark has."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    try:
        kind = canonical(column.type)
        if _in_spark(kind):
            return column if column.type == kind else column.cast(kind, safe=False)
    except _MISFIT:
        pass  # Wider than Spark's decimals, or a cast that Arrow does not have.
    return text_of(column.to_pylist())


def _in_spark(kind: pa.DataType) -> bool:
    if pat.is_list(kind):
        return _in_spark(kind.value_type)
    if pat.is_struct(kind):
        return kind.num_fields > 0 and all(_in_spark(field.type) for field in kind)
    if pat.is_map(kind):
        return _in_spark(kind.key_type) and _in_spark(kind.item_type)
    return not (pat.is_time(kind) or pat.is_interval(kind) or pat.is_unsigned_integer(kind) or pat.is_union(kind))


def together(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Returns a type that holds the values of both: structs field by field, numbers as doubles, else text."""
    if one == other or pat.is_null(other):
        return one
    if pat.is_null(one):
        return other
    if pat.is_struct(one) and pat.is_struct(other):
        kinds = {field.name: field.type for field in one}
        for field in other:
            kinds[field.name] = together(kinds.get(field.name, pa.null()), field.type)
        return pa.struct(list(kinds.items()))
    if pat.is_list(one) and pat.is_list(other) and (pat.is_null(one.value_type) or pat.is_null(other.value_type)):
        return other if pat.is_null(one.value_type) else one
    if all(is_integral(kind) or is_fractional(kind) for kind in (one, other)):
        return DOUBLE
    return STRING


def settled(kind: pa.DataType) -> pa.DataType:
    """Returns the type, with text in place of null types."""
    if pat.is_null(kind):
        return STRING
    if pat.is_struct(kind):
        return pa.struct([(field.name, settled(field.type)) for field in kind])
    if pat.is_list(kind):
        return pa.list_(settled(kind.value_type))
    if pat.is_map(kind):
        return pa.map_(settled(kind.key_type), settled(kind.item_type))
    return kind


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns a column in a type that `together` returned for it and others."""
    if column.type == kind:
        return column
    if pat.is_null(column.type):
        return pa.nulls(len(column), kind)
    if pat.is_struct(kind) and pat.is_struct(column.type):
        own = column.type.names
        parts = [
            fitted(column.field(field.name), field.type) if field.name in own else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, kind.names, mask=column.is_null())
    return text_of(column.to_pylist()) if kind == STRING else column.cast(kind)
