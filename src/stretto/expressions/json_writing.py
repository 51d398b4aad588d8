"""to_json: structs, maps and arrays as JSON texts, built by kernels from the texts of what is inside."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.format_writing import writer
from stretto.expressions.json_trees import quoted_text
from stretto.expressions.lists import Lists, is_missing, put_together, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, null
from stretto.expressions.registry import fixed
from stretto.expressions.texts import java_double, java_float
from stretto.expressions.zones import session_zone

_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXXXX"
Write = Callable[[Any], pa.Array]
"""From an Arrow array to the JSON text of each value; null for a null."""


def to_json(site: Site, node: Node) -> Node:
    """Returns the JSON text; a field that is null is left out, a null in an array or a map is written."""
    if node.type == types.NULL:
        return null(types.STRING, site)
    if not types.is_nested(node.type):
        raise site.wrong_type("a struct, an array or a map", node.type)
    return arrayed(types.STRING, _writer(node.type, site), site, (node,))


def _writer(kind: Any, site: Site) -> Write:
    if pat.is_struct(kind):
        return _struct_writer(kind, site)
    if pat.is_map(kind):
        return _map_writer(kind, site)
    if pat.is_list(kind):
        return _list_writer(kind, site)
    if kind == types.BOOLEAN or types.is_integral(kind):
        return lambda array: pc.cast(array, types.STRING)
    if kind == types.NULL:
        return lambda array: pa.nulls(len(array), types.STRING)
    if kind == types.STRING:
        return _quoted_strings
    if kind == types.DATE:
        return lambda array: _enclosed('"', pc.cast(array, types.STRING), '"')
    if kind == types.TIMESTAMP:
        return _timestamp_writer()
    if types.is_fractional(kind):
        write = java_double if kind == types.DOUBLE else java_float
        return _by_call(lambda value: write(value) if np.isfinite(value) else f'"{write(value)}"')
    if types.is_decimal(kind):
        return _by_call(str)  # Python writes a decimal as Java does, with an exponent below 1E-6.
    if kind == types.BINARY:
        return _by_call(lambda value: f'"{base64.b64encode(value).decode()}"')
    raise site.error(f"to_json of {types.spark_type_name(kind)} is not supported", None, "CAST it to string first")


def _by_call(write: Callable[[Any], str]) -> Write:
    """Returns a writer with one Python call for each value; only for texts that no kernel writes as Java does."""
    return lambda array: pa.array(
        [None if value is None else write(value) for value in array.to_pylist()], types.STRING
    )


def _quoted_strings(array: pa.Array) -> pa.Array:
    special = pc.match_substring_regex(array, '["\\\\\\x00-\\x1f]')
    if not pc.any(special).as_py():
        return _enclosed('"', array, '"')
    return _by_call(lambda value: quoted_text(value, astral=True))(array)


def _timestamp_writer() -> Write:
    """Returns a writer of timestamps in the session's zone, with its offset."""
    zone, write = session_zone(), writer(_TIMESTAMP)

    def written(array: Any) -> pa.Array:
        micros = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return _enclosed('"', pc.if_else(array.is_valid(), write(micros, zone), None), '"')

    return written


def _enclosed(opening: str, texts: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, texts, closing, "")


def _struct_writer(kind: Any, site: Site) -> Write:
    writers = [(quoted_text(field.name, astral=True), _writer(field.type, site)) for field in kind]

    def write(array: Any) -> pa.Array:
        # A comma before each field that is there; the first one is cut off. (Arrow's own way to skip nulls drops rows.)
        fields = [
            pc.fill_null(_enclosed(f",{name}:", inner(pc.struct_field(array, [place])), ""), "")
            for place, (name, inner) in enumerate(writers)
        ]
        joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*fields, ""), 1)
        return pc.if_else(pa.array(is_missing(array)), pa.scalar(None, types.STRING), _enclosed("{", joined, "}"))

    return write


def _list_writer(kind: Any, site: Site) -> Write:
    inner = _writer(kind.value_type, site)

    def write(array: Any) -> pa.Array:
        lists = taken_apart(array)
        return _joined(lists, pc.fill_null(inner(lists.values), "null"), "[", "]")

    return write


def _joined(lists: Lists, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    rows = put_together(Lists(lists.offsets, texts, lists.valid), pa.list_(types.STRING))
    return _enclosed(opening, pc.binary_join(rows, ","), closing)


def _map_writer(kind: Any, site: Site) -> Write:
    inner, key_texts = _writer(kind.item_type, site), _key_texts(kind.key_type, site)

    def write(array: Any) -> pa.Array:
        lists = taken_apart(array)
        items = pc.fill_null(inner(lists.values.field(1)), "null")
        keys = _quoted_strings(key_texts(lists.values.field(0)))
        return _joined(lists, pc.binary_join_element_wise(keys, items, ":"), "{", "}")

    return write


def _key_texts(kind: Any, site: Site) -> Write:
    """Returns the texts of keys: those of Java's values, in which a time is a number."""
    if kind == types.STRING:
        return lambda array: array
    if kind == types.DATE:
        return lambda array: pc.cast(array.view(types.INT), types.STRING)
    if kind == types.TIMESTAMP:
        return lambda array: pc.cast(array.view(types.BIGINT), types.STRING)
    if types.is_nested(kind) or kind == types.BINARY:
        raise site.error(
            f"to_json of a map with keys of type {types.spark_type_name(kind)} is not supported",
            None,
            "make the keys strings",
        )
    plain = _writer(kind, site)
    return lambda array: pc.utf8_trim(plain(array), characters='"')


FUNCTIONS = {"to_json": fixed(to_json, 1)}
