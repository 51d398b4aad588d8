"""Converts plain values to Arrow columns that a DataFrame can read, and back without loss.

Numbers, strings, bytes and booleans of one type become a column of that type. Tuples of one length become a struct.
Everything else becomes packed bytes. A field's metadata names the form, so that a tuple is read back as a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stretto.state.packing import packed, unpacked

_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.large_string(), bytes: pa.large_binary(), bool: pa.bool_()}
_KIND = b"stretto"
_PACKED, _TUPLE = {_KIND: b"packed"}, {_KIND: b"tuple"}


def field_and_column(name: str, values: Sequence[Any]) -> tuple[pa.Field, pa.Array]:
    """Returns the values as a column, and the field that `values_of` needs to read it."""
    kinds = {type(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in _TYPES:
        try:
            return pa.field(name, _TYPES[kind]), pa.array(values, _TYPES[kind])
        except (OverflowError, pa.ArrowException, UnicodeEncodeError):
            kind = None  # An integer of more than 64 bits, or a lone surrogate.
    if kind is tuple and len({len(value) for value in values}) == 1 and values[0]:
        parts = [field_and_column(f"_{n}", part) for n, part in enumerate(zip(*values, strict=True), 1)]
        column = pa.StructArray.from_arrays([part for _, part in parts], fields=[field for field, _ in parts])
        return pa.field(name, column.type, metadata=_TUPLE), column
    return pa.field(name, pa.large_binary(), metadata=_PACKED), pa.array([packed(v) for v in values], pa.large_binary())


def values_of(field: pa.Field, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Returns the values that a column was made of."""
    kind = (field.metadata or {}).get(_KIND)
    if kind == b"packed":
        return [unpacked(value) for value in column.to_pylist()]
    if kind == b"tuple":
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        parts = [values_of(field.type.field(n), whole.field(n)) for n in range(field.type.num_fields)]
        return list(zip(*parts, strict=True))
    values: list[Any] = column.to_pylist()
    return values
