"""The text of a script, and errors with the line and the column of what they are about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stretto.errors import SqlError, UserError

SHOWN = 60
"""So many characters of a statement are quoted in an error."""


_REMEDIES = {
    "has no key": "Add an equality of both sides, such as ON a.id = b.id.",
    "is an aggregate in": "Write HAVING for a condition on groups, and GROUP BY for the groups.",
    "their columns differ": "Write CAST(... AS type), so that columns at one place have one type.",
    "a query after": "Write LEFT SEMI JOIN ... ON, or LEFT ANTI JOIN for NOT IN.",
    "two columns are named": "Name one of them: AS name.",
    "cannot be an": "Bound the time of both sides by constants, such as b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR.",
    "in windows cannot follow": "Rank or group the rows before they change.",
    "drop_duplicates cannot follow": "Write GROUP BY instead of DISTINCT.",
    "interval_join cannot follow": "Join the rows before they are aggregated.",
    "window cannot follow": "Group by a window before the aggregate without one.",
}
"""What to write in SQL where the error of a verb says what to write in Python, by a part of its fact."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text: an expression, for example, and where it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Script:
    """The whole text. Places in it are offsets of characters."""

    text: str

    def place(self, start: int) -> str:
        """Returns the line and the column of a place, counted from 1, and what is there."""
        start = min(start, len(self.text))
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        near = " ".join(self.text[start : start + SHOWN].split("\n")[0].split())
        return f"line {line}, column {column}" + (f", near {near!r}" if near else "")

    def error(self, start: int, fact: str, fix: str | None = None, detail: str | None = None) -> SqlError:
        """Returns an error about a place."""
        return SqlError(fact, self.place(start) + (f"; {detail}" if detail else ""), fix)

    @contextmanager
    def at(self, start: int) -> Iterator[None]:
        """Errors of expressions and verbs inside of this block get the place of the text that they are about."""
        try:
            yield
        except SqlError:
            raise
        except UserError as error:
            remedy = next((fix for part, fix in _REMEDIES.items() if part in error.fact), error.fix)
            raise self.error(start, error.fact, remedy, error.detail) from error
