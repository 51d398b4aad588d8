"""A pattern of Java's, ready to match: in Python for one text, and as a pattern of RE2 for a whole column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

from stretto.expressions.java_regex import re2_form
from stretto.expressions.java_regex.parsing import parse
from stretto.expressions.java_regex.python_form import Alphabet, alphabet_of, python_pattern
from stretto.expressions.java_regex.re2_form import Re2Pattern
from stretto.expressions.java_regex.syntax import (
    Chars,
    Part,
    Sequence,
    UnsupportedPattern,
    can_be_empty,
    has_word_edges,
    may_keep_lost_group,
    skips_pairs,
)

_BMP_LAST = "\uffff"


class JavaPattern:
    """A compiled pattern. Make one with `java_pattern`."""

    def __init__(self, text: str) -> None:
        parsed = parse(text)
        self.text = text
        #: The number of its groups, and the numbers of those with names.
        self.groups = parsed.groups
        self.names = parsed.names
        self._tree = parsed.tree
        self._can_be_empty = can_be_empty(parsed.tree)
        self._has_word_edges = has_word_edges(parsed.tree)
        self._skips_pairs = skips_pairs(parsed.tree)
        if may_keep_lost_group(parsed.tree):
            raise UnsupportedPattern("a group that captures, in a part that may be left out and is never tried again,")
        # What no engine can match exactly is refused now, not when a row comes.
        common = Alphabet.COMMON if self._has_word_edges else Alphabet.EVERY
        self._compiled = {common: _compiled(python_pattern(parsed.tree, common))}

    def _for(self, text: str) -> re.Pattern[str]:
        """Returns the pattern for a text, which depends on the text's characters if a word's edge is to be found."""
        alphabet = alphabet_of(text) if self._has_word_edges else Alphabet.EVERY
        if alphabet not in self._compiled:
            self._compiled[alphabet] = _compiled(python_pattern(self._tree, alphabet))
        return self._compiled[alphabet]

    @cached_property
    def literal(self) -> str | None:
        """The text that the pattern is, if it has no other meaning."""
        return _literal(self._tree)

    @cached_property
    def re2_search(self) -> Re2Pattern | None:
        """A pattern of RE2 that occurs in the same texts, or None."""
        return re2_form.re2_search(self._tree)

    @cached_property
    def re2_matches(self) -> Re2Pattern | None:
        """A pattern of RE2 with the same matches and groups, or None."""
        return re2_form.re2_matches(self._tree)

    def re2_group(self, number: int) -> Re2Pattern | None:
        """Returns a pattern of RE2 that captures just this group, 0 for the whole match, or None."""
        return re2_form.re2_group(self._tree, number) if 0 <= number <= self.groups else None

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Returns the first match, in a text that may have halves of surrogate pairs then (see `joined`)."""
        pattern = self._for(text)
        found = pattern.search(text, start)
        if self._skips_pairs or text.isascii():
            return found
        # Java looks between the halves too. It finds more there only behind a place or a look-behind.
        for place in range(start, len(text) if found is None else found.start()):
            if text[place] > _BMP_LAST and (inside := pattern.match(_split_at(text, place), place + 1)):
                return inside
        return found

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Returns the matches as Java's find() gives them one after the other.

        After an empty match Java goes on one UTF-16 unit further, also between the halves of a surrogate pair. Then
        the text of the following matches has two characters there; `joined` makes one of them again.
        """
        if not self._can_be_empty and (self._skips_pairs or text.isascii()):
            yield from self._for(text).finditer(text)
            return
        start = 0
        while start <= len(text):
            found = self.search(text, start)
            if found is None:
                return
            yield found
            text, start = found.string, found.end()
            if found.start() == start:
                if text[start : start + 1] > _BMP_LAST:
                    text = _split_at(text, start)
                start += 1

    def replaced(self, text: str, fill: Callable[[re.Match[str]], str]) -> str:
        """Returns the text with every match replaced by what `fill` returns for it."""
        parts, last, whole = [], 0, text
        for found in self.matches(text):
            whole = found.string
            parts += [whole[last : found.start()], fill(found)]
            last = found.end()
        return joined("".join(parts) + whole[last:]) if parts else text


@lru_cache(maxsize=4_096)
def java_pattern(text: str) -> JavaPattern:
    """Returns the pattern. Raises BadPattern or UnsupportedPattern."""
    return JavaPattern(text)


def joined(text: str) -> str:
    """Returns a text with halves of surrogate pairs as Java writes it: two halves are one character, one is a ?."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return "".join("?" if "\ud800" <= char <= "\udfff" else char for char in whole)


def _split_at(text: str, place: int) -> str:
    """Returns the text with two halves of a surrogate pair instead of the character at a place."""
    units = text[place].encode("utf-16-be")
    halves = chr(int.from_bytes(units[:2], "big")) + chr(int.from_bytes(units[2:], "big"))
    return text[:place] + halves + text[place + 1 :]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnsupportedPattern(f"this form ({error})") from None


def _literal(tree: Part) -> str | None:
    parts = tree.parts if isinstance(tree, Sequence) else (tree,)
    points = [part.ranges[0][0] for part in parts if isinstance(part, Chars) and _is_one(part)]
    return "".join(map(chr, points)) if len(points) == len(parts) else None


def _is_one(part: Chars) -> bool:
    return len(part.ranges) == 1 and part.ranges[0][0] == part.ranges[0][1]
