"""from_json: a JSON text as a struct, an array or a map of a given schema, as Spark reads it in its permissive mode.

A field that does not fit its type is null and the others are kept; an array or a map with such a value is null as a
whole; a text that is not JSON gives a struct of nulls.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.arguments import string
from stretto.expressions.ddl import parse_schema
from stretto.expressions.json_trees import (
    SPACES,
    NotJson,
    Pairs,
    Reading,
    Real,
    Whole,
    is_plain_text,
    of_each_text,
    tree_of,
    well_formed,
    written,
)
from stretto.expressions.nodes import Node, Site, arrayed, constant_argument
from stretto.expressions.registry import fixed
from stretto.expressions.texts import Unreadable, parser

_CORRUPT = "_corrupt_record"
_NESTED_TYPE = re.compile(r"\s*(array|map|struct)\s*<", re.IGNORECASE)
_EXACT = Context(prec=2000)
_RANGES = {
    # Jackson takes 255 for a byte, and Java keeps its low eight bits.
    types.TINYINT: (-128, 255),
    types.SMALLINT: (-(2**15), 2**15 - 1),
    types.INT: (-(2**31), 2**31 - 1),
    types.BIGINT: (-(2**63), 2**63 - 1),
}
_NOT_FINITE = {
    "NaN": float("nan"), "Infinity": float("inf"), "+Infinity": float("inf"), "+INF": float("inf"),
    "-Infinity": float("-inf"), "-INF": float("-inf"),
}  # fmt: skip

Read = Callable[[Any], Any]
"""From a tree that is not null to a value for Arrow."""


class Misfit(Exception):
    """A value that is not of the wanted type."""


class _Row:
    """Reads the fields of an object. `damaged` says whether one of the last did not fit."""

    def __init__(self, kind: Any, site: Site) -> None:
        self._readers = {field.name: _reader(field.type, site) for field in kind}
        self.empty: dict[str, Any] = dict.fromkeys(self._readers)
        self.damaged = False

    def __call__(self, tree: Any) -> dict[str, Any]:
        if not isinstance(tree, Pairs):
            raise Misfit
        row = dict(self.empty)
        for key, value in tree:
            read = self._readers.get(key)
            if read is None:
                continue
            try:
                row[key] = None if value is None else read(value)
            except Misfit:
                row[key] = None
                self.damaged = True
        return row


def from_json(site: Site, node: Node, schema: Node) -> Node:
    """Returns the value of a JSON text; the schema is a constant in Spark's DDL."""
    text = constant_argument(schema, types.STRING, "the schema of from_json")
    if text is None:
        raise site.error("from_json without a schema", None, "write it as 'name type, ...'")
    kind: Any = _kind(text)
    read = _read_struct(kind, site) if pat.is_struct(kind) else _read_whole(kind, site)

    def apply(texts: pa.Array) -> pa.Array:
        return of_each_text(texts, lambda value: read(value) if value.strip(SPACES) else None, kind)

    return arrayed(kind, apply, site, (string(node, site),))


def _kind(text: str) -> pa.DataType:
    if _NESTED_TYPE.match(text):
        return types.canonical(parse_schema(f"value {text.strip()}").field(0).type)
    return types.canonical(pa.struct(list(parse_schema(text))))


def _read_struct(kind: Any, site: Site) -> Callable[[str], Any]:
    row = _Row(kind, site)
    keeps_text = _CORRUPT in kind.names and kind.field(_CORRUPT).type == types.STRING

    def read(text: str) -> dict[str, Any]:
        row.damaged = False
        try:
            values = row(tree_of(text, Reading.STRICT))
        except (NotJson, Misfit):
            values, row.damaged = dict(row.empty), True
        if keeps_text:
            values[_CORRUPT] = text if row.damaged else None
        return values

    return read


def _read_whole(kind: Any, site: Site) -> Callable[[str], Any]:
    read_value = _reader(kind, site)
    rows = pat.is_list(kind) and pat.is_struct(kind.value_type)

    def read(text: str) -> Any:
        try:
            tree = tree_of(text, Reading.STRICT)
            if tree is None:
                return None
            return read_value([tree] if rows and isinstance(tree, Pairs) else tree)
        except (NotJson, Misfit):
            return None

    return read


def _reader(kind: Any, site: Site) -> Read:
    if pat.is_struct(kind):
        return _Row(kind, site)
    if pat.is_list(kind):
        return _array_reader(_reader(kind.value_type, site))
    if pat.is_map(kind):
        if kind.key_type != types.STRING:
            raise site.error("from_json of a map whose keys are not strings", None, "use map<string, ...>")
        return _map_reader(_reader(kind.item_type, site))
    if types.is_integral(kind):
        return _integer_reader(kind)
    if types.is_decimal(kind):
        return _decimal_reader(kind)
    if types.is_temporal(kind):
        return _time_reader(kind)
    read = _PLAIN.get(kind)
    if read is None:
        raise site.error(f"from_json of {types.spark_type_name(kind)} is not supported", None, "read it as a string")
    return read


def _array_reader(read: Read) -> Read:
    def read_array(tree: Any) -> list[Any]:
        if not isinstance(tree, list) or isinstance(tree, Pairs):
            raise Misfit
        return [None if element is None else read(element) for element in tree]

    return read_array


def _map_reader(read: Read) -> Read:
    def read_map(tree: Any) -> list[tuple[str, Any]]:
        if not isinstance(tree, Pairs):
            raise Misfit
        # A key that comes twice is twice in the map, as in Spark.
        return [(well_formed(key), None if value is None else read(value)) for key, value in tree]

    return read_map


def _integer_reader(kind: Any) -> Read:
    low, high = _RANGES[kind]

    def read(tree: Any) -> int:
        if not isinstance(tree, Whole) or not low <= int(tree) <= high:
            raise Misfit
        return (int(tree) + 128) % 256 - 128 if kind == types.TINYINT else int(tree)

    return read


def _decimal_reader(kind: Any) -> Read:
    step = Decimal(1).scaleb(-kind.scale)

    def read(tree: Any) -> Decimal | None:
        if not isinstance(tree, str):
            raise Misfit
        try:
            number = Decimal(tree.replace(",", "") if is_plain_text(tree) else tree)
            if not number.is_finite() or "_" in tree or tree != tree.strip():
                raise Misfit
            rounded = number.quantize(step, ROUND_HALF_UP, _EXACT)
        except InvalidOperation:
            raise Misfit from None
        return rounded if abs(rounded) < Decimal(10) ** (kind.precision - kind.scale) else None

    return read


_DAYS = re.compile(r"[+-]?[0-9]{1,10}")
_GREGORIAN = -141_427
"""The first day of the Gregorian calendar."""


def _time_reader(kind: Any) -> Read:
    parse: Any = parser(kind)

    def read(tree: Any) -> int:
        if isinstance(tree, Whole) and kind == types.TIMESTAMP and abs(int(tree)) < 2**63:
            return (int(tree) * 1_000_000 + 2**63) % 2**64 - 2**63  # Java's product of two longs.
        if not is_plain_text(tree):
            raise Misfit
        try:
            return int(parse(pa.scalar(tree, types.STRING))[0])
        except Unreadable:
            # As Spark wrote dates long ago. Before 1582 it would take them for Julian ones.
            if kind == types.DATE and _DAYS.fullmatch(tree) and _GREGORIAN <= int(tree) < 2**31:
                return int(tree)
            raise Misfit from None

    return read


def _text(tree: Any) -> str:
    return well_formed(tree if is_plain_text(tree) else written(tree))


def _double(tree: Any) -> float:
    if isinstance(tree, Whole | Real):
        return float(tree)
    if is_plain_text(tree) and tree in _NOT_FINITE:
        return _NOT_FINITE[tree]
    raise Misfit


def _float(tree: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(tree)))


def _boolean(tree: Any) -> bool:
    if not isinstance(tree, bool):
        raise Misfit
    return tree


def _binary(tree: Any) -> bytes:
    if not is_plain_text(tree):
        raise Misfit
    try:
        return base64.b64decode(tree, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit from None


_PLAIN: dict[pa.DataType, Read] = {
    types.STRING: _text,
    types.DOUBLE: _double,
    types.FLOAT: _float,
    types.BOOLEAN: _boolean,
    types.BINARY: _binary,
}
FUNCTIONS = {"from_json": fixed(from_json, 2)}
