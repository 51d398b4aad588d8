"""CAST of arrays, maps and structs: value by value, or to the text that Spark prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.lists import Lists, entries, is_missing, put_together, taken_apart
from stretto.expressions.nodes import Node, Site, arrayed, slot
from stretto.expressions.vectors import to_arrow

Cast = Callable[[Node, pa.DataType, Site], Node]
"""`cast`, or `try_cast`, for the values inside."""


class _Converter:
    """Casts Arrow arrays of one type to another. `fallible` is true if that may raise."""

    def __init__(self, source: pa.DataType, kind: pa.DataType, site: Site, cast: Cast) -> None:
        node = cast(slot(source, "value", site), kind, site)
        self._run, self._kind, self.fallible = node.run, kind, node.fallible

    def __call__(self, array: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays([array], names=["value"])
        return to_arrow(self._run(batch), self._kind, len(array))


def cast_nested(node: Node, kind: Any, site: Site, cast: Cast) -> Node:
    """Returns an array, a map or a struct as another type."""
    source: Any = node.type
    inner = _inside(source, kind)
    if inner is None:
        raise no_cast(source, kind, site)
    converters = [_Converter(before, after, site, cast) for before, after in inner]
    build = _texts if kind == types.STRING else _values

    def apply(array: pa.Array) -> pa.Array:
        return build(array, kind, converters)

    return arrayed(kind, apply, site, (node,), any(converter.fallible for converter in converters))


def no_cast(source: pa.DataType, kind: pa.DataType, site: Site) -> Exception:
    return site.error(
        f"cannot cast {types.spark_type_name(source)} to {types.spark_type_name(kind)}",
        None,
        "use map() with a Python function for other conversions",
    )


def _inside(source: Any, kind: Any) -> list[tuple[pa.DataType, pa.DataType]] | None:
    """Returns the types of what is inside before and after, or None if there is no such cast."""
    before = _inner_types(source)
    if kind == types.STRING:
        return [(inner, types.STRING) for inner in before]
    if source.id != kind.id or source.num_fields != kind.num_fields:
        return None
    return list(zip(before, _inner_types(kind), strict=True))


def _inner_types(kind: Any) -> list[pa.DataType]:
    if pat.is_list(kind):
        return [kind.value_type]
    if pat.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [field.type for field in kind]


def _values(array: Any, kind: Any, converters: list[_Converter]) -> pa.Array:
    if pat.is_struct(kind):
        fields = [convert(pc.struct_field(array, [place])) for place, convert in enumerate(converters)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(is_missing(array)))
    lists = taken_apart(array)
    if pat.is_map(kind):
        keys, items = (convert(part) for convert, part in zip(converters, lists.values.flatten(), strict=True))
        return put_together(Lists(lists.offsets, entries(keys, items), lists.valid), kind)
    return put_together(Lists(lists.offsets, converters[0](lists.values), lists.valid), kind)


def _texts(array: Any, kind: Any, converters: list[_Converter]) -> pa.Array:
    """Returns `[1, null]`, `{a -> 1, b -> null}` or `{1, x}`."""
    source = array.type
    if pat.is_struct(source):
        parts = [_or_null(convert(pc.struct_field(array, [place]))) for place, convert in enumerate(converters)]
        joined = pc.binary_join_element_wise(*parts, ", ") if parts else pa.repeat(pa.scalar(""), len(array))
        return pc.if_else(pa.array(is_missing(array)), None, _enclosed("{", joined, "}"))
    lists = taken_apart(array)
    if pat.is_map(source):
        keys, items = (
            _or_null(convert(part)) for convert, part in zip(converters, lists.values.flatten(), strict=True)
        )
        elements = pc.binary_join_element_wise(keys, items, " -> ")
    else:
        elements = _or_null(converters[0](lists.values))
    rows = put_together(Lists(lists.offsets, elements, lists.valid), pa.list_(types.STRING))
    brackets = ("{", "}") if pat.is_map(source) else ("[", "]")
    return _enclosed(brackets[0], pc.binary_join(rows, ", "), brackets[1])


def _or_null(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null")


def _enclosed(opening: str, texts: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, texts, closing, "")
