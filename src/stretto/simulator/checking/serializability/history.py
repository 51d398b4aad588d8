"""What is recorded of a transaction: its operations in their order, how it ended, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from stretto.errors import UserError

Value = int


@dataclass(frozen=True, slots=True)
class Append:
    """The value was appended to the list of the key. No two appends to one key have equal values."""

    key: str
    value: Value


@dataclass(frozen=True, slots=True)
class Read:
    """The whole list of the key was read."""

    key: str
    values: tuple[Value, ...]


class Outcome(Enum):
    """How a transaction ended, as its client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """No answer came. It counts as committed if somebody has read what it appended; its own reads do not count."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction as its client saw it. It took effect, if at all, between `began` and `ended`, in any unit."""

    name: str
    operations: tuple[Append | Read, ...]
    outcome: Outcome = Outcome.COMMITTED
    began: int = 0
    ended: int | None = None
    """None: no end is known, so that it may be after any other transaction in real time."""

    def appended(self) -> dict[str, list[Value]]:
        """Returns the values that it appended to each key, in order."""
        found: dict[str, list[Value]] = {}
        for operation in self.operations:
            if isinstance(operation, Append):
                found.setdefault(operation.key, []).append(operation.value)
        return found


@dataclass(frozen=True, slots=True)
class External:
    """What a transaction read of a key without its own appends: the list as other transactions left it."""

    reader: Transaction
    key: str
    values: tuple[Value, ...]


def external_reads(reader: Transaction) -> Iterator[External | str]:
    """Returns the first read of each key without the transaction's own appends; a text for each read that contradicts
    an earlier one, or the transaction's own appends."""
    own: dict[str, tuple[Value, ...]] = {}
    seen: dict[str, tuple[Value, ...]] = {}
    for operation in reader.operations:
        key = operation.key
        mine = own.get(key, ())
        if isinstance(operation, Append):
            own[key] = (*mine, operation.value)
            continue
        split = len(operation.values) - len(mine)
        if split < 0 or operation.values[split:] != mine:
            yield f"{reader.name} read {key} as {list(operation.values)} after it had appended {list(mine)} itself"
        elif key not in seen:
            seen[key] = operation.values[:split]
            yield External(reader, key, seen[key])
        elif operation.values[:split] != seen[key]:
            yield f"{reader.name} read {key} as {list(operation.values)} and, before, as {[*seen[key], *mine]}"


def writers_of(history: Sequence[Transaction]) -> dict[tuple[str, Value], Transaction]:
    """Returns who appended each value. A history in which two did cannot be checked."""
    found: dict[tuple[str, Value], Transaction] = {}
    for transaction in history:
        for operation in transaction.operations:
            if isinstance(operation, Append):
                place = operation.key, operation.value
                if place in found:
                    names = f"by {found[place].name} and by {transaction.name}"
                    raise UserError(
                        "the history cannot be checked",
                        f"{operation.value} was appended to {operation.key} twice, {names}",
                        "Append a value to a key only once.",
                    )
                found[place] = transaction
    return found
