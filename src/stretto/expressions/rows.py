"""Functions of Python values, called row by row: for what no kernel computes as Spark does.

Of one column with equal values the function is called once for each different value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from stretto.expressions.logic import strict
from stretto.expressions.nodes import Node, Site, combine
from stretto.expressions.vectors import Value, arrow_operand, from_arrow, null_of


def by_rows(
    kind: pa.DataType,
    apply: Callable[..., Any],
    site: Site,
    parts: Sequence[Node],
    fallible: bool = False,
    takes_null: bool = False,
    folds: bool = True,
) -> Node:
    """Returns a function of each row's Python values; null where any is null, unless it takes None for a null.

    For `folds` see `logic.strict`."""
    runs = [(part.run, part.type) for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        operands = [arrow_operand(part(batch), part_type) for part, part_type in runs]
        if takes_null:
            return from_arrow(_with_nulls(operands, apply, kind), kind)
        if any(isinstance(operand, pa.Scalar) and not operand.is_valid for operand in operands):
            return null_of(kind)
        return from_arrow(over_rows(operands, apply, kind), kind)

    if takes_null:
        return combine(kind, run, site, parts, fallible)
    return strict(combine(kind, run, site, parts, fallible), parts, site, folds=folds)


def over_rows(operands: Sequence[Any], apply: Callable[..., Any], kind: pa.DataType) -> Any:
    """Returns the function of arrays and constants, none of which is null."""
    columns = [operand for operand in operands if not isinstance(operand, pa.Scalar)]
    if not columns:
        return pa.scalar(apply(*(operand.as_py() for operand in operands)), kind)
    if len(columns) == 1:
        values = [operand.as_py() if isinstance(operand, pa.Scalar) else None for operand in operands]
        place = values.index(None)
        return by_value(columns[0], lambda value: apply(*values[:place], value, *values[place + 1 :]), kind)
    return pa.array([None if None in row else apply(*row) for row in _rows(operands, len(columns[0]))], kind)


def _with_nulls(operands: Sequence[Any], apply: Callable[..., Any], kind: pa.DataType) -> Any:
    columns = [operand for operand in operands if not isinstance(operand, pa.Scalar)]
    if not columns:
        return pa.scalar(apply(*(operand.as_py() for operand in operands)), kind)
    return pa.array([apply(*row) for row in _rows(operands, len(columns[0]))], kind)


def _rows(operands: Sequence[Any], count: int) -> Iterator[tuple[Any, ...]]:
    lists = [
        [operand.as_py()] * count if isinstance(operand, pa.Scalar) else operand.to_pylist() for operand in operands
    ]
    return zip(*lists, strict=True)


def by_value(values: Any, apply: Callable[[Any], Any], kind: pa.DataType) -> Any:
    """Returns the function of each value, called once for equal ones; null of null."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(apply(values.as_py()) if values.is_valid else None, kind)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    encoded = values.dictionary_encode()
    results = pa.array([apply(value) for value in encoded.dictionary.to_pylist()], kind)
    return results.take(encoded.indices)
