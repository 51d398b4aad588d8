"""Parts of a text, by position, between delimiters, or without what is at its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text, text_or_bytes, whole
from stretto.expressions.nodes import Node, Site, integer, kernel, known
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.rows import by_rows

_INT_MAX = 2**31 - 1


def cut(value: Any, start: int, size: int) -> Any:
    """Returns a part of a text or of bytes. Start 1 or 0 is the first; a negative start counts from the end."""
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    return value[max(first, 0) : max(first + size, 0)]


def substring(site: Site, node: Node, start: Node, size: Node | None = None) -> Node:
    subject, place = text_or_bytes(node, site), whole(start, site)
    count = integer(_INT_MAX, site) if size is None else whole(size, site)
    first, most = known(place), known(count)
    if subject.type == types.STRING and first is not None and most is not None:
        return kernel(types.STRING, _slicer(first, most), site, (subject,))
    return by_rows(subject.type, cut, site, (subject, place, count))


def _slicer(first: int, count: int) -> Callable[[Any], Any]:
    if count <= 0:
        return lambda values: pc.utf8_slice_codeunits(values, 0, 0)
    if first >= 0:
        begin = max(first - 1, 0)
        return lambda values: pc.utf8_slice_codeunits(values, begin, begin + count)
    # Slices count from the end and clip a start before the text, as Spark does.
    stop = None if first + count >= 0 else first + count
    return lambda values: pc.utf8_slice_codeunits(values, first, stop)


def left(site: Site, node: Node, size: Node) -> Node:
    return substring(site, node, integer(1, site), size)


def right(site: Site, node: Node, size: Node) -> Node:
    subject, count = text(node, site), whole(size, site)
    return by_rows(types.STRING, lambda value, most: value[-most:] if most > 0 else "", site, (subject, count))


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


def substring_index(site: Site, node: Node, delimiter: Node, count: Node) -> Node:
    """Returns what is before the n-th delimiter, or behind the n-th from the end if n is negative."""
    return by_rows(types.STRING, _before, site, (text(node, site), text(delimiter, site), whole(count, site)))


def _before(value: str, mark: str, count: int) -> str:
    if not mark or count == 0:
        return ""
    # Delimiters may overlap: the next is sought one character further.
    place = -1 if count > 0 else len(value) - len(mark) + 1
    for _ in range(abs(count)):
        if count > 0:
            place = value.find(mark, place + 1)
        else:
            place = value.rfind(mark, 0, max(place - 1 + len(mark), 0)) if place > 0 else -1
        if place < 0:
            return value
    return value[:place] if count > 0 else value[place + len(mark) :]


def _trimmed(kernel_of: Callable[..., Any], strip: Callable[[str, str], str], text_first: bool) -> Function:
    """Returns a function that takes characters away at the ends, spaces if none are given."""

    def build(site: Site, first: Node, second: Node | None = None) -> Node:
        if second is None:
            return kernel(types.STRING, lambda values: kernel_of(values, characters=" "), site, (text(first, site),))
        subject, characters = (first, second) if text_first else (second, first)
        return by_rows(types.STRING, strip, site, (text(subject, site), text(characters, site)))

    return Function(build, 1, 2)


FUNCTIONS = with_aliases(
    {
        "substring": Function(substring, 2, 3),
        "left": fixed(left, 2),
        "right": fixed(right, 2),
        "split_part": fixed(split_part, 3),
        "substring_index": fixed(substring_index, 3),
        # trim('x', s) has the characters first, and btrim(s, 'x') has them last.
        "trim": _trimmed(pc.utf8_trim, str.strip, text_first=False),
        "ltrim": _trimmed(pc.utf8_ltrim, str.lstrip, text_first=False),
        "rtrim": _trimmed(pc.utf8_rtrim, str.rstrip, text_first=False),
        "btrim": _trimmed(pc.utf8_trim, str.strip, text_first=True),
    },
    substr="substring",
)
