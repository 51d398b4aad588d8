"""The order in which each list grew, as far as it was seen.

Lists only grow, so every list that was read is the beginning of every longer one, and the longest says the order of its
elements. An append that nobody has seen comes after all elements of the longest list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.serializability.history import External, Outcome, Transaction, Value

Writers = Mapping[tuple[str, Value], Transaction]


class Misread(StrEnum):
    """What is wrong with a single list, or with two of one key."""

    INTERNAL = "internal"
    """A transaction does not see its own appends, or reads a list twice and sees two."""
    DUPLICATE = "duplicate"
    """An element is in a list twice."""
    PHANTOM = "phantom"
    """An element that nobody appended."""
    INCOMPATIBLE = "incompatible-order"
    """Of two lists, neither is the beginning of the other."""
    REORDERED = "reordered"
    """Two appends of one transaction are in a list in the other order, or only the second one is."""
    G1A = "G1a"
    """An element of a transaction that was aborted."""
    G1B = "G1b"
    """A list as it was in the middle of another transaction."""
    LOST = "lost-append"
    """An append that had been acknowledged before a later transaction began, which does not see it."""


@dataclass
class Lists:
    """The longest list of each key, and the appends that count as committed but were never seen."""

    longest: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    unseen: dict[str, list[Transaction]] = field(default_factory=dict)
    took_effect: list[Transaction] = field(default_factory=list)


def lists_of(history: Sequence[Transaction], reads: Sequence[External], writers: Writers) -> Lists:
    """Returns what the reads say about the order of each list."""
    lists = Lists()
    for read in reads:
        if len(read.values) > len(lists.longest.get(read.key, ())):
            lists.longest[read.key] = read.values
    seen = {(key, value) for key, values in lists.longest.items() for value in values}
    known = {writers[place].name for place in seen if place in writers}
    for transaction in history:
        if transaction.outcome is Outcome.COMMITTED or (
            transaction.outcome is Outcome.UNKNOWN and transaction.name in known
        ):
            lists.took_effect.append(transaction)
            for key, values in transaction.appended().items():
                if any((key, value) not in seen for value in values):
                    lists.unseen.setdefault(key, []).append(transaction)
    return lists


def misreads(reads: Sequence[External], lists: Lists, writers: Writers) -> Iterator[Violation]:
    """Returns what is wrong with lists, without regard to the order of transactions."""
    for read in reads:
        yield from _in_one_list(read, writers)
        longest = lists.longest.get(read.key, ())
        if longest[: len(read.values)] != read.values:
            text = f"{_shown(read)}, and another transaction as {list(longest)}"
            yield Violation(Misread.INCOMPATIBLE, text)
    for transaction in lists.took_effect:
        yield from _out_of_order(transaction, lists)
        yield from _lost(transaction, reads)


def _in_one_list(read: External, writers: Writers) -> Iterator[Violation]:
    for value, times in Counter(read.values).items():
        if times > 1:
            yield Violation(Misread.DUPLICATE, f"{_shown(read)}: {value} is there {times} times")
        writer = writers.get((read.key, value))
        if writer is None:
            yield Violation(Misread.PHANTOM, f"{_shown(read)}: nobody appended {value}")
        elif writer is read.reader:
            yield Violation(Misread.INTERNAL, f"{_shown(read)} before it appended {value} itself")
        elif writer.outcome is Outcome.ABORTED:
            yield Violation(Misread.G1A, f"{_shown(read)}: {value} is of {writer.name}, which was aborted")
    if read.values:
        writer = writers.get((read.key, read.values[-1]))
        if writer is not None and writer.appended()[read.key][-1] != read.values[-1]:
            text = f"{writer.name} appended {writer.appended()[read.key]}"
            yield Violation(Misread.G1B, f"{_shown(read)}, in the middle of a transaction: {text}")


def _out_of_order(transaction: Transaction, lists: Lists) -> Iterator[Violation]:
    for key, values in transaction.appended().items():
        longest = lists.longest.get(key, ())
        places = [longest.index(value) if value in longest else len(longest) for value in values]
        if places != sorted(places):
            yield Violation(
                Misread.REORDERED, f"{transaction.name} appended {values} to {key}, which became {list(longest)}"
            )


def _lost(writer: Transaction, reads: Sequence[External]) -> Iterator[Violation]:
    if writer.ended is None or writer.outcome is not Outcome.COMMITTED:
        return
    appended = writer.appended()
    for read in reads:
        if writer.ended < read.reader.began:
            for value in appended.get(read.key, ()):
                if value not in read.values:
                    yield Violation(Misread.LOST, f"{_shown(read)}, after {writer.name} had appended {value}")


def _shown(read: External) -> str:
    return f"{read.reader.name} read {read.key} as {list(read.values)}"
