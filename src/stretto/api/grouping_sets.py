"""`rollup`, `cube` and `grouping_sets`: an aggregate for each of several sets of keys at once.

As in Spark, each row is copied once for each set. A copy has the keys of its set, NULL in place of the others, and the
number of its set: a bit for each key, 1 if the key is not in the set. An ordinary aggregate by the keys and the number
follows. So every engine runs it, with the same state, partitions and checkpoints as any other aggregate.

The keys of copies are columns of their own, since aggregates read the columns as they were: `sum(price)` by
`rollup("price")` is over all prices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from stretto.api.columns import flat
from stretto.api.grouping import keys_of
from stretto.api.step import Step
from stretto.errors import ExpressionError, PlanError
from stretto.expressions.aggregate_texts import CallText
from stretto.expressions.scalar import quoted

SETS_MAX = 128
"""Each batch becomes so many times as long."""
KEYS_MAX = 63
"""Each key is a bit of a bigint."""

_KEY = "__grouped_"
_ID = "__grouping_id"


@dataclass(frozen=True)
class GroupingSets:
    """The keys of all sets, and the columns that have them after rows are copied."""

    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to aggregate by: the keys of each copy, and the number of its set."""
        return (*(f"{_KEY}{key}" for key in self.keys), _ID)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of these columns in a select after the aggregate."""
        return (*self.keys, _ID)

    def expression(self, call: CallText) -> str:
        """Returns what grouping(key) or grouping_id() means over those names."""
        if call.distinct or call.condition or call.order:
            raise ExpressionError(
                f"{call.name} takes columns and nothing else", f"in {call.text!r}", "write grouping(column)"
            )
        places = [self._place(text, call) for text in call.arguments]
        if call.name == "grouping_id":
            if places and places != list(range(len(self.keys))):
                raise ExpressionError(
                    "the columns of grouping_id are not the keys",
                    f"in {call.text!r}; the keys are {', '.join(self.keys)}",
                    "write grouping_id()",
                )
            return quoted(_ID)
        if len(places) != 1:
            raise ExpressionError("grouping takes one column", f"in {call.text!r}", f"write grouping({self.keys[0]})")
        return f"CAST(shiftright({quoted(_ID)}, {len(self.keys) - 1 - places[0]}) & 1L AS TINYINT)"

    def _place(self, text: str, call: CallText) -> int:
        found = _found(text.strip().strip("`"), self.keys)
        if found is None:
            raise ExpressionError(
                f"{text.strip()!r} is not a key", f"in {call.text!r}", f"the keys are {', '.join(self.keys)}"
            )
        return found


def rolled_up(keys: Sequence[str]) -> list[Sequence[str]]:
    """Returns the sets of a rollup: all keys, all but the last, and so on, and none."""
    return [keys[:count] for count in range(len(keys), -1, -1)]


def cubed(keys: Sequence[str]) -> list[Sequence[str]]:
    """Returns the sets of a cube: all subsets."""
    if 2 ** len(keys) > SETS_MAX:
        raise PlanError(
            f"a cube of {len(keys)} columns has {2 ** len(keys):,} sets",
            f"each row would be copied as often, and the limit is {SETS_MAX}",
            "Name the sets that are needed: grouping_sets([[...], ...]).",
        )
    return [chosen for count in range(len(keys), -1, -1) for chosen in combinations(keys, count)]


def copied(step: Step, verb: str, texts: Sequence[str], sets: Sequence[Sequence[str]]) -> tuple[Step, GroupingSets]:
    """Returns the rows of a stream once for each set, with its keys. `texts` are all keys, and sets consist of them."""
    subject = f"{verb} on '{step.name}'"
    step.only_added(verb)
    if not texts or not sets:
        raise PlanError(f"{subject} names no column", None, "Name at least one column.")
    keys, added = keys_of(subject, step.schema, texts)
    places = [_places(subject, each, texts, keys) for each in sets]
    _check(subject, keys, places)
    if added is not None:
        step = step.projected(verb, added, None, None)
    found = GroupingSets(tuple(keys))
    for column in found.columns:
        if column in step.schema.names:
            raise PlanError(f"{subject}: a column has the name '{column}'", "that name is reserved", "Rename it.")
    rows = [cell for members in places for cell in _row(keys, members)]
    names = ", ".join(map(quoted, found.columns))
    return step.projected(verb, ["*", f"stack({len(sets)}, {', '.join(rows)}) AS ({names})"], None, None), found


def keys_in(sets: Iterable[Sequence[str] | str], columns: Sequence[str | Sequence[str]]) -> list[str]:
    """Returns the keys of sets: the columns, if they are named, else those of the sets in their order."""
    return flat(columns) or list(dict.fromkeys(text for each in sets for text in flat([each])))


def _row(keys: Sequence[str], members: frozenset[int]) -> list[str]:
    """Returns the cells of a copy: its keys, and the number of its set."""
    number = sum(1 << (len(keys) - 1 - place) for place in range(len(keys)) if place not in members)
    return [*(quoted(key) if place in members else "NULL" for place, key in enumerate(keys)), f"{number}L"]


def _places(subject: str, members: Sequence[str], texts: Sequence[str], keys: Sequence[str]) -> frozenset[int]:
    found = set()
    for text in members:
        place = _found(text, texts)
        if place is None:
            place = _found(text, keys)
        if place is None:
            raise PlanError(
                f"{subject}: {text!r} of a set is not among the columns", ", ".join(keys), "Add it to them."
            )
        found.add(place)
    return frozenset(found)


def _found(text: str, names: Sequence[str]) -> int | None:
    lower = [name.lower() for name in names]
    return lower.index(text.lower()) if text.lower() in lower else None


def _check(subject: str, keys: Sequence[str], sets: Sequence[frozenset[int]]) -> None:
    if len(set(map(str.lower, keys))) < len(keys):
        raise PlanError(f"{subject} names a column twice", ", ".join(keys), "Name each one once.")
    if len(keys) > KEYS_MAX or len(sets) > SETS_MAX:
        raise PlanError(
            f"{subject} has {len(keys)} columns and {len(sets)} sets",
            f"the limits are {KEYS_MAX} columns and {SETS_MAX} sets, since each row is copied for each set",
            "Aggregate by fewer at once.",
        )
    if len(set(sets)) < len(sets):
        raise PlanError(f"{subject} has the same set twice", None, "Name each one once.")
    unused = [key for place, key in enumerate(keys) if not any(place in members for members in sets)]
    if unused:
        raise PlanError(f"{subject}: no set has {', '.join(unused)}", "it would be NULL in every row", "Leave it out.")
