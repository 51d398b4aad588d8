"""Bit operations on integers: & | ^ ~, shifts as Java has them, counting and reading bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import signs, types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site, combine, elementwise, null
from stretto.expressions.registry import fixed, with_aliases
from stretto.expressions.rounding import number
from stretto.expressions.vectors import Value, both_valid, dtype_of

_UFUNCS: dict[str, Callable[..., Any]] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}


def _integral(node: Node, site: Site, default: pa.DataType = types.INT) -> Node:
    if node.type == types.NULL:
        return null(default, site)
    if not types.is_integral(node.type):
        raise site.wrong_type("an integer", node.type)
    return node


def bitwise(operator: str, left: Node, right: Node, site: Site) -> Node:
    """Returns `left operator right`, where the operator is one of & | ^."""
    left, right = signs.numbers(left, right, site)
    left, right = _integral(left, site, right.type), _integral(right, site, left.type)
    if left.type == types.NULL:
        return null(types.INT, site)
    kind = types.wider(left.type, right.type)
    return elementwise(kind, _UFUNCS[operator], site, (cast(left, kind, site), cast(right, kind, site)))


def inverted(node: Node, site: Site) -> Node:
    """Returns `~x`."""
    node = _integral(node, site)
    return elementwise(node.type, np.invert, site, (node,))


def _shift(apply: Callable[..., Any]) -> Callable[[Site, Node, Node], Node]:
    """Returns the builder of a shift. Java uses the last bits of the distance alone: 33 shifts an int by 1."""

    def build(site: Site, node: Node, distance: Node) -> Node:
        node = cast(node, types.INT, site) if node.type == types.STRING else _integral(node, site)
        distance = cast(number(distance, site, types.INT), types.INT, site)
        kind = types.BIGINT if node.type == types.BIGINT else types.INT
        last_bits = 8 * dtype_of(kind).itemsize - 1
        places = elementwise(kind, lambda values: values.astype(dtype_of(kind)) & last_bits, site, (distance,))
        return elementwise(kind, apply, site, (cast(node, kind, site), places))

    return build


def _shift_unsigned(values: Any, places: Any) -> Any:
    unsigned = _UNSIGNED[values.dtype]
    return (values.view(unsigned) >> places.astype(unsigned)).view(values.dtype)


def bit_count(site: Site, node: Node) -> Node:
    """Returns how many bits are set in a number of 64 bits, so that -1 has 64 whatever its type is."""
    if node.type != types.BOOLEAN:
        node = _integral(node, site)
    return elementwise(
        types.INT, lambda values: np.bitwise_count(values.astype(np.int64).view(np.uint64)).astype(np.int32), site,
        (node,),
    )  # fmt: skip


def bit_get(site: Site, node: Node, position: Node) -> Node:
    """Returns the bit at a position, from 0 at the right, as a tinyint."""
    node, position = _integral(node, site), cast(number(position, site, types.INT), types.INT, site)
    first, second, size = node.run, position.run, 8 * dtype_of(node.type).itemsize

    def run(batch: pa.RecordBatch) -> Value:
        values, values_valid = first(batch)
        places, places_valid = second(batch)
        valid = both_valid(values_valid, places_valid)
        outside = (places < 0) | (places >= size)
        if np.any(outside if valid is None else outside & valid):
            name = types.spark_type_name(node.type)
            raise site.error("a bit out of range", f"a {name} has bits 0 to {size - 1}", "use a smaller position")
        places = np.where(outside, 0, places)
        return ((values.astype(np.int64) >> places) & 1).astype(np.int8)[()], valid

    return combine(types.TINYINT, run, site, (node, position), fallible=True)


FUNCTIONS = with_aliases(
    {
        "shiftleft": fixed(_shift(np.left_shift), 2),
        "shiftright": fixed(_shift(np.right_shift), 2),
        "shiftrightunsigned": fixed(_shift(_shift_unsigned), 2),
        "bit_count": fixed(bit_count, 1),
        "bit_get": fixed(bit_get, 2),
    },
    getbit="bit_get",
)
