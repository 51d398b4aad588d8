"""str_to_map: a map of a text such as `a:1,b:2`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import string
from stretto.expressions.lists import taken_apart
from stretto.expressions.maps import checked
from stretto.expressions.nodes import Folds, Node, Site, arrayed, constant_argument, null
from stretto.expressions.registry import Function

_KIND = pa.map_(types.STRING, types.STRING)
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_ESCAPED = re.compile(r"\\([\\^$.|?*+()\[\]{}])")


def str_to_map(site: Site, node: Node, pairs: Node | None = None, values: Node | None = None) -> Node:
    """Returns the map of a text: `,` is between entries and `:` between key and value, or other delimiters."""
    text = string(node, site)
    marks = [_delimiter(part, default, site) for part, default in ((pairs, ","), (values, ":"))]
    if None in marks:
        return null(_KIND, site)
    between_pairs, between_values = marks

    def apply(texts: pa.Array) -> pa.Array:
        lists = taken_apart(pc.split_pattern(texts, pattern=between_pairs))
        parts = taken_apart(pc.split_pattern(lists.values, pattern=between_values, max_splits=1))
        keys = parts.values.take(pa.array(parts.offsets[:-1]))
        lone = parts.lengths < 2
        items = parts.values.take(pa.array(np.where(lone, 0, parts.offsets[:-1] + 1), mask=lone))
        return checked(keys, items, lists, _KIND, site)

    return arrayed(_KIND, apply, site, (text,), fallible=True)


def _delimiter(node: Node | None, default: str, site: Site) -> Any:
    """Returns the text of a delimiter, which Spark reads as a regular expression; those with a meaning are refused."""
    if node is None:
        return default
    pattern = constant_argument(node, types.STRING, "a delimiter of str_to_map", Folds.NEVER)
    if pattern is None:
        return None
    if not pattern or _SPECIAL.search(_ESCAPED.sub("", pattern)):
        raise site.error(
            f"the delimiter {pattern!r} is a regular expression", "only plain texts are supported", "escape it with \\"
        )
    return _ESCAPED.sub(r"\1", pattern)


FUNCTIONS = {"str_to_map": Function(str_to_map, 1, 3)}
