"""Java's replacement texts: $1 and ${name} are groups, a backslash takes the meaning of what follows away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


class BadReplacement(Exception):
    """A text that is no replacement for this pattern."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The parts of a replacement: texts, and the numbers of groups."""

    parts: tuple[str | int, ...]

    def fill(self, found: re.Match[str]) -> str:
        """Returns the text that replaces a match; a group that took no part is empty."""
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.parts)

    @property
    def re2(self) -> str:
        """The same for RE2."""
        return "".join(part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{part}" for part in self.parts)

    @property
    def literal(self) -> str | None:
        """The text, if it has no group."""
        return None if any(isinstance(part, int) for part in self.parts) else "".join(map(str, self.parts))

    @property
    def fits_re2(self) -> bool:
        """Whether RE2 can name all groups; it knows those of one digit."""
        return all(isinstance(part, str) or part < 10 for part in self.parts)


def parse_replacement(text: str, groups: int, names: Mapping[str, int]) -> Replacement:
    """Returns the parts of a replacement for a pattern with so many groups and these names."""
    parts: list[str | int] = []
    place = 0
    while place < len(text):
        char = text[place]
        place += 1
        if char == "\\":
            if place == len(text):
                raise BadReplacement("it ends in a backslash")
            parts.append(text[place])
            place += 1
        elif char == "$":
            number, place = _reference(text, place, groups, names)
            parts.append(number)
        else:
            parts.append(char)
    return Replacement(tuple(parts))


def _reference(text: str, place: int, groups: int, names: Mapping[str, int]) -> tuple[int, int]:
    """Returns the number of a group, and the place behind it."""
    if text[place : place + 1] == "{":
        end = text.find("}", place)
        name = text[place + 1 : end]
        if end < 0 or name not in names:
            raise BadReplacement(f"there is no group {name!r}")
        return names[name], end + 1
    digit = text[place : place + 1]
    if not (digit.isascii() and digit.isdigit()):
        raise BadReplacement("a $ without the number of a group; write \\$ for the sign itself")
    number = int(digit)
    if number > groups:
        raise BadReplacement(f"there is no group {number}")
    place += 1
    while text[place : place + 1] in set("0123456789") and number * 10 + int(text[place]) <= groups:
        number = number * 10 + int(text[place])
        place += 1
    return number, place
