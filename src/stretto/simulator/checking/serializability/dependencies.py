"""Which transaction must come before which (Adya's dependencies, and real time), each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from stretto.simulator.checking.serializability.history import External, Transaction, Value
from stretto.simulator.checking.serializability.versions import Lists, Writers


class Kind(Enum):
    """Why one transaction comes before another one."""

    WW = "ww"
    """The other one appended to a list that this one had appended to."""
    WR = "wr"
    """The other one read what this one appended."""
    RW = "rw"
    """The other one appended to a list after this one had read it."""
    REAL_TIME = "rt"
    """The other one began after this one had ended."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """`before` comes before `after` in every serial order that explains the history."""

    before: str
    after: str
    kind: Kind
    reason: str


def dependencies_of(reads: Sequence[External], lists: Lists, writers: Writers) -> Iterator[Dependency]:
    """Returns the dependencies that the lists show. Those that follow from others by transitivity are left out."""
    for key, values in lists.longest.items():
        yield from _between_writers(key, values, writers)
    for key, hidden in lists.unseen.items():
        yield from _to_unseen(key, hidden, lists.longest.get(key, ()), writers)
    for read in reads:
        yield from _of_read(read, lists, writers)


def _between_writers(key: str, values: tuple[Value, ...], writers: Writers) -> Iterator[Dependency]:
    for one, other in pairwise(values):
        before, after = writers.get((key, one)), writers.get((key, other))
        if before is not None and after is not None and before is not after:
            yield Dependency(before.name, after.name, Kind.WW, f"{key}: {one} then {other}")


def _to_unseen(
    key: str, hidden: Sequence[Transaction], longest: tuple[Value, ...], writers: Writers
) -> Iterator[Dependency]:
    last = writers.get((key, longest[-1])) if longest else None
    for writer in hidden:
        if last is not None and last is not writer:
            text = f"{key}: {longest[-1]}, then an append of {writer.name} that nobody has read"
            yield Dependency(last.name, writer.name, Kind.WW, text)


def _of_read(read: External, lists: Lists, writers: Writers) -> Iterator[Dependency]:
    reader, key, values = read.reader, read.key, read.values
    if values:
        writer = writers.get((key, values[-1]))
        if writer is not None and writer is not reader:
            yield Dependency(writer.name, reader.name, Kind.WR, f"{key}: {values[-1]} was read")
    longest = lists.longest.get(key, ())
    if len(values) < len(longest):
        writer = writers.get((key, longest[len(values)]))
        if writer is not None and writer is not reader:
            text = f"{key}: read as {list(values)}, then {longest[len(values)]}"
            yield Dependency(reader.name, writer.name, Kind.RW, text)
    for writer in lists.unseen.get(key, ()):
        # Also for a shorter list: its next element may be the reader's own, which says nothing.
        if writer is not reader:
            text = f"{key}: read as {list(values)}, without an append of {writer.name}"
            yield Dependency(reader.name, writer.name, Kind.RW, text)


def real_time(history: Sequence[Transaction]) -> Iterator[Dependency]:
    """Returns who ended before whom began, without what follows by transitivity: a transaction gets edges from those
    that have ended and that no other one which has ended comes after."""
    began = [(transaction.began, 1, number) for number, transaction in enumerate(history)]
    ended = [(one.ended, 2, number) for number, one in enumerate(history) if one.ended is not None]
    latest: dict[int, None] = {}
    before: dict[int, list[int]] = {}
    for _, kind, number in sorted(began + ended):
        if kind == 1:
            before[number] = list(latest)
            for other in before[number]:
                yield Dependency(history[other].name, history[number].name, Kind.REAL_TIME, "ended before it began")
        else:
            for other in before[number]:
                latest.pop(other, None)
            latest[number] = None
