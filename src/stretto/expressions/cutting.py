"""Parts of a text, by position or between delimiters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text, whole
from stretto.expressions.nodes import Node, Site, kernel, known
from stretto.expressions.registry import fixed
from stretto.expressions.rows import by_rows


def split_part(site: Site, node: Node, delimiter: Node, index: Node) -> Node:
    """Returns the part number `index`, from the end if negative; an empty string if there is no such part."""
    subject, mark, place = text(node, site), text(delimiter, site), whole(index, site)
    constant_mark, constant_place = known(mark), known(place)
    if constant_mark and constant_place and subject.columns:
        return kernel(types.STRING, lambda values: _parts_at(values, constant_mark, constant_place), site, (subject,))

    def of_row(value: str, inner: str, number: int) -> str:
        if number == 0:
            raise site.error("index 0", "parts count from 1, or from -1 at the end", "use another index")
        parts = value.split(inner) if inner else [value]
        return parts[number - 1 if number > 0 else number] if abs(number) <= len(parts) else ""

    return by_rows(types.STRING, of_row, site, (subject, mark, place), fallible=not constant_place)


def _parts_at(values: Any, mark: str, place: int) -> Any:
    parts = pc.split_pattern(values, pattern=mark)
    counts = pc.list_value_length(parts)
    reachable = pc.greater_equal(counts, abs(place))
    position = pc.add(counts, place) if place < 0 else pa.repeat(pa.scalar(place - 1, pa.int32()), len(values))
    offsets = parts.offsets.slice(0, len(parts)) if len(parts) else pa.array([], pa.int32())
    chosen = parts.values.take(pc.if_else(reachable, pc.add(offsets, position), pa.scalar(None, pa.int32())))
    return pc.if_else(pc.fill_null(reachable, True), chosen, "")


FUNCTIONS = {
    "split_part": fixed(split_part, 3),
}
