"""The copies that one worker has of shared objects, the least recently used of which it forgets.

What a copy says was so at its home at some moment after it was asked for, so its age counts from the asking, by this
worker's own clock. Over it come the writes of this worker that its home has not confirmed: whoever writes here reads
here what was written. A copy that somebody waits to use is not forgotten.

A home confirms writes by the number of the last one that it has made for each writer. What is confirmed is a part of
all copies that are asked for later; of earlier ones it becomes a part here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import NamedTuple

from stretto.sharing.contents import ObjectContent, Write, written
from stretto.sharing.freshness import Freshness

Place = tuple[int, str]
"""The partition of a home, and a writer."""


class Copy:
    """What this worker knows of an object: its content and version at its home, and when that was asked for. `users`
    wait to use it. Once `outdated`, it is not given to others, and if it is `uncertain`, not used at all."""

    __slots__ = ("asked_ns", "content", "outdated", "uncertain", "users", "version")

    def __init__(self, content: ObjectContent | None, version: int, asked_ns: int) -> None:
        self.content = content
        self.version = version
        self.asked_ns = asked_ns
        self.users = 0
        self.outdated = False
        self.uncertain = False


class Unconfirmed(NamedTuple):
    """A write that is on its way to its home."""

    number: int
    name: str
    write: Write


class Cache:
    """Copies of the objects of one space."""

    def __init__(self, objects_max: int) -> None:
        self._objects_max = objects_max
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._ways: dict[Place, deque[Unconfirmed]] = {}
        self._own: dict[str, list[Write]] = {}
        """Unconfirmed writes by object, in their order."""
        self._confirmed: dict[Place, int] = {}
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._copies)

    # Reading.

    def find(self, name: str, freshness: Freshness, taken_ns: int) -> Copy | None:
        """Returns a copy that a batch which was taken up then may use, if there is one, and counts it as used."""
        copy = self._copies.get(name)
        if copy is None or copy.outdated or not freshness.allows(copy.asked_ns, taken_ns):
            self.misses += 1
            return None
        self.hits += 1
        self._copies.move_to_end(name)
        copy.users += 1
        return copy

    def take_in(self, name: str, content: ObjectContent | None, version: int, asked_ns: int) -> Copy:
        """An object has come from its home. Returns the copy, which is the one here if that is newer."""
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = Copy(content, version, asked_ns)
        elif version >= copy.version:
            copy.content, copy.version = content, version
            copy.asked_ns = max(asked_ns, copy.asked_ns)
            copy.outdated = copy.uncertain = False
        self._copies.move_to_end(name)
        return copy

    def copy_of(self, name: str) -> Copy:
        """Returns the copy of an object that has just come."""
        return self._copies[name]

    def seen(self, name: str, copy: Copy) -> ObjectContent | None:
        """Returns what a batch sees of an object: the copy, and what was written here since."""
        content = copy.content
        for write in self._own.get(name, ()):
            content = written(name, content, write)
        return content

    def release(self, name: str, copy: Copy) -> None:
        """Somebody does not need a copy any more."""
        copy.users -= 1
        if copy.outdated and not copy.users and self._copies.get(name) is copy:
            del self._copies[name]

    def trim(self) -> None:
        """Forgets the least recently used copies that are too many."""
        surplus = len(self._copies) - self._objects_max
        if surplus <= 0:
            return
        for name in [name for name, copy in self._copies.items() if not copy.users][:surplus]:
            del self._copies[name]

    # Writing.

    def wrote(self, place: Place, number: int, name: str, write: Write, freshness: Freshness) -> None:
        """A function here has written, and the write is on its way."""
        if freshness.drops_written:
            self.outdate(name)
        if number <= self._confirmed.get(place, 0):
            return
        self._ways.setdefault(place, deque()).append(Unconfirmed(number, name, write))
        self._own.setdefault(name, []).append(write)

    def made(self, name: str, write: Write, freshness: Freshness, again: bool) -> None:
        """A function here has written, and a server has confirmed it. If it had made that write before and did not
        make it `again`, the copy may have it or not, and is not used."""
        if freshness.drops_written or again:
            self.outdate(name)
        copy = self._copies.get(name)
        if copy is not None and again:
            copy.uncertain = True
        elif copy is not None:
            copy.content = written(name, copy.content, write)

    def confirm(self, partition: int, applied: Mapping[str, int], included: Mapping[str, int]) -> None:
        """A home has made these writes. They are in the copies of the objects that it has just sent, with their
        versions, and become a part of other copies here."""
        for writer, number in applied.items():
            place = partition, writer
            self._confirmed[place] = max(number, self._confirmed.get(place, 0))
            way = self._ways.get(place)
            while way and way[0].number <= number:
                done = way.popleft()
                self._forget(done)
                copy = self._copies.get(done.name)
                if copy is not None and copy.version != included.get(done.name):
                    self._include(done.name, done.write)
            if way is not None and not way:
                del self._ways[place]

    def predates(self, partition: int, applied: Mapping[str, int]) -> bool:
        """Whether an answer is from before what its home has confirmed since: it may lack writes that nothing here
        would add to it any more. Answers overtake each other only where a connection was made again."""
        return any(
            applied.get(writer, 0) < number for (at, writer), number in self._confirmed.items() if at == partition
        )

    def unconfirmed(self, partition: int) -> int:
        """Returns how many writes to a home are not confirmed."""
        return sum(len(way) for (at, _), way in self._ways.items() if at == partition)

    def _forget(self, done: Unconfirmed) -> None:
        left = [write for write in self._own[done.name] if write is not done.write]
        if left:
            self._own[done.name] = left
        else:
            del self._own[done.name]

    def _include(self, name: str, write: Write) -> None:
        copy = self._copies.get(name)
        if copy is not None:
            copy.content = written(name, copy.content, write)

    def outdate(self, name: str) -> None:
        """Gives a copy to nobody else: it was written here."""
        copy = self._copies.get(name)
        if copy is None:
            return
        copy.outdated = True
        if not copy.users:
            del self._copies[name]
