"""Which instance runs next: a queue of two levels (thesis 5.5.2). Instances by the urgency of their next message, and
each instance's messages in its mailbox.

An instance that runs keeps the worker for a quantum, unless it has nothing left, so that a cheap function does not pay
for a decision with every message. Whatever the policy says, nobody waits for longer than a bound.

On an overloaded worker, what is late is always the most urgent by its deadline, and makes everything else late as well
(thesis figure 5.10). So an instance whose next message is hopelessly late steps aside for those that can still be in
time. It keeps a part of the worker, and gets all of it when nobody else has work. Whoever feeds it steps aside too, and
comes after it: what it would send is for the end of the same queue. Who steps aside is not left to chance: of several
that are due at the same time, the one that takes most of the worker runs last (`Seat.demand`), since then one is late
where several would be.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict

from stretto.actors.channel import Message
from stretto.actors.deadlines import AT_ONCE
from stretto.actors.seat import Demand, Seat
from stretto.scheduling.policies import LLF, Policy

QUANTUM_NS = 1_000_000
STARVED_AFTER_NS = 5_000_000_000
"""Who has been ready for so long runs next, whatever the policy says."""

HOPELESS_AFTER = 0.25
"""A message is hopelessly late if its start deadline has passed by this part of what its job's objective allows. One
that is a little late still runs first: it may have been estimated wrongly, and costs others little."""
TURNS_PER_LATE_TURN = 9
"""Who is hopelessly late gets one turn after so many of others, by the time that the turns take."""

Entry = tuple[float, int, Seat]


class ReadyQueue:
    """The seats that have work and credits. A seat is in it at most once."""

    def __init__(self, policy: Policy | None = None, quantum_ns: int = QUANTUM_NS) -> None:
        self.policy = policy or LLF()
        self._quantum_ns = quantum_ns
        self._heap: list[Entry] = []
        self._late: list[Entry] = []
        self._late_of: Counter[Demand] = Counter()
        """How many entries of hopelessly late messages each function has."""
        self._owed_ns = 0.0
        """The time that others have had while somebody hopelessly late waited."""
        self._since_ns: OrderedDict[Seat, int] = OrderedDict()
        self._watches = self.policy.starves
        self._sees_lateness = self.policy.by_time
        self._by_deadline = type(self.policy) is LLF
        self.counts = self.policy.has_spent
        self._current: Seat | None = None
        self._current_since_ns = 0
        self._hot: Seat | None = None
        self._entries = 0
        self._now_ns = 0

    @property
    def idle(self) -> bool:
        """Whether nothing waits to run."""
        return self._hot is None and not self._heap and not self._late

    def enqueue(self, seat: Seat) -> None:
        """An instance has work and may run."""
        seat.queued = True
        if seat is self._current:
            self._hot = seat  # Whether its quantum is over is seen when somebody may run.
        else:
            heapq.heappush(self._heap, self._entry(seat))

    def waiting(self) -> int:
        """How many messages those who are ready have before them."""
        return sum(len(seat.mailbox) for seat in self._queued())

    def _queued(self) -> list[Seat]:
        """Those in the queue. An entry that was replaced by a later one does not count."""
        return [seat for _, number, seat in (*self._heap, *self._late) if seat.queued and seat.entry == number]

    def _entry(self, seat: Seat) -> Entry:
        seat.entry = self._entries = entries = self._entries + 1
        if self._watches:
            self._since_ns.setdefault(seat, self._now_ns)
        mailbox = seat.mailbox
        if seat.rest is not None:
            urgency = self._urgency_of_rest(seat, seat.rest)
        elif seat.keeper is not None and (next_up := seat.keeper.urgent(seat)) is not None:
            # What waits in the mailbox comes after the barrier, and is less urgent than it.
            urgency = min((self.policy.urgency(seat, message) for message in next_up), default=AT_ONCE)
        elif mailbox.count:
            # The default policy goes by what the mailbox goes by, and is not asked.
            if self._by_deadline:
                urgency = mailbox.first[0] + seat.demand.handicap_ns
            else:
                work = mailbox.first[2]
                urgency = self.policy.urgency(seat, work) if isinstance(work, Message) else AT_ONCE
        elif seat.poll_due and seat.next_read is not None:
            urgency = self.policy.urgency(seat, seat.next_read)
        else:
            urgency = AT_ONCE
        seat.urgency = urgency
        return urgency, entries, seat

    def _urgency_of_rest(self, seat: Seat, rest: Message) -> float:
        """What is left of a message comes before all that waits, and is at least as urgent."""
        urgency = self.policy.urgency(seat, rest)
        if seat.mailbox.count and isinstance(work := seat.mailbox.first[2], Message):
            urgency = min(urgency, self.policy.urgency(seat, work))
        return urgency

    def hurry(self, seat: Seat) -> None:
        """The next message of an instance may have become more urgent: it then gets a better place."""
        if seat.queued and seat is not self._hot:
            before = seat.urgency, seat.entry
            entry = self._entry(seat)
            if entry[0] < before[0]:
                heapq.heappush(self._heap, entry)
            else:
                seat.urgency, seat.entry = before  # It stays where it is.

    def rerank(self) -> None:
        """All are as urgent as the policy now says."""
        self._sees_lateness = self.policy.by_time
        self._heap = [self._entry(seat) for seat in self._queued()]
        self._late = []
        self._late_of.clear()
        heapq.heapify(self._heap)

    def next_seat(self, now_ns: int) -> Seat | None:
        """The next to run; one that lost its credits while waiting is passed over and offered again later."""
        self._now_ns = now_ns
        heap, hot = self._heap, self._hot
        if hot is not None:
            self._hot = None
            if now_ns - self._current_since_ns < self._quantum_ns:
                hot.queued = False
                if not hot.dropped and (not hot.starved or hot.sends_nothing):
                    return hot
            else:
                heapq.heappush(heap, self._entry(hot))
        found = self._starved(now_ns) if self._watches else None
        if found is None:
            # Mostly nobody is hopelessly late, and then the first of the heap is the most urgent.
            late = self._late or (heap and heap[0][0] < now_ns and _is_hopeless(heap[0], now_ns))
            found = self._most_urgent(now_ns) if late and self._sees_lateness else _first(heap)
        if found is not None:
            self._current, self._current_since_ns = found, now_ns
            if self._watches:
                self._since_ns.pop(found, None)
        return found

    def _most_urgent(self, now_ns: int) -> Seat | None:
        """The first of those that can be in time, unless it is the turn of those that cannot."""
        heap, late = self._heap, self._late
        while heap and (self._feeds_late(heap[0]) or (heap[0][0] < now_ns and _is_hopeless(heap[0], now_ns))):
            entry = heapq.heappop(heap)
            heapq.heappush(late, entry)
            self._late_of[entry[2].demand] += 1
        if late:
            # By the time that a seat keeps the worker, about.
            turn_ns = max(late[0][2].cost_ns, self._quantum_ns)
            if self._owed_ns >= TURNS_PER_LATE_TURN * turn_ns or not heap:
                self._owed_ns = 0.0
                return self._first_late() or _first(heap)
        found = _first(heap)
        if late and found is not None:
            self._owed_ns += max(found.cost_ns, self._quantum_ns)
        return found or self._first_late()

    def _feeds_late(self, entry: Entry) -> bool:
        """Whether what a seat sends comes to somebody here who is hopelessly late."""
        late = self._late_of
        return bool(late) and any(below in late for below in entry[2].demand.below)

    def _first_late(self) -> Seat | None:
        """Take out the first of those that have stepped aside."""
        late = self._late
        found = None
        while late and found is None:
            seat = late[0][2]
            found = _first_of(late)
            self._late_of[seat.demand] -= 1
            if not self._late_of[seat.demand]:
                del self._late_of[seat.demand]
        return found

    def _starved(self, now_ns: int) -> Seat | None:
        """Whoever has waited too long; the dictionary is in the order of waiting."""
        while self._since_ns:
            seat, since_ns = next(iter(self._since_ns.items()))
            if now_ns - since_ns < STARVED_AFTER_NS:
                return None
            del self._since_ns[seat]
            seat.queued = False
            if not seat.dropped and (not seat.starved or seat.sends_nothing):
                return seat
        return None

    def forget(self, job: str) -> None:
        """Drop the instances of a job."""
        for heap in (self._heap, self._late):
            heap[:] = [entry for entry in heap if entry[2].address.job != job]
            heapq.heapify(heap)
        self._late_of = Counter(seat.demand for _, _, seat in self._late)
        for seat in [one for one in self._since_ns if one.address.job == job]:
            del self._since_ns[seat]
        if self._hot is not None and self._hot.address.job == job:
            self._hot = None
        self._current = None


def _first(heap: list[Entry]) -> Seat | None:
    """Take out the first that may run."""
    while heap:
        found = _first_of(heap)
        if found is not None:
            return found
    return None


def _first_of(heap: list[Entry]) -> Seat | None:
    """Take out the first entry; returns its seat if that may run."""
    _, number, seat = heapq.heappop(heap)
    if seat.queued and seat.entry == number:
        seat.queued = False
        if not seat.dropped and (not seat.starved or seat.sends_nothing):
            return seat
    return None


def _is_hopeless(entry: Entry, now_ns: int) -> bool:
    urgency, _, seat = entry
    return AT_ONCE < urgency < now_ns - HOPELESS_AFTER * seat.latency_ns
