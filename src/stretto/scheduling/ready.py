"""Which instance runs next: a queue of two levels (thesis 5.5.2). Instances by the urgency of their next message, and
each instance's messages in its mailbox.

An instance that runs keeps the worker for a quantum, unless it has nothing left, so that a cheap function does not pay
for a decision with every message. Whatever the policy says, nobody waits for longer than a bound.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from stretto.actors.channel import Message
from stretto.actors.instance import Instance
from stretto.scheduling.policies import LLF, Policy

QUANTUM_NS = 1_000_000
STARVED_AFTER_NS = 5_000_000_000
"""Who has been ready for so long runs next, whatever the policy says."""
AT_ONCE = float("-inf")
"""The urgency of what others wait for: opening, timers, a lessee's part in a barrier."""

Entry = tuple[float, int, Instance]


class ReadyQueue:
    """The instances that have work and credits. An instance is in it at most once."""

    def __init__(self, policy: Policy | None = None, quantum_ns: int = QUANTUM_NS) -> None:
        self.policy = policy or LLF()
        self._quantum_ns = quantum_ns
        self._heap: list[Entry] = []
        self._since_ns: OrderedDict[Instance, int] = OrderedDict()
        self._watches = self.policy.starves
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
        if instance is self._current and self._now_ns - self._current_since_ns < self._quantum_ns:
            self._hot = instance
            return
        self._push(instance)

    def _push(self, instance: Instance) -> None:
        self._entries += 1
        entry = (self._urgency(instance), self._entries, instance)
        instance.entry = self._entries
        heapq.heappush(self._heap, entry)
        if self._watches:
            self._since_ns[instance] = self._now_ns

    def _urgency(self, instance: Instance) -> float:
        if instance.mailbox:
            work = instance.mailbox[0]
            if isinstance(work, Message):
                return self.policy.urgency(instance, work)
        elif instance.poll_due and instance.next_read is not None:
            return self.policy.urgency(instance, instance.next_read)
        return AT_ONCE

    def next_instance(self, now_ns: int) -> Instance | None:
        """The next to run; one that lost its credits while waiting is passed over and offered again later."""
        self._now_ns = now_ns
        hot, self._hot = self._hot, None
        if hot is not None:
            hot.queued = False
            if _may_run(hot):
                return hot
        found = (self._starved(now_ns) if self._watches else None) or self._most_urgent()
        if found is not None:
            self._current, self._current_since_ns = found, now_ns
        return found

    def _starved(self, now_ns: int) -> Instance | None:
        """Whoever has waited too long; the dictionary is in the order of waiting."""
        while self._since_ns:
            instance, since_ns = next(iter(self._since_ns.items()))
            if now_ns - since_ns < STARVED_AFTER_NS:
                return None
            if self._taken(instance):
                return instance
        return None

    def _most_urgent(self) -> Instance | None:
        while self._heap:
            _, number, instance = heapq.heappop(self._heap)
            if instance.queued and instance.entry == number and self._taken(instance):
                return instance
        return None

    def _taken(self, instance: Instance) -> bool:
        """Take an instance out; whether it may run."""
        if self._watches:
            self._since_ns.pop(instance, None)
        instance.queued = False
        return _may_run(instance)

    def forget(self, job: str) -> None:
        """Drop the instances of a job."""
        self._heap = [entry for entry in self._heap if entry[2].address.job != job]
        heapq.heapify(self._heap)
        for instance in [one for one in self._since_ns if one.address.job == job]:
            del self._since_ns[instance]
        if self._hot is not None and self._hot.address.job == job:
            self._hot = None
        self._current = None


def _may_run(instance: Instance) -> bool:
    return not instance.dropped and (not instance.starved or instance.opening)
