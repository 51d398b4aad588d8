"""RLIKE, the functions regexp_* and split: Java's regular expressions over columns.

A constant pattern that RE2 matches exactly as Java does runs in Arrow's kernels; other patterns, and patterns in
columns, run in Python's `re`, one call for each different text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stretto.expressions import types
from stretto.expressions.arguments import text, whole
from stretto.expressions.java_regex import (
    BadPattern,
    BadReplacement,
    JavaPattern,
    Re2Pattern,
    UnsupportedPattern,
    java_pattern,
    joined,
    parse_replacement,
)
from stretto.expressions.nodes import Folds, Node, Site, integer, kernel, known, null
from stretto.expressions.registry import Function, fixed, with_aliases
from stretto.expressions.rows import by_rows, by_value

_STRINGS = pa.list_(types.STRING)


def compiled(pattern: str, site: Site) -> JavaPattern:
    """Returns the pattern; raises the site's error for what is no pattern, or has no exact translation."""
    try:
        return java_pattern(pattern)
    except BadPattern as error:
        raise site.error("a bad regular expression", f"{pattern!r}: {error}", "patterns follow Java's syntax") from None
    except UnsupportedPattern as error:
        raise site.error(
            f"{error} is not supported in a regular expression", f"the pattern is {pattern!r}", "write it another way"
        ) from None


def _accepted(form: Re2Pattern | None) -> Re2Pattern | None:
    """Returns the pattern if RE2 takes it; it refuses those that need too much memory."""
    try:
        if form is not None:
            pc.match_substring_regex(pa.array([""]), form.text)
    except pa.ArrowInvalid:
        return None
    return form


def _over_texts(
    kind: pa.DataType,
    subject: Node,
    site: Site,
    form: Re2Pattern | None,
    in_kernel: Callable[[Any], Any],
    of_text: Callable[[str], Any],
    fallible: bool = False,
) -> Node:
    """Returns a function of a column of texts: RE2's where its pattern is right for all of them, else Python's."""
    form = _accepted(form)

    def apply(values: Any) -> Any:
        if form is None or isinstance(values, pa.Scalar):
            return by_value(values, of_text, kind)
        if form.ascii_only and not bool(pc.all(pc.string_is_ascii(values), min_count=0).as_py()):
            return by_value(values, of_text, kind)
        return in_kernel(values)

    return kernel(kind, apply, site, (subject,), fallible)


def _by_rows(site: Site, kind: pa.DataType, apply: Callable[..., Any], *nodes: Node) -> Node:
    """Returns `apply(text, pattern, ...)` row by row; a constant pattern that cannot be read is refused now."""
    pattern = known(nodes[1])
    if pattern is not None:
        compiled(pattern, site)
    return by_rows(
        kind, lambda value, regex, *more: apply(value, compiled(regex, site), *more), site, nodes, fallible=True
    )


def rlike(site: Site, node: Node, pattern: Node) -> Node:
    """Returns whether the pattern occurs in the text."""
    subject, regex = text(node, site), text(pattern, site)
    value = known(regex)
    if value is None:
        return _by_rows(site, types.BOOLEAN, lambda inner, java: java.search(inner) is not None, subject, regex)
    java = compiled(value, site)
    form, literal = java.re2_search, java.literal

    def in_kernel(values: Any) -> Any:
        if literal is not None:
            return pc.match_substring(values, literal)
        return pc.match_substring_regex(values, form.text if form else "")

    return _over_texts(types.BOOLEAN, subject, site, form, in_kernel, lambda inner: java.search(inner) is not None)


def extract(site: Site, node: Node, pattern: Node, index: Node | None = None) -> Node:
    """Returns the text of a group in the first match, empty if there is none."""
    subject, regex = text(node, site), text(pattern, site)
    place = integer(1, site) if index is None else whole(index, site)
    value, group = known(regex), known(place)

    def of_row(inner: str, java: JavaPattern, number: int) -> str:
        found = java.search(inner)
        return "" if found is None else joined(_group(found, number, java, site))

    if value is None or group is None:
        return _by_rows(site, types.STRING, of_row, subject, regex, place)
    java = compiled(value, site)
    form = java.re2_group(group)

    def in_kernel(values: Any) -> Any:
        found = pc.struct_field(pc.extract_regex(values, form.text if form else ""), [0])
        return pc.if_else(pc.is_valid(values), pc.fill_null(found, ""), pa.scalar(None, types.STRING))

    fallible = not 0 <= group <= java.groups
    return _over_texts(types.STRING, subject, site, form, in_kernel, lambda inner: of_row(inner, java, group), fallible)


def _group(found: Any, number: int, java: JavaPattern, site: Site) -> str:
    if not 0 <= number <= java.groups:
        raise site.error(
            f"no group {number}", f"the pattern {java.text!r} has {java.groups}", "use another number; 0 is the match"
        )
    return found[number] or ""


def extract_all(site: Site, node: Node, pattern: Node, index: Node | None = None) -> Node:
    """Returns the texts of a group in all matches."""
    place = integer(1, site) if index is None else whole(index, site)

    def of_row(inner: str, java: JavaPattern, number: int) -> list[str]:
        return [joined(_group(found, number, java, site)) for found in java.matches(inner)]

    return _by_rows(site, _STRINGS, of_row, text(node, site), text(pattern, site), place)


def substring(site: Site, node: Node, pattern: Node) -> Node:
    """Returns the first match, null if there is none or it is empty."""

    def of_row(inner: str, java: JavaPattern) -> str | None:
        found = java.search(inner)
        return (joined(found[0]) or None) if found else None

    return _by_rows(site, types.STRING, of_row, text(node, site), text(pattern, site))


def position(site: Site, node: Node, pattern: Node, index: Node | None = None) -> Node:
    """Returns where the first match begins, from 1, or 0; Spark ignores the group's number."""

    def of_row(inner: str, java: JavaPattern, number: int) -> int:
        found = java.search(inner)
        return 0 if found is None else len(joined(found.string[: found.start()])) + 1

    place = integer(0, site) if index is None else whole(index, site)
    return _by_rows(site, types.INT, of_row, text(node, site), text(pattern, site), place)


def count(site: Site, node: Node, pattern: Node) -> Node:
    def of_row(inner: str, java: JavaPattern) -> int:
        return sum(1 for _ in java.matches(inner))

    return _by_rows(site, types.INT, of_row, text(node, site), text(pattern, site))


def replace(site: Site, node: Node, pattern: Node, new: Node, start: Node | None = None) -> Node:
    """Returns the text with all matches from a position on replaced."""
    subject, regex, replacement = text(node, site), text(pattern, site), text(new, site)
    first = 1
    if start is not None:
        place = whole(start, site)
        if place.columns or place.folds is not Folds.ANALYSED:
            raise site.error("the position of regexp_replace is not constant", None, "write a number")
        first = known(place)
        if place.fallible:
            raise site.error("the position of regexp_replace is no number", None, "write a number")
        if first is None:
            return null(types.STRING, site)
        if first < 1:
            raise site.error(f"position {first}", "characters count from 1", "use a position of 1 or more")

    def of_row(inner: str, java: JavaPattern, value: str) -> str:
        return _replaced(inner, java, value, first - 1, site)

    value, wanted = known(regex), known(replacement)
    node = _by_rows(site, types.STRING, of_row, subject, regex, replacement)
    if value is None or wanted is None or first > 1:
        return node
    java = compiled(value, site)
    try:
        parts = parse_replacement(wanted, java.groups, java.names)
    except BadReplacement:
        return node  # It fails only where there is a match.
    form = java.re2_matches if parts.fits_re2 else None

    def in_kernel(values: Any) -> Any:
        if java.literal is not None and parts.literal is not None:
            return pc.replace_substring(values, java.literal, parts.literal)
        return pc.replace_substring_regex(values, form.text if form else "", parts.re2)

    return _over_texts(types.STRING, subject, site, form, in_kernel, lambda inner: java.replaced(inner, parts.fill))


def _replaced(value: str, java: JavaPattern, replacement: str, first: int, site: Site) -> str:
    if 0 < first >= len(value):
        return value

    def fill(found: Any) -> str:
        return parse_replacement(replacement, java.groups, java.names).fill(found)

    try:
        return value[:first] + java.replaced(value[first:], fill)
    except BadReplacement as error:
        raise site.error(
            "a bad replacement", f"{replacement!r} for the pattern {java.text!r}: {error}", "escape $ and \\ with \\"
        ) from None


def split(site: Site, node: Node, pattern: Node, limit: Node | None = None) -> Node:
    """Returns the parts between the matches, at most `limit` of them if that is positive."""
    subject, regex = text(node, site), text(pattern, site)
    most = integer(-1, site) if limit is None else whole(limit, site)
    value, parts_max = known(regex), known(most)
    if value is None or parts_max is None or value == "":
        return _by_rows(site, _STRINGS, _split, subject, regex, most)
    java = compiled(value, site)
    form, literal = java.re2_matches, java.literal
    splits = parts_max - 1 if parts_max > 0 else None

    def in_kernel(values: Any) -> Any:
        if literal is not None:
            return pc.split_pattern(values, literal, max_splits=splits)
        return pc.split_pattern_regex(values, form.text if form else "", max_splits=splits)

    return _over_texts(_STRINGS, subject, site, form, in_kernel, lambda inner: _split(inner, java, parts_max))


def _split(value: str, java: JavaPattern, limit: int) -> list[str]:
    if not java.text and value:
        # Spark's own: an empty pattern splits into characters, and nothing is empty.
        cut = len(value) - 1 if limit <= 0 or limit > len(value) else limit - 1
        return [*value[:cut], value[cut:]]
    parts, index, whole_text = list[str](), 0, value
    for found in java.matches(value):
        whole_text = found.string
        if 0 < limit <= len(parts) + 1:
            break
        if index == 0 and found.end() == 0:
            continue  # An empty match at the start makes no empty part.
        parts.append(whole_text[index : found.start()])
        index = found.end()
    return [joined(part) for part in (*parts, whole_text[index:])]


FUNCTIONS = with_aliases(
    {
        "rlike": fixed(rlike, 2),
        "regexp_extract": Function(extract, 2, 3),
        "regexp_extract_all": Function(extract_all, 2, 3),
        "regexp_substr": fixed(substring, 2),
        "regexp_instr": Function(position, 2, 3),
        "regexp_count": fixed(count, 2),
        "regexp_replace": Function(replace, 3, 4),
        "split": Function(split, 2, 3),
    },
    regexp="rlike",
    regexp_like="rlike",
)
