"""The keys of a join: which columns of both inputs are compared, and whether two values are equal.

Values whose hashes are equal are compared again, unless the hash is a bijection of the value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stretto.actors.partitioning import codes_of, has_codes
from stretto.errors import PlanError
from stretto.operators.row_blocks import Mask

LEFT = "left"
RIGHT = "right"

On = tuple[tuple[str, str], ...]


def side_keys(on: On, side: str) -> tuple[str, ...]:
    """Returns the key columns of one side."""
    return tuple(pair[0] if side == LEFT else pair[1] for pair in on)


def compared_key(left: pa.Schema, right: pa.Schema, pair: tuple[str, str]) -> tuple[int, int, bool]:
    """Returns the places of a pair of keys in both inputs, and whether their values compare as 64-bit words."""
    places = []
    for schema, name, side in ((left, pair[0], LEFT), (right, pair[1], RIGHT)):
        if name not in schema.names:
            raise PlanError(
                f"the {side} input of a join has no column '{name}'",
                f"it has {', '.join(schema.names)}",
                "Correct the name in the join's condition.",
            )
        places.append(schema.get_field_index(name))
    one, other = left.field(places[0]).type, right.field(places[1]).type
    if key_family(one) != key_family(other):
        raise PlanError(
            "a join compares columns of different kinds",
            f"left '{pair[0]}' is {one}, right '{pair[1]}' is {other}",
            "Cast one of them before the join.",
        )
    return places[0], places[1], has_codes(one) and has_codes(other)


def key_family(kind: pa.DataType) -> str:
    """Returns the family of a type: values of one family can be equal, and then have equal hashes."""
    types = pa.types
    if types.is_dictionary(kind):
        return key_family(kind.value_type)
    if types.is_integer(kind):
        return "uint64" if types.is_uint64(kind) else "integer"
    for family, is_one in _FAMILIES.items():
        if is_one(kind):
            return family
    return str(kind)


_FAMILIES: dict[str, Any] = {
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "date": pa.types.is_date,
    "time": pa.types.is_time,
    "timestamp": pa.types.is_timestamp,
    "duration": pa.types.is_duration,
    "string": lambda kind: kind in (pa.string(), pa.large_string()),
    "binary": lambda kind: kind in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(kind),
}


def equal_values(left: pa.Array, right: pa.Array, coded: bool) -> Mask:
    """Returns where two columns of one family are equal; null equals nothing. `coded`: they compare as 64-bit words."""
    if coded:
        words: Mask = codes_of(left) == codes_of(right)
        return words
    equal = pc.equal(_plain(left), _plain(right))
    mask: Mask = equal.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _plain(array: pa.Array) -> pa.Array:
    """Returns the array in a form that Arrow can compare with others of its family."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    return array.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else array
