"""A lessee's side: it runs what it is sent while it holds a lease, and gives its partial state away at each barrier. A
task of an elastic executor keeps its state, and runs the barrier on it."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message
from stretto.actors.gate import LesseeGate
from stretto.actors.mailbox_states import MailboxState, Trigger
from stretto.actors.seat import Seat
from stretto.actors.tasks import TaskBarrier
from stretto.actors.work import OPEN, SURRENDER, Adoption, Errand, Outcome, Surrender, Work
from stretto.protocol.leasing import Lease, SyncAck, SyncReply, SyncRequest, Unsync
from stretto.worker.leasing.programs import Programs
from stretto.worker.leasing.rules import Rules
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part


class LesseeMaking(Protocol):
    """Whoever makes lessees here."""

    def lessee(self, address: Address) -> Seat | None: ...


class Lessees(Part):
    """The lessees here, and their keeper."""

    def __init__(self, host: Host, rules: Rules, programs: Programs, hosting: LesseeMaking) -> None:
        self._host = host
        self._rules = rules
        self._programs = programs
        self._hosting = hosting

    def frames(self) -> FrameHandlers:
        return {Lease: self._on_lease, SyncRequest: self._on_sync_request, Unsync: self._on_unsync}

    def errands(self) -> dict[type[Errand], AfterRun]:
        part = AfterRun(completes=self._surrendered, last_word=True)
        return {Surrender: part, TaskBarrier: part}

    # What it may run.

    def has_work(self, seat: Seat) -> bool:
        gate = _gate(seat)
        if seat.opening or gate.surrendering or gate.adoption is not None:
            return True
        if gate.state is not MailboxState.RUNNABLE:
            return False
        if gate.awaited is None:
            return bool(seat.mailbox)
        return self._dependency(seat, gate) is not None or self._rules.done(gate.awaited)

    def urgent(self, seat: Seat) -> list[Message] | None:
        """Its state is waited for: at once."""
        return [] if _gate(seat).surrendering else None

    def next_work(self, seat: Seat) -> Work | None:
        gate, mailbox = _gate(seat), seat.mailbox
        if seat.opening:
            return mailbox.popleft() if mailbox and mailbox.first[2] is OPEN else None
        if gate.adoption is not None:
            states, gate.adoption = gate.adoption, None
            return Adoption(states)
        if gate.awaited is not None and gate.state is MailboxState.RUNNABLE:
            dependency = self._dependency(seat, gate)
            if dependency is not None:
                mailbox.remove(dependency)
                return dependency
            if self._rules.done(gate.awaited):
                gate.move(Trigger.DEPENDENCIES_DONE)
                gate.surrendering = True
        if gate.surrendering:
            gate.surrendering = False
            return TaskBarrier(gate.steps) if seat.spec.tasks_max else SURRENDER
        if gate.awaited is None and self._rules.may_run(gate) and mailbox:
            return mailbox.popleft()
        return None

    def _dependency(self, seat: Seat, gate: LesseeGate) -> Message | None:
        """The next message in the mailbox that belongs to the dependency set."""
        assert gate.awaited is not None
        for work in seat.mailbox:
            if isinstance(work, Message) and work.seq <= gate.awaited.get(self._key(work.channel), 0):
                return work
        return None

    def _key(self, channel: InChannel) -> tuple[str, int]:
        """The sending end of a channel: the member, and its number for the channel."""
        if channel.out is not None:
            return self._host.member, channel.out.number
        assert channel.peer is not None
        return channel.peer, channel.number

    # What its lessor says.

    def _on_lease(self, sender: str, frame: Lease) -> None:
        seat = self._hosting.lessee(frame.actor)
        gate = seat.gate if seat is not None else None
        if seat is None or not isinstance(gate, LesseeGate) or gate.lessor != sender:
            return
        gate.move(Trigger.LEASED)
        seat.cost_ns = seat.cost_ns or frame.cost_ns
        self._continue(seat, gate, frame)

    def _on_sync_request(self, sender: str, frame: SyncRequest) -> None:
        seat, gate = self._lessee(sender, frame.actor)
        if seat is None or gate is None or frame.barrier <= gate.barrier:
            return
        gate.barrier, gate.steps = frame.barrier, frame.steps
        gate.awaited = {(last.sender, last.number): last.seq for last in frame.last}
        if not self._rules.done(gate.awaited):
            # Else the reply follows at once, and says as much.
            self._host.send(gate.lessor, SyncAck(seat.address, frame.barrier))
        self._host.offer(seat)

    def _surrendered(self, seat: Seat, errand: Surrender | TaskBarrier, outcome: Outcome) -> None:
        gate = _gate(seat)
        counts = dict(seat.instance.ctx.counts) or None
        reply = SyncReply(seat.address, gate.barrier, outcome.states, self._programs.told(seat), counts)
        self._host.send(gate.lessor, reply)

    def _on_unsync(self, sender: str, frame: Unsync) -> None:
        seat, gate = self._lessee(sender, frame.actor)
        if seat is None or gate is None or frame.barrier != gate.barrier or gate.awaited is None:
            return
        gate.move(Trigger.UNSYNC if frame.keep else Trigger.RELEASED)
        self._continue(seat, gate, frame)

    def _continue(self, seat: Seat, gate: LesseeGate, frame: Lease | Unsync) -> None:
        """From where the lessor is."""
        gate.awaited = None
        gate.adoption = frame.states
        seat.criticals = frame.criticals
        seat.instance.at_watermark(frame.watermark_us)
        for out in seat.outs:
            out.direct = None
        self._host.offer(seat)

    def _lessee(self, sender: str, actor: Address) -> tuple[Seat | None, LesseeGate | None]:
        """The lessee here that a frame of its lessor is for."""
        seat = self._host.seat_of(actor)
        gate = seat.gate if seat is not None else None
        return (seat, gate) if isinstance(gate, LesseeGate) and gate.lessor == sender else (None, None)


def _gate(seat: Seat) -> LesseeGate:
    assert isinstance(seat.gate, LesseeGate)
    return seat.gate
