"""Casts that are written as functions: int(x), timestamp(x)."""

from __future__ import annotations

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.registry import Function, fixed


def _to(kind: pa.DataType) -> Function:
    return fixed(lambda site, node: cast(node, kind, site), 1)


FUNCTIONS = {
    "boolean": _to(types.BOOLEAN),
    "tinyint": _to(types.TINYINT),
    "smallint": _to(types.SMALLINT),
    "int": _to(types.INT),
    "bigint": _to(types.BIGINT),
    "float": _to(types.FLOAT),
    "double": _to(types.DOUBLE),
    "decimal": _to(pa.decimal128(10, 0)),
    "binary": _to(types.BINARY),
    "string": _to(types.STRING),
    "date": _to(types.DATE),
    "timestamp": _to(types.TIMESTAMP),
}
