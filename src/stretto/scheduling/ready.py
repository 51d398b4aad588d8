"""Which instance runs next: a queue of two levels (thesis 5.5.2). Instances by the urgency of their next message, and
each instance's messages in its mailbox.

An instance that runs keeps the worker for a quantum, unless it has nothing left, so that a cheap function does not pay
for a decision with every message. Whatever the policy says, nobody waits for longer than a bound.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from stretto.actors.channel import Message
from stretto.actors.deadlines import AT_ONCE
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.instance import Instance
from stretto.actors.mailbox_states import MailboxState
from stretto.scheduling.policies import LLF, Policy

QUANTUM_NS = 1_000_000
STARVED_AFTER_NS = 5_000_000_000
"""Who has been ready for so long runs next, whatever the policy says."""

Entry = tuple[float, int, Instance]


class ReadyQueue:
    """The instances that have work and credits. An instance is in it at most once."""

    def __init__(self, policy: Policy | None = None, quantum_ns: int = QUANTUM_NS) -> None:
        self.policy = policy or LLF()
        self._quantum_ns = quantum_ns
        self._heap: list[Entry] = []
        self._since_ns: OrderedDict[Instance, int] = OrderedDict()
        self._watches = self.policy.starves
        self._by_deadline = type(self.policy) is LLF
        self.counts = type(self.policy).spent is not Policy.spent
        self._current: Instance | None = None
        self._current_since_ns = 0
        self._hot: Instance | None = None
        self._entries = 0
        self._now_ns = 0

    @property
    def idle(self) -> bool:
        """Whether nothing waits to run."""
        return self._hot is None and not self._heap

    def enqueue(self, instance: Instance) -> None:
        """An instance has work and may run."""
        instance.queued = True
        if instance is self._current:
            self._hot = instance  # Whether its quantum is over is seen when somebody may run.
        else:
            heapq.heappush(self._heap, self._entry(instance))

    def waiting(self) -> int:
        """How many messages those who are ready have before them."""
        return sum(len(one.mailbox) for _, number, one in self._heap if one.queued and one.entry == number)

    def _entry(self, instance: Instance) -> Entry:
        instance.entry = self._entries = entries = self._entries + 1
        if self._watches:
            self._since_ns.setdefault(instance, self._now_ns)
        mailbox = instance.mailbox
        if instance.gate is not None and (barrier := _barrier(instance.gate)) is not None:
            # What waits in the mailbox comes after the barrier, and is less urgent than it.
            urgency = min((self.policy.urgency(instance, message) for message in barrier), default=AT_ONCE)
        elif mailbox.count:
            # The default policy goes by what the mailbox goes by, and is not asked.
            if self._by_deadline:
                urgency = mailbox.first[0]
            else:
                work = mailbox.first[2]
                urgency = self.policy.urgency(instance, work) if isinstance(work, Message) else AT_ONCE
        elif instance.poll_due and instance.next_read is not None:
            urgency = self.policy.urgency(instance, instance.next_read)
        else:
            urgency = AT_ONCE
        instance.urgency = urgency
        return urgency, entries, instance

    def hurry(self, instance: Instance) -> None:
        """The next message of an instance may have become more urgent: it then gets a better place."""
        if instance.queued and instance is not self._hot:
            before = instance.urgency, instance.entry
            entry = self._entry(instance)
            if entry[0] < before[0]:
                heapq.heappush(self._heap, entry)
            else:
                instance.urgency, instance.entry = before  # It stays where it is.

    def next_instance(self, now_ns: int) -> Instance | None:
        """The next to run; one that lost its credits while waiting is passed over and offered again later."""
        self._now_ns = now_ns
        heap, hot = self._heap, self._hot
        if hot is not None:
            self._hot = None
            if now_ns - self._current_since_ns < self._quantum_ns:
                hot.queued = False
                if not hot.dropped and (not hot.starved or hot.opening):
                    return hot
            else:
                heapq.heappush(heap, self._entry(hot))
        found = self._starved(now_ns) if self._watches else None
        while found is None and heap:
            _, number, instance = heapq.heappop(heap)
            if instance.queued and instance.entry == number:
                instance.queued = False
                if not instance.dropped and (not instance.starved or instance.opening):
                    found = instance
        if found is not None:
            self._current, self._current_since_ns = found, now_ns
            if self._watches:
                self._since_ns.pop(found, None)
        return found

    def _starved(self, now_ns: int) -> Instance | None:
        """Whoever has waited too long; the dictionary is in the order of waiting."""
        while self._since_ns:
            instance, since_ns = next(iter(self._since_ns.items()))
            if now_ns - since_ns < STARVED_AFTER_NS:
                return None
            del self._since_ns[instance]
            instance.queued = False
            if not instance.dropped and (not instance.starved or instance.opening):
                return instance
        return None

    def forget(self, job: str) -> None:
        """Drop the instances of a job."""
        self._heap = [entry for entry in self._heap if entry[2].address.job != job]
        heapq.heapify(self._heap)
        for instance in [one for one in self._since_ns if one.address.job == job]:
            del self._since_ns[instance]
        if self._hot is not None and self._hot.address.job == job:
            self._hot = None
        self._current = None


def _barrier(gate: LessorGate | LesseeGate) -> list[Message] | None:
    """The critical messages that a lessor is about to run; none of its own for a lessee, whose state is waited for."""
    if isinstance(gate, LessorGate):
        return gate.messages if gate.state is MailboxState.CRITICAL else None
    return [] if gate.surrendering else None
