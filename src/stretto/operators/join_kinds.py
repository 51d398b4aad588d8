"""The kinds of joins: which rows they send, and which rows must be remembered as matched."""

from __future__ import annotations

from enum import Enum

from stretto.errors import PlanError


class JoinKind(Enum):
    """What a join sends besides, or instead of, pairs of rows that match."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def sends_pairs(self) -> bool:
        return self not in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def tracks_left(self) -> bool:
        """Whether it matters which left rows have had a match."""
        return self not in (JoinKind.INNER, JoinKind.RIGHT)

    @property
    def tracks_right(self) -> bool:
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def is_outer(self) -> bool:
        """Whether rows without a match are sent, once none can come any more."""
        return self not in (JoinKind.INNER, JoinKind.SEMI)

    @classmethod
    def named(cls, how: str, verb: str) -> JoinKind:
        """Returns the kind of a name, in any of PySpark's spellings."""
        plain = how.lower().replace("_", "").replace(" ", "")
        kind = _SPELLINGS.get(plain)
        if kind is not None:
            return kind
        if plain == "cross":
            raise PlanError(
                f"{verb} cannot be a cross join",
                f"how={how!r}: without a key, all rows would have to be in one place",
                "Join on a key that both inputs have.",
            )
        raise PlanError(
            f"{verb} does not know this kind of join",
            f"how={how!r}",
            'Write "inner", "left", "right", "full", "semi" or "anti".',
        )


_SPELLINGS = {
    "inner": JoinKind.INNER,
    "left": JoinKind.LEFT,
    "leftouter": JoinKind.LEFT,
    "right": JoinKind.RIGHT,
    "rightouter": JoinKind.RIGHT,
    "full": JoinKind.FULL,
    "outer": JoinKind.FULL,
    "fullouter": JoinKind.FULL,
    "semi": JoinKind.SEMI,
    "leftsemi": JoinKind.SEMI,
    "anti": JoinKind.ANTI,
    "leftanti": JoinKind.ANTI,
}
