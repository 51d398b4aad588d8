"""Texts put together: concat, concat_ws, repeat, space, padding, and elt, which chooses one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from stretto.expressions import types
from stretto.expressions.arguments import text, whole
from stretto.expressions.casts import cast
from stretto.expressions.comparisons import compare, null_test
from stretto.expressions.logic import case
from stretto.expressions.nodes import Node, Site, constant, integer, kernel, known, null, text_constant
from stretto.expressions.registry import MANY, Function, fixed
from stretto.expressions.rows import by_rows


def of_one_kind(nodes: Sequence[Node], site: Site) -> list[Node]:
    """Returns the nodes as binaries if all are, and otherwise as strings."""
    if nodes and all(node.type == types.BINARY for node in nodes):
        return list(nodes)
    return [text(node, site) for node in nodes]


def concat(site: Site, *nodes: Node) -> Node:
    """Returns the parts in a row, null where any part is null."""
    parts = of_one_kind(nodes, site)
    if not parts:
        return text_constant("", site)
    kind = parts[0].type
    between = pa.scalar("" if kind == types.STRING else b"", kind)
    return kernel(kind, lambda *values: pc.binary_join_element_wise(*values, between), site, parts)


def concat_ws(site: Site, separator: Node, *nodes: Node) -> Node:
    """Returns the parts that are not null, with a separator between them; an array is as many parts as it has."""
    mark = text(separator, site)
    parts = [cast(node, _strings(node, site), site) if pat.is_list(node.type) else text(node, site) for node in nodes]
    sign = known(mark)
    if sign is None or any(pat.is_list(part.type) for part in parts) or not any(part.columns for part in parts):
        return by_rows(types.STRING, _joined, site, (mark, *parts), takes_null=True)

    def join(*values: Any) -> Any:
        # Arrow's own way to skip nulls leaves out rows that have nothing else.
        marked = [pc.fill_null(pc.binary_join_element_wise("", value, sign), "") for value in values]
        return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*marked, ""), len(sign))

    return kernel(types.STRING, join, site, parts)


def _strings(node: Node, site: Site) -> pa.DataType:
    if types.is_nested(node.type.value_type):
        raise site.wrong_type("an array of strings", node.type)
    return pa.list_(types.STRING) if node.type.value_type != types.STRING else node.type


def _joined(separator: str | None, *parts: Any) -> str | None:
    if separator is None:
        return None
    flat = [item for part in parts for item in (part if isinstance(part, list) else [part]) if item is not None]
    return separator.join(flat)


def repeat(site: Site, node: Node, times: Node) -> Node:
    def apply(values: Any, counts: Any) -> Any:
        for one, other in ((values, counts), (counts, values)):
            if isinstance(one, pa.Scalar) and not one.is_valid and isinstance(other, pa.Array):
                return pa.nulls(len(other), types.STRING)  # Arrow's own result has no buffers there.
        return pc.binary_repeat(values, pc.max_element_wise(counts, 0, skip_nulls=False))

    return kernel(types.STRING, apply, site, (text(node, site), whole(times, site)))


def space(site: Site, count: Node) -> Node:
    return repeat(site, text_constant(" ", site), count)


def _padded(left: bool) -> Function:
    def pad(value: Any, width: int, filler: Any) -> Any:
        missing = max(width, 0) - len(value)
        if missing <= 0 or not filler:
            return value[: max(width, 0)]
        padding = (filler * (missing // len(filler) + 1))[:missing]
        return padding + value if left else value + padding

    def build(site: Site, node: Node, width: Node, filler: Node | None = None) -> Node:
        if filler is None:
            # Spaces for a text, zeros for a binary.
            blank = pa.scalar(b"\0") if node.type == types.BINARY else pa.scalar(" ")
            filler = constant(blank.type, (blank, None), site)
        subject, fill = of_one_kind((node, filler), site)
        size = whole(width, site)
        columns, sign = known(size), known(fill)
        if subject.type == types.STRING and columns and columns > 0 and sign and len(sign) == 1:
            widen = pc.utf8_lpad if left else pc.utf8_rpad
            return kernel(
                types.STRING,
                lambda values: pc.utf8_slice_codeunits(widen(values, columns, sign), 0, columns),
                site,
                (subject,),
            )
        return by_rows(subject.type, pad, site, (subject, size, fill))

    return Function(build, 2, 3)


def elt(site: Site, index: Node, *nodes: Node) -> Node:
    """Returns the argument of this number, which alone is evaluated; a number out of range fails."""
    place, choices = whole(index, site), of_one_kind(nodes, site)
    kind = choices[0].type

    def refuse(number: int) -> Any:
        raise site.error(f"index {number}", f"there are {len(choices)} values, from 1 on", "use another index")

    branches = [(null_test(place, site), null(kind, site))]
    branches += [
        (compare("=", place, integer(number, site), site), choice) for number, choice in enumerate(choices, start=1)
    ]
    return case(branches, by_rows(kind, refuse, site, (place,), fallible=True), site)


FUNCTIONS = {
    "concat": Function(concat, 0, MANY),
    "concat_ws": Function(concat_ws, 1, MANY),
    "repeat": fixed(repeat, 2),
    "space": fixed(space, 1),
    "lpad": _padded(left=True),
    "rpad": _padded(left=False),
    "elt": Function(elt, 2, MANY),
}
