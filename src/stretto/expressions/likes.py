"""LIKE and ILIKE: % is any text, _ any character, and an escape character takes the meaning of both away."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.casing import lower
from stretto.expressions.folding import of_seen_nulls
from stretto.expressions.logic import conjunction, disjunction, negation
from stretto.expressions.nodes import Node, Site, constant_argument, kernel, known
from stretto.expressions.registry import Function
from stretto.expressions.rows import by_rows

_ANY_TEXT, _ANY_CHAR = object(), object()
_WILD = {"%": _ANY_TEXT, "_": _ANY_CHAR}
ESCAPE = "\\"


class _StrayEscape(Exception):
    pass


def like(node: Node, pattern: Node, site: Site, escape: str = ESCAPE, ignore_case: bool = False) -> Node:
    """Returns `x LIKE pattern`; ILIKE compares the small letters of both."""
    if len(escape) != 1:
        raise site.error(f"the escape {escape!r}", "it is not one character", "use one character, such as '/'")
    subject, wanted = text(node, site), text(pattern, site)
    if ignore_case:
        subject, wanted = (of_seen_nulls(lower(site, each), (each,)) for each in (subject, wanted))
    pattern_text = known(wanted)
    if pattern_text is None:
        return by_rows(
            types.BOOLEAN,
            lambda value, inner: _compiled(inner, escape, site).fullmatch(value) is not None,
            site,
            (subject, wanted),
            fallible=True,
        )
    parts = _parts(pattern_text, escape, site)
    return kernel(types.BOOLEAN, _matcher(parts), site, (subject,))


def _parts(pattern: str, escape: str, site: Site) -> list[Any]:
    """Returns the texts and wildcards of a pattern."""
    try:
        return list(_split(pattern, escape))
    except _StrayEscape:
        raise site.error(
            "a stray escape character", f"the pattern is {pattern!r}", "escape only %, _ or itself"
        ) from None


@lru_cache(maxsize=4_096)
def _split(pattern: str, escape: str) -> tuple[Any, ...]:
    parts: list[Any] = []
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            char = next(characters, "")
            if char not in ("%", "_", escape):
                raise _StrayEscape
        elif char in _WILD:
            parts.append(_WILD[char])
            continue
        if parts and isinstance(parts[-1], str):
            parts[-1] += char
        else:
            parts.append(char)
    return tuple(parts)


def _regex(parts: Sequence[Any]) -> str:
    wild = {_ANY_TEXT: ".*", _ANY_CHAR: "."}
    return "".join(re.escape(part) if isinstance(part, str) else wild[part] for part in parts)


@lru_cache(maxsize=4_096)
def _python_regex(pattern: str, escape: str) -> re.Pattern[str]:
    return re.compile(_regex(_split(pattern, escape)), re.DOTALL)


def _compiled(pattern: str, escape: str, site: Site) -> re.Pattern[str]:
    _parts(pattern, escape, site)
    return _python_regex(pattern, escape)


def _matcher(parts: list[Any]) -> Callable[[Any], Any]:
    """Returns the fastest kernel for a pattern."""
    match parts:
        case []:
            return lambda values: pc.equal(values, "")
        case [str(whole)]:
            return lambda values: pc.equal(values, whole)
        case [str(start), last] if last is _ANY_TEXT:
            return lambda values: pc.starts_with(values, start)
        case [first, str(end)] if first is _ANY_TEXT:
            return lambda values: pc.ends_with(values, end)
        case [first, str(middle), last] if first is _ANY_TEXT and last is _ANY_TEXT:
            return lambda values: pc.match_substring(values, middle)
    regex = f"(?s)\\A(?:{_regex(parts)})\\z"
    return lambda values: pc.match_substring_regex(values, regex)


def quantified(node: Node, patterns: Sequence[Node], site: Site, every: bool, negate: bool, ignore_case: bool) -> Node:
    """Returns `x [NOT] LIKE ANY (...)`, or with `every` ALL; the NOT is of each LIKE, not of the whole."""
    combined = None
    for pattern in patterns:
        each = like(node, pattern, site, ignore_case=ignore_case)
        each = negation(each, site) if negate else each
        connect = conjunction if every else disjunction
        combined = each if combined is None else connect(combined, each, site)
    if combined is None:
        raise site.error("LIKE without a pattern", None, "write at least one in the parentheses")
    return combined


def _call(ignore_case: bool) -> Function:
    def build(site: Site, node: Node, pattern: Node, escape: Node | None = None) -> Node:
        sign = ESCAPE if escape is None else constant_argument(escape, types.STRING, "the escape character")
        return like(node, pattern, site, sign or "", ignore_case)

    return Function(build, 2, 3)


FUNCTIONS = {"like": _call(False), "ilike": _call(True)}
