"""Optimistic offloading: every message goes to its actor's home, which sends on what would be late (thesis 6.6.2).

Forward-first strategies send the message itself, in one round trip at most. Check-first strategies ask before they
send, which takes two.
"""

from __future__ import annotations

from typing import Any

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.scheduling.strategy import Desk, Strategy, seeded_random

FORGOTTEN_AFTER_NS = 50_000_000
"""A worker that has left does not reply: a search that is so old is given up."""
ASKED_MAX = 32
"""How many messages one search is about, at most."""


class Offloading(Strategy):
    """What they have in common. `random_lessee`: to whom by lot, else to whom least is under way."""

    tracks = True

    def __init__(self, random_lessee: bool = True, seed: int = 0) -> None:
        self._seed = seed
        self._random_lessee = random_lessee

    def bind(self, desk: Desk) -> None:
        super().bind(desk)
        self._random = seeded_random(desk, self._seed)

    def lessee(self, lessor: Seat, candidates: list[str]) -> str:
        """Who gets it."""
        if self._random_lessee:
            return self._random.choice(candidates)
        return min(candidates, key=lambda member: self.desk.busy(lessor, member))

    def accept(self, lessee: Seat, message: Message) -> bool:
        return self.desk.admits(message.deadline_ns, lessee.cost_ns)


class RejectLate(Offloading):
    """1RTT-RejectSend: what cannot start in time here, or would make others late, never enters the queue."""

    def __init__(self, force_migrate: bool = True, random_lessee: bool = True, seed: int = 0) -> None:
        super().__init__(random_lessee, seed)
        self.force_migrate = force_migrate

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        if not candidates or self.desk.admits(message.deadline_ns, lessor.cost_ns):
            return None
        return self.lessee(lessor, candidates)


class Anticipate(Offloading):
    """Like RejectLate, before it is too late: what would wait at home for more than a part of the time that it has.

    The rest of its time is for another worker's queue, and for those that come later in the same window: they have less
    time, and find the same queue. Of the workers that owe this one the fewest answers two are drawn, and the one that
    is home to fewer actors gets it; if even they owe as much as is to be done here, it stays."""

    def __init__(self, patience: float = 0.1, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._patience = patience

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        ahead_ns = self.desk.ahead_ns(message.deadline_ns)
        time_ns = message.deadline_ns - self.desk.now_ns
        if lessor.outs:
            time_ns = min(time_ns, lessor.outs[0].latency_ns)
        if not candidates or ahead_ns <= self._patience * time_ns:
            return None
        owing = [self.desk.busy(lessor, member) for member in candidates]
        least = min(owing)
        if least * lessor.cost_ns >= ahead_ns:
            return None
        free = [member for member, owed in zip(candidates, owing, strict=True) if owed == least]
        return min(self._random.sample(free, min(2, len(free))), key=self.desk.homes)


class AcceptAndCheck(Offloading):
    """1RTT-AcceptAndCheck: everything enters the queue; after each run, what would be late goes elsewhere."""

    def __init__(self, force_migrate: bool = True, random_lessee: bool = True, seed: int = 0) -> None:
        super().__init__(random_lessee, seed)
        self.force_migrate = force_migrate

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        for message in self.desk.late(seat):
            lessor = message.channel.seat
            candidates = self.desk.candidates(lessor)
            if candidates:
                self.desk.forward(message, self.lessee(lessor, candidates))


class Search:
    """Messages that would be late, and the replies of those who were asked to take them."""

    __slots__ = ("asked_ns", "lessor", "messages", "replies", "taken")

    def __init__(self, lessor: Seat, messages: list[Message], asked_ns: int) -> None:
        self.lessor = lessor
        self.messages = messages
        self.asked_ns = asked_ns
        self.replies = 0
        self.taken = False


class CheckFirst(Offloading):
    """2RTT-Sequential: after each run, ask `search_range` workers whether they can take what would be late; after
    `reply_required` replies, all of it goes to one that can. Meanwhile it stays, and runs here if its turn comes."""

    def __init__(self, search_range: int = 2, reply_required: int = 1, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._search_range = search_range
        self._reply_required = reply_required
        self._asked: dict[int, Search] = {}
        self._latest: dict[Address, Search] = {}

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        late: dict[Address, list[Message]] = {}
        for message in self.desk.late(seat):
            late.setdefault(message.channel.seat.address, []).append(message)
        for address, messages in late.items():
            lessor = messages[0].channel.seat
            candidates = self.desk.candidates(lessor)
            if candidates and self._may_search(self._latest.get(address)):
                asked = self._random.sample(candidates, min(self._search_range, len(candidates)))
                self.search(lessor, messages[:ASKED_MAX], asked)

    def search(self, lessor: Seat, messages: list[Message], asked: list[str]) -> None:
        """Ask all of them about all the messages."""
        found = Search(lessor, messages, self.desk.now_ns)
        self._latest[lessor.address] = found
        for member in asked:
            self.ask(member, found)

    def ask(self, member: str, search: Search) -> None:
        """Whether a worker could take the messages: by the deadline of the most urgent, at the cost of all."""
        lessor = search.lessor
        wish = [search.messages[0].deadline_ns, len(search.messages) * lessor.cost_ns]
        self._asked[self.desk.request(member, lessor.address, wish)] = search

    def _may_search(self, latest: Search | None) -> bool:
        return latest is None or self.is_over(latest) or self.desk.now_ns - latest.asked_ns > FORGOTTEN_AFTER_NS

    def is_over(self, search: Search) -> bool:
        """Whether the next search may begin: with the last reply."""
        return search.replies >= self._search_range or search.taken

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return self.desk.admits(*content)

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        search = self._asked.pop(number)
        search.replies += 1
        if content and not search.taken and search.replies >= min(self._reply_required, self._search_range):
            search.taken = True
            for message in search.messages:
                self.desk.forward(message, sender)


class Pipelined(CheckFirst):
    """2RTT-Pipelined: the next search begins when `reply_required` replies to this one are there."""

    def is_over(self, search: Search) -> bool:
        return search.replies >= self._reply_required


class Parallel(CheckFirst):
    """2RTT-Parallel: the messages are dealt to those who are asked, each being asked about its own share."""

    def search(self, lessor: Seat, messages: list[Message], asked: list[str]) -> None:
        for place, member in enumerate(asked):
            share = messages[place :: len(asked)]
            if share:
                found = Search(lessor, share, self.desk.now_ns)
                self._latest[lessor.address] = found
                self.ask(member, found)

    def is_over(self, search: Search) -> bool:
        return search.replies > 0
