"""Checks that Arrow data read back has the declared columns.

Operators read the memory of a column by its declared type. A column of another type would be misread, so it is refused
before anything is done with it.
"""

from __future__ import annotations

import pyarrow as pa


def check_type(name: str, found: pa.DataType, declared: pa.DataType) -> None:
    """Raises a ValueError if a column is not of the declared type. The names of nested fields do not matter."""
    if not _alike(found, declared):
        raise ValueError(f"column '{name}' is {found}, and should be {declared}")


def check_rows(rows: object, declared: pa.Schema) -> None:
    """Raises a ValueError if something is not a table with the declared columns."""
    if not isinstance(rows, pa.Table):
        raise ValueError(f"a {type(rows).__name__} is where a table should be")
    if rows.schema.names != declared.names:
        raise ValueError(f"the columns are {rows.schema.names}, and should be {declared.names}")
    for found, field in zip(rows.schema, declared, strict=True):
        check_type(field.name, found.type, field.type)


def _alike(found: pa.DataType, declared: pa.DataType) -> bool:
    if found.equals(declared):
        return True
    if found.id != declared.id or not pa.types.is_nested(found) or found.num_fields != declared.num_fields:
        return False
    if pa.types.is_fixed_size_list(found) and found.list_size != declared.list_size:
        return False
    return all(_alike(found.field(place).type, declared.field(place).type) for place in range(found.num_fields))
