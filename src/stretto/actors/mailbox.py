"""The messages that wait at one instance, the most urgent first; those of one channel stay in their order.

Most arrive in the order in which they are to run, and are in a deque. Those that are more urgent than the end of the
deque are in a heap, so the usual case costs what a deque costs. Messages ahead of an urgent one on the same channel
must run before it, so they become as urgent.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stretto.actors.channel import InChannel, Message
from stretto.actors.deadlines import AT_ONCE

if TYPE_CHECKING:
    from stretto.actors.work import Work

Entry = tuple[float, int, Any]
"""The urgency, the number in the order of arrival, and the work."""


class Mailbox:
    """Work by urgency, the smallest value first; work of equal urgency in its order of arrival. `count` is its length,
    as a plain attribute for the hot path."""

    __slots__ = ("_early", "_line", "_placed", "count")

    def __init__(self) -> None:
        self._line: deque[Entry] = deque()
        self._early: list[Entry] = []
        self._placed = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Work]:
        """Iterates over all work, in the order in which it would run."""
        return (entry[2] for entry in sorted((*self._line, *self._early)))

    @property
    def first(self) -> Entry:
        """The entry that runs next."""
        line, early = self._line, self._early
        return early[0] if early and (not line or early[0] < line[0]) else line[0]

    @property
    def first_is_message(self) -> bool:
        """Whether what runs next is a message, and no errand."""
        return self.count > 0 and type(self.first[2]) is Message

    def append(self, work: Work, urgency: float = AT_ONCE) -> None:
        """Adds an errand; by default it runs at once."""
        self._insert(work, urgency)

    def append_message(self, message: Message, urgency: float) -> bool:
        """Adds a message, and returns whether what runs next may have changed.

        It runs after the earlier messages of its channel. (One that a lessee refused comes a second time and may run at
        any time: a barrier waits for it.)"""
        channel = message.channel
        if urgency >= channel.urgency:
            channel.urgency = urgency
        elif urgency != AT_ONCE and message.seq == channel.received:
            self._hurry(channel, urgency)
            channel.urgency = urgency
        return self._insert(message, urgency)

    def popleft(self) -> Work:
        """Removes and returns the work that runs next."""
        if self._early:
            return self.pop_entry()[2]  # type: ignore[no-any-return]
        self.count -= 1
        work: Work = self._line.popleft()[2]
        return work

    def pop_entry(self) -> Entry:
        """Removes and returns the entry that runs next, so that it can be put back."""
        line, early = self._line, self._early
        self.count -= 1
        return heapq.heappop(early) if early and (not line or early[0] < line[0]) else line.popleft()

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Puts messages back in their former places; `entries` are in the order of removal. They become as urgent as
        the most urgent later message of their channel, here or among them."""
        least: dict[InChannel, float] = {}
        for urgency, _, work in (*self._line, *self._early):
            if isinstance(work, Message):
                least[work.channel] = min(urgency, least.get(work.channel, urgency))
        for urgency, place, message in reversed(entries):
            urgency = least[message.channel] = min(urgency, least.get(message.channel, urgency))
            heapq.heappush(self._early, (urgency, place, message))
            self.count += 1

    def holds(self, message: Message) -> bool:
        """Whether a message waits here."""
        return any(entry[2] is message for entry in (*self._line, *self._early))

    def remove(self, work: Work) -> None:
        """Removes one piece of work."""
        self._line = deque(entry for entry in self._line if entry[2] is not work)
        self._early = [entry for entry in self._early if entry[2] is not work]
        heapq.heapify(self._early)
        self.count = len(self._line) + len(self._early)

    def clear(self) -> None:
        """Removes all work."""
        self._line.clear()
        self._early.clear()
        self.count = 0

    def _insert(self, work: Work, urgency: float) -> bool:
        self._placed = place = self._placed + 1
        self.count = count = self.count + 1
        line = self._line
        if not line or urgency >= line[-1][0]:
            line.append((urgency, place, work))
            return count == 1
        heapq.heappush(self._early, (urgency, place, work))
        return True

    def _hurry(self, channel: InChannel, urgency: float) -> None:
        """Makes the waiting messages of a channel at least this urgent."""
        entries = sorted(_hurried(entry, channel, urgency) for entry in (*self._line, *self._early))
        self._line, self._early = deque(entries), []


def _hurried(entry: Entry, channel: InChannel, urgency: float) -> Entry:
    message = entry[2]
    if entry[0] <= urgency or not isinstance(message, Message) or message.channel is not channel:
        return entry
    message.deadline_ns = min(message.deadline_ns, int(urgency))
    return urgency, entry[1], message
