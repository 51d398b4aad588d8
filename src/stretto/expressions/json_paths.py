"""get_json_object and its like: what a path finds in a JSON text.

The rules for wildcards are those of Spark, which has them from Hive: one match is not put into an array, several are,
and two wildcards after each other make one flat array.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Any

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.arguments import string
from stretto.expressions.json_trees import (
    NotJson,
    Pairs,
    Reading,
    has_half,
    is_plain_text,
    of_each_text,
    tree_of,
    well_formed,
    written,
)
from stretto.expressions.nodes import Node, Site, arrayed
from stretto.expressions.registry import fixed

_STEP = re.compile(
    # Spark's grammar skips spaces before a name and before an index, and nowhere else but at the end.
    r"(?P<any>\.\*|\['\*'\])|\.\s*(?P<name>[^.\[]+)|\['\s*(?P<quoted>[^'?]+)'\]|\[\s*(?P<index>\d+)\]|\[(?P<each>\*)\]",
    re.ASCII,
)
_END = re.compile(r"\s*", re.ASCII)


class Each(Enum):
    """A step to every element of an array."""

    ELEMENT = "[*]"


class Style(Enum):
    """How a match is written."""

    RAW = "a string without its quotes"
    QUOTED = "as JSON"
    FLAT = "as JSON, and an array as its elements"


Step = str | int | Each
"""A name, an index, or each element."""


@lru_cache(maxsize=1024)
def steps_of(path: str) -> tuple[Step, ...] | None:
    """Returns the steps of a path, or None if it is not one, or finds nothing in any text."""
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    place = 1
    while not _END.fullmatch(path, place):
        found = _STEP.match(path, place)
        if found is None or found["any"]:
            return None
        place = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(Each.ELEMENT if found["each"] else found["name"] or found["quoted"])
    return tuple(steps)


def object_at(text: str, path: str) -> str | None:
    """Returns what a path finds in a text."""
    steps = steps_of(path)
    if steps is None:
        return None
    try:
        tree = tree_of(text, Reading.LENIENT)
    except NotJson:
        return None
    matches: list[str] = []
    if not _find(tree, steps, Style.RAW, matches) or any(map(has_half, matches)):
        return None
    return " ".join(matches)


def _find(tree: Any, steps: tuple[Step, ...], style: Style, matches: list[str]) -> bool:
    """Adds the matches in a tree; returns whether there is any."""
    if not steps:
        return _add(tree, style, matches)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        return isinstance(tree, Pairs) and any(
            key == step and value is not None and _find(value, rest, style, matches) for key, value in tree
        )
    if not isinstance(tree, list) or isinstance(tree, Pairs):
        return False
    if isinstance(step, Each):
        return _find_in_each(tree, rest, style, matches)
    if step >= len(tree):
        return False
    return _find(tree[step], rest, Style.QUOTED if rest[:1] == (Each.ELEMENT,) else style, matches)


def _add(tree: Any, style: Style, matches: list[str]) -> bool:
    if style is Style.RAW and is_plain_text(tree):
        matches.append(tree)
        return True
    if style is Style.FLAT and isinstance(tree, list) and not isinstance(tree, Pairs):
        return sum([_add(element, style, matches) for element in tree]) > 0
    matches.append(written(tree))
    return True


def _find_in_each(elements: list[Any], rest: tuple[Step, ...], style: Style, matches: list[str]) -> bool:
    inner: list[str] = []
    if rest[:1] == (Each.ELEMENT,):
        found = [_find(element, rest[1:], Style.FLAT, inner) for element in elements]
    elif style is Style.QUOTED:
        found = [_find(element, rest, Style.QUOTED, inner) for element in elements]
    else:
        below = Style.FLAT if style is Style.FLAT else Style.QUOTED
        count = sum([_find(element, rest, below, inner) for element in elements])
        if count:
            matches.append(",".join(inner) if count == 1 else f"[{','.join(inner)}]")
        return count > 0
    matches.append(f"[{','.join(inner)}]")
    return any(found)


def get_json_object(site: Site, node: Node, path: Node) -> Node:
    """Returns the text of what a path finds, null if it finds nothing or the text is not JSON."""

    def apply(texts: pa.Array, paths: pa.Array) -> pa.Array:
        found: dict[tuple[str, str], str | None] = {}
        answers: list[str | None] = []
        for pair in zip(texts.to_pylist(), paths.to_pylist(), strict=True):
            if None in pair:
                answers.append(None)
                continue
            if pair not in found:
                found[pair] = object_at(*pair)
            answers.append(found[pair])
        return pa.array(answers, types.STRING)

    return arrayed(types.STRING, apply, site, (string(node, site), string(path, site)))


def json_array_length(site: Site, node: Node) -> Node:
    """Returns the number of elements of a JSON array, null for anything else."""

    def length(text: str) -> int | None:
        try:
            tree = tree_of(text, Reading.LENIENT)
        except NotJson:
            return None
        return len(tree) if isinstance(tree, list) and not isinstance(tree, Pairs) else None

    return arrayed(types.INT, lambda texts: of_each_text(texts, length, types.INT), site, (string(node, site),))


def json_object_keys(site: Site, node: Node) -> Node:
    """Returns the keys of a JSON object, null for anything else."""
    kind = pa.list_(types.STRING)

    def keys(text: str) -> list[str] | None:
        try:
            tree = tree_of(text, Reading.LENIENT)
        except NotJson:
            return None
        return [well_formed(key) for key, _ in tree] if isinstance(tree, Pairs) else None

    return arrayed(kind, lambda texts: of_each_text(texts, keys, kind), site, (string(node, site),))


def tuple_of(text: str, names: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """Returns the values of an object's fields as texts, for json_tuple."""
    try:
        tree = tree_of(text, Reading.LENIENT)
    except NotJson:
        tree = None
    found: dict[str, str] = {}
    for key, value in tree if isinstance(tree, Pairs) else ():
        if value is not None:
            found[key] = value if is_plain_text(value) else written(value)
    if any(has_half(found.get(name or "", "")) for name in names):
        return (None,) * len(names)
    return tuple(None if name is None else found.get(name) for name in names)


FUNCTIONS = {
    "get_json_object": fixed(get_json_object, 2),
    "json_array_length": fixed(json_array_length, 1),
    "json_object_keys": fixed(json_object_keys, 1),
}
