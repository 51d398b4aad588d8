"""upper, lower and initcap, with the full mappings of Unicode: the capitals of `straße` are `STRASSE`.

Arrow's kernels map one character to one. They are used for what is ASCII; Python's own mappings, which are those of
ICU but for letters that only a newer Unicode has, for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.nodes import Node, Site, kernel
from stretto.expressions.registry import fixed, with_aliases
from stretto.expressions.rows import by_value


def _mapped(of_ascii: Callable[[Any], Any], of_any: Callable[[str], str]) -> Callable[[Any], Any]:
    """Returns the mapping of an array or a scalar."""

    def apply(values: Any) -> Any:
        plain = pc.string_is_ascii(values)
        if isinstance(values, pa.Scalar):
            return of_ascii(values) if plain.as_py() is not False else pa.scalar(of_any(values.as_py()), types.STRING)
        others = pc.invert(plain)
        if not others.true_count:
            return of_ascii(values)
        return pc.replace_with_mask(of_ascii(values), others, by_value(values.filter(others), of_any, types.STRING))

    return apply


def _ascii_titled(values: Any) -> Any:
    return by_value(values, titled, types.STRING)


def titled(value: str) -> str:
    """Returns the text with each word's first letter as a capital and the rest small; spaces alone part words."""
    return " ".join(word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in value.split(" "))


def _casing(of_ascii: Callable[[Any], Any], of_any: Callable[[str], str]) -> Callable[[Site, Node], Node]:
    mapped = _mapped(of_ascii, of_any)
    return lambda site, node: kernel(types.STRING, mapped, site, (text(node, site),))


lower = _casing(pc.ascii_lower, str.lower)
upper = _casing(pc.ascii_upper, str.upper)

FUNCTIONS = with_aliases(
    {
        "lower": fixed(lower, 1),
        "upper": fixed(upper, 1),
        "initcap": fixed(_casing(_ascii_titled, titled), 1),
    },
    lcase="lower",
    ucase="upper",
)
