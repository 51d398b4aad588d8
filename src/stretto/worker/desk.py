"""The strategies of one worker at work: what they see of it, their requests and replies, and what they forward.

It is the `Desk` of the worker's strategies. The worker has one strategy of its own; a function with another one has a
copy of it here. Whether a message may go elsewhere at this moment is for `leasing/` to say.
"""

from __future__ import annotations

import copy
from collections import Counter
from itertools import chain, islice
from typing import Any, Protocol

from pyarrow import RecordBatch

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.deployment import Deployment
from stretto.actors.gate import LessorGate
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Misbehaved
from stretto.protocol.scheduling import ScheduleReply, ScheduleRequest
from stretto.rendering import traceback_of
from stretto.scheduling.laxity_queue import LaxityQueue
from stretto.scheduling.strategy import Pending, Strategy
from stretto.worker.guarding import Aftermath, GuardedStrategy, Of, is_shipped
from stretto.worker.interfaces import Emitting
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part

LATE_MAX = 64
"""Late messages that are looked at after a run: under overload all are late, and looking at them must not add to it."""


class Decisions(Protocol):
    """Whoever waits for batches without a place."""

    def decided(self, sender: Seat) -> None: ...


class Forwards(Protocol):
    """Whoever forwards messages to lessees."""

    def candidates(self, seat: Seat, gate: LessorGate) -> list[str]: ...

    def forward(self, seat: Seat, gate: LessorGate, message: Message, to: str) -> bool: ...


class StrategyDesk(Part):
    """What a worker lends its strategies."""

    def __init__(self, host: Host, channels: Emitting, decisions: Decisions, own: Strategy) -> None:
        self._host = host
        self._channels = channels
        self._decisions = decisions
        self.tracks = False
        """Whether a strategy wants to know who would be late, so that messages are followed while they wait."""
        self._laxity: LaxityQueue[Message] | None = None
        self._requests: dict[int, Strategy] = {}
        self._numbered = 0
        self._homes: Counter[str] | None = None
        self._aftermath: Aftermath | None = None
        self._guards: list[GuardedStrategy] = []
        self._failures: dict[GuardedStrategy, list[tuple[str, str]]] = {}
        """Of the strategies that were given up for all functions, for jobs that come later."""
        self.own = self._bound(own)

    def connect(self, forwarding: Forwards) -> None:
        self._forwarding = forwarding

    def frames(self) -> FrameHandlers:
        return {ScheduleRequest: self._on_request, ScheduleReply: self._on_reply}

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
                copies[id(spec.strategy)] = self._copied(spec.strategy)
            found[name] = copies[id(spec.strategy)]
            self._report_failures(copies[id(spec.strategy)], deployment.job, name)
        self._report_failures(self.own, deployment.job, None)
        return found

    def _copied(self, strategy: Strategy) -> Strategy:
        try:
            own = copy.deepcopy(strategy)
        except BaseException as error:
            return self._guard(strategy, error)
        return self._bound(own)

    def _bound(self, strategy: Strategy) -> Strategy:
        if not is_shipped(strategy):
            strategy = self._guard(strategy)
        else:
            strategy.bind(self)
        if strategy.tracks and self._laxity is None:
            self._laxity = LaxityQueue()
            self.tracks = True
        return strategy

    # Strategies and policies of a user's own (`guarding.py`).

    def _guard(self, user: Strategy, copied: BaseException | None = None) -> GuardedStrategy:
        guard = GuardedStrategy(user)
        guard.guard(self, copied)
        self._guards.append(guard)
        return guard

    def _attend(self) -> Aftermath:
        if self._aftermath is None:
            self._aftermath = Aftermath(self.send, lambda: self._host.ready.rerank())
            self._host.attend(self._aftermath)
        return self._aftermath

    def misbehaved(self, of: Of, what: str, error: BaseException) -> None:
        """Report that a strategy was given up for a function."""
        self._report(*of, what, traceback_of(error))

    def misbehaved_for_all(self, guard: GuardedStrategy, what: str, error: BaseException) -> None:
        """Report that it was given up, to the jobs that have it, and to those that come."""
        self._failures.setdefault(guard, []).append((what, traceback_of(error)))
        for job in self._host.jobs.values():
            if guard in job.strategies.values():
                self._report(job.job, None, what, traceback_of(error))

    def policy_misbehaved(self, seat: Seat, what: str, error: BaseException) -> None:
        """Report that the policy was given up, and order the queue by the one in its place."""
        self._report(seat.address.job, seat.address.function, what, traceback_of(error))
        self._attend().rerank()

    def _report_failures(self, strategy: Strategy, job: str, function: str | None) -> None:
        if isinstance(strategy, GuardedStrategy):
            for what, text in self._failures.get(strategy, ()):
                self._report(job, function, what, text)

    def _report(self, job: str, function: str | None, what: str, text: str) -> None:
        self._host.effects.append(Send(COORDINATOR, Misbehaved(job, function, what, text)))

    def release(self, orphans: list[Pending]) -> None:
        """Let batches without a place go to the lessor, once the event at hand is over."""
        self._attend().release(orphans)

    def functions(self, guard: GuardedStrategy, function: str) -> list[Of]:
        """Those of this name that have the strategy."""
        jobs = self._host.jobs.values()
        return [(job.job, function) for job in jobs if job.strategies.get(function) is guard]

    def may_run(self, seat: Seat) -> bool:
        """Whether an instance may run, if it has work."""
        return not seat.dropped and (not seat.starved or seat.sends_nothing)

    def has_work(self, seat: Seat) -> bool:
        """Whether an instance has work."""
        return seat.poll_due or bool(seat.mailbox if seat.keeper is None else seat.keeper.has_work(seat))

    def offer_all(self, again: bool = False) -> None:
        """Put all instances up for running that can run; `again`, if the queue has forgotten them."""
        for job in self._host.jobs.values():
            for seat in job.all_seats():
                seat.queued = seat.queued and not again
                self._host.offer(seat)

    # What waits here.

    def begins(self, seat: Seat, work: Work) -> None:
        """A run begins."""
        if self.tracks and isinstance(work, Message):
            self.untrack(work)
        strategy = seat.strategy
        if strategy is not None and strategy.has_pre_apply:
            strategy.pre_apply(seat, work)

    def track(self, message: Message) -> None:
        """A message has been put into a mailbox; asked for only if the desk `tracks`."""
        if self._laxity is not None and isinstance(message.payload, RecordBatch):
            message.ticket = self._laxity.add(message, message.deadline_ns, message.channel.seat.cost_ns)

    def untrack(self, message: Message) -> None:
        """It runs, goes elsewhere, or is dropped."""
        if message.ticket and self._laxity is not None:
            self._laxity.remove(message.ticket)
            message.ticket = 0

    def dropped(self, job: LocalJob) -> None:
        self._homes = None
        for guard in self._guards:
            guard.forget(job.job)
        gone = {id(strategy) for strategy in job.strategies.values() if strategy is not self.own}
        self._guards = [guard for guard in self._guards if id(guard) not in gone]
        self._failures = {guard: said for guard, said in self._failures.items() if id(guard) not in gone}
        for seat in job.all_seats():
            held = (entry[2] for entry in seat.gate.held) if isinstance(seat.gate, LessorGate) else ()
            for work in (*seat.mailbox, *held):
                if isinstance(work, Message):
                    self.untrack(work)

    # The desk.

    @property
    def member(self) -> str:
        return self._host.member

    @property
    def now_ns(self) -> int:
        return self._host.now_ns

    def waiting(self) -> int:
        return self._host.ready.waiting()

    def admits(self, deadline_ns: float, cost_ns: float) -> bool:
        return self._laxity is None or self._laxity.admits(deadline_ns, cost_ns, self.now_ns)

    def ahead_ns(self, deadline_ns: float) -> float:
        return 0.0 if self._laxity is None else self._laxity.ahead(deadline_ns)

    def late(self, seat: Seat) -> list[Message]:
        if self._laxity is None:
            return []
        late = islice(self._laxity.late(self.now_ns), LATE_MAX)
        return [message for message in late if _may_go(message.channel.seat, seat.strategy)]

    def candidates(self, lessor: Seat) -> list[str]:
        gate = lessor.gate
        return self._forwarding.candidates(lessor, gate) if isinstance(gate, LessorGate) else []

    def homes(self, member: str) -> int:
        if self._homes is None:
            placements = (job.placement.values() for job in self._host.jobs.values())
            self._homes = Counter(chain.from_iterable(chain.from_iterable(placements)))
        return self._homes[member]

    def busy(self, lessor: Seat, member: str) -> int:
        gate = lessor.gate
        lessee = gate.lessees.get(member) if isinstance(gate, LessorGate) else None
        return 0 if lessee is None else lessee.unsettled

    def forward(self, message: Message, to: str) -> bool:
        seat = message.channel.seat
        gate = seat.gate
        if seat.dropped or not isinstance(gate, LessorGate) or not seat.mailbox.holds(message):
            return False
        if to not in self.candidates(seat) or not self._forwarding.forward(seat, gate, message, to):
            return False
        seat.mailbox.remove(message)
        self.untrack(message)
        return True

    def request(self, to: str, about: Address, content: Any) -> int:
        return self.ask(self._strategy_of(about) or self.own, to, about, content)

    def ask(self, strategy: Strategy, to: str, about: Address, content: Any) -> int:
        """Send a request of a strategy."""
        self._numbered += 1
        self._requests[self._numbered] = strategy
        self._host.send(to, ScheduleRequest(about, self._numbered, content))
        return self._numbered

    def send(self, pending: Pending, channel: OutChannel) -> None:
        sender = pending.channel.seat
        if sender.dropped:
            return
        credits = pending.channel.weigh(pending.payload)
        self._channels.emit(
            channel, pending.payload, pending.arrived_ns, None, pending.progress_us, pending.deadline_ns, credits
        )
        self._decisions.decided(sender)

    # Frames.

    def _strategy_of(self, address: Address) -> Strategy | None:
        job = self._host.jobs.get(address.job)
        return None if job is None else job.strategies.get(address.function)

    def _on_request(self, sender: str, frame: ScheduleRequest) -> None:
        strategy = self._strategy_of(frame.actor)
        content = None if strategy is None else strategy.on_request(sender, frame.actor, frame.content)
        self._host.send(sender, ScheduleReply(frame.number, content))

    def _on_reply(self, sender: str, frame: ScheduleReply) -> None:
        strategy = self._requests.pop(frame.number, None)
        if strategy is None:
            self._host.refuse(f"a reply of {sender} to request {frame.number}, which nobody has made")
            return
        strategy.on_reply(sender, frame.number, frame.content)


def _may_go(seat: Seat, strategy: Strategy | None) -> bool:
    return seat.strategy is strategy and seat.spec.lessees_max > 0 and isinstance(seat.gate, LessorGate)
