"""The strategies of one worker at work: what they see of it, their requests and replies, and what they forward.

A part of the worker machine, and the `Desk` of its strategies. The worker has one strategy of its own; a function with
another one has a copy of it here. Whether a message may go elsewhere at this moment is for `leasing.py` to say.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.deployment import Deployment
from stretto.actors.gate import LessorGate
from stretto.actors.instance import Instance
from stretto.protocol.scheduling import Offered, ScheduleReply, ScheduleRequest
from stretto.scheduling.laxity_queue import LaxityQueue
from stretto.scheduling.strategy import Pending, Strategy

if TYPE_CHECKING:
    from stretto.worker import Worker

UNDECIDED_MAX = 16
"""Batches of one instance that may wait for replies; then it does not run until one is decided."""


LATE_MAX = 64
"""Late messages that are looked at after a run: under overload all are late, and looking at them must not add to it."""


class StrategyDesk:
    """What a worker lends its strategies."""

    def __init__(self, worker: Worker, own: Strategy) -> None:
        self._worker = worker
        self.own = own
        self._laxity: LaxityQueue[Message] | None = None
        self._requests: dict[int, Strategy] = {}
        self._numbered = 0
        self._homes: Counter[str] | None = None
        self._bind(own)
        self.frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            ScheduleRequest: self._on_request,
            ScheduleReply: self._on_reply,
            Offered: self._on_offered,
        }

    def strategies(self, deployment: Deployment) -> dict[str, Strategy]:
        """The strategy of each function; functions that were given the same one share it here too."""
        self._homes = None
        copies: dict[int, Strategy] = {}
        found = {}
        for name, spec in deployment.functions.items():
            if spec.strategy is None:
                found[name] = self.own
                continue
            if id(spec.strategy) not in copies:
                copies[id(spec.strategy)] = self._bind(copy.deepcopy(spec.strategy))
            found[name] = copies[id(spec.strategy)]
        return found

    def _bind(self, strategy: Strategy) -> Strategy:
        strategy.bind(self)
        if strategy.tracks and self._laxity is None:
            self._laxity = LaxityQueue()
            self._worker.tracks = True
        return strategy

    # What waits here.

    def track(self, message: Message) -> None:
        """A message has been put into a mailbox; asked for only if the worker `tracks`."""
        if self._laxity is not None and isinstance(message.payload, pa.RecordBatch):
            message.ticket = self._laxity.add(message, message.deadline_ns, message.channel.instance.cost_ns)

    def untrack(self, message: Message) -> None:
        """It runs, goes elsewhere, or is dropped."""
        if message.ticket and self._laxity is not None:
            self._laxity.remove(message.ticket)
            message.ticket = 0

    def forget(self, instance: Instance) -> None:
        """An instance is dropped, with all that it had before it."""
        self._homes = None
        held = (entry[2] for entry in instance.gate.held) if isinstance(instance.gate, LessorGate) else ()
        for work in (*instance.mailbox, *held):
            if isinstance(work, Message):
                self.untrack(work)

    # The desk.

    @property
    def member(self) -> str:
        return self._worker.member

    @property
    def now_ns(self) -> int:
        return self._worker.now_ns

    def waiting(self) -> int:
        return self._worker.ready.waiting()

    def admits(self, deadline_ns: float, cost_ns: float) -> bool:
        return self._laxity is None or self._laxity.admits(deadline_ns, cost_ns, self.now_ns)

    def ahead_ns(self, deadline_ns: float) -> float:
        return 0.0 if self._laxity is None else self._laxity.ahead(deadline_ns)

    def late(self, instance: Instance) -> list[Message]:
        if self._laxity is None:
            return []
        late = islice(self._laxity.late(self.now_ns), LATE_MAX)
        return [message for message in late if _may_go(message.channel.instance, instance.strategy)]

    def candidates(self, lessor: Instance) -> list[str]:
        gate = lessor.gate
        return self._worker.leasing.candidates(lessor, gate) if isinstance(gate, LessorGate) else []

    def homes(self, member: str) -> int:
        if self._homes is None:
            placements = (job.placement.values() for job in self._worker.jobs.values())
            self._homes = Counter(chain.from_iterable(chain.from_iterable(placements)))
        return self._homes[member]

    def busy(self, lessor: Instance, member: str) -> int:
        gate = lessor.gate
        lessee = gate.lessees.get(member) if isinstance(gate, LessorGate) else None
        return 0 if lessee is None else lessee.unsettled

    def forward(self, message: Message, to: str) -> bool:
        instance = message.channel.instance
        gate = instance.gate
        if instance.dropped or not isinstance(gate, LessorGate) or not instance.mailbox.holds(message):
            return False
        if to not in self.candidates(instance) or not self._worker.leasing.forward(instance, gate, message, to):
            return False
        instance.mailbox.remove(message)
        self.untrack(message)
        return True

    def request(self, to: str, about: Address, content: Any) -> int:
        self._numbered += 1
        self._requests[self._numbered] = self._strategy_of(about) or self.own
        self._worker.tell(to, ScheduleRequest(about, self._numbered, content))
        return self._numbered

    def send(self, pending: Pending, channel: OutChannel) -> None:
        sender = pending.channel.instance
        if sender.dropped:
            return
        self._worker.channels.emit(
            channel, pending.payload, pending.arrived_ns, None, pending.progress_us, pending.deadline_ns
        )
        self._worker.decided(sender)

    # Frames.

    def _strategy_of(self, address: Address) -> Strategy | None:
        job = self._worker.jobs.get(address.job)
        return None if job is None else job.strategies.get(address.function)

    def _on_request(self, sender: str, frame: ScheduleRequest, now_ns: int) -> None:
        address = frame.actor
        strategy = self._strategy_of(address)
        content = None if strategy is None else strategy.on_request(sender, address, frame.content)
        self._worker.tell(sender, ScheduleReply(frame.number, content))

    def _on_reply(self, sender: str, frame: ScheduleReply, now_ns: int) -> None:
        strategy = self._requests.pop(frame.number, None)
        if strategy is None:
            self._worker.refuse(f"a reply of {sender} to request {frame.number}, which nobody has made")
            return
        strategy.on_reply(sender, frame.number, frame.content)

    def _on_offered(self, sender: str, frame: Offered, now_ns: int) -> None:
        channel = self._worker.channels.sending(frame.number)
        if channel is None or channel.peer != sender:
            self._worker.stale += 1
            return
        self._worker.leasing.answered(channel.instance, frame.number, frame.seq, frame.taken)


def _may_go(instance: Instance, strategy: Strategy | None) -> bool:
    return instance.strategy is strategy and instance.spec.lessees_max > 0 and isinstance(instance.gate, LessorGate)
