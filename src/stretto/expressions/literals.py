"""Numbers and bytes as they are written: 1, 1L, 1.5, 1e3, 1.5BD, X'1F'."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from stretto.expressions import decimals, types, vectors
from stretto.expressions.nodes import Node, Site, constant

_SUFFIXES = {"L": types.BIGINT, "S": types.SMALLINT, "Y": types.TINYINT}


def bytes_of(digits: str) -> pa.Scalar:
    """Returns the bytes of X'1F'."""
    return pa.scalar(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), types.BINARY)


def number(text: str, site: Site) -> Node:
    """Returns a number as in Spark: int or bigint by its size, decimal with a point, double with an exponent."""
    bare, suffix = text, ""
    for ending in ("BD", "L", "S", "Y", "D", "F"):
        if text.upper().endswith(ending):
            bare, suffix = text[: -len(ending)], ending
            break
    if suffix in _SUFFIXES:
        return _integer(int(bare), _SUFFIXES[suffix], site)
    if suffix in ("D", "F") or (not suffix and "e" in bare.lower()):
        kind = types.FLOAT if suffix == "F" else types.DOUBLE
        value = vectors.dtype_of(kind).type(float(bare))
        if not np.isfinite(value):
            raise site.error("a number out of range", None, "use a smaller one")
        return constant(kind, (value, None), site, literal=True)
    if not suffix and "." not in bare:
        value = int(bare)
        for kind in (types.INT, types.BIGINT):
            info = np.iinfo(vectors.dtype_of(kind))
            if int(info.min) <= value <= int(info.max):
                return _integer(value, kind, site)
    return _decimal(bare, site)


def _integer(value: int, kind: pa.DataType, site: Site) -> Node:
    dtype = vectors.dtype_of(kind)
    if not int(np.iinfo(dtype).min) <= value <= int(np.iinfo(dtype).max):
        raise site.error(f"{value} does not fit {types.spark_type_name(kind)}", None, "use a wider type")
    return constant(kind, (dtype.type(value), None), site, literal=True)


def _decimal(text: str, site: Site) -> Node:
    # From its digits, since Decimal's own arithmetic rounds to 28 of them.
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    precision = max(len(str(abs(unscaled))), scale)
    if precision > types.DECIMAL_DIGITS_MAX:
        raise site.error("a number of more than 38 digits", None, "use fewer digits, or a double: 1e40")
    kind = pa.decimal128(precision, scale)
    return constant(kind, (decimals.fit(unscaled, None, kind, site), None), site, literal=True)
