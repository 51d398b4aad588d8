"""REJECTSEND: a lessor sends messages on to its lessees, and gives leases to those who get some (dirigo.txt 4.2)."""

from __future__ import annotations

from typing import Protocol, TypeGuard

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message, OutChannel
from stretto.actors.gate import Lessee, LessorGate
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.protocol.leasing import Lease
from stretto.protocol.machines import Send
from stretto.protocol.scheduling import Offered
from stretto.worker.interfaces import Emitting, Figures, HostsOf
from stretto.worker.leasing.rules import Rules
from stretto.worker.part import FrameHandlers, Host, Part


class ForwardingChannels(Emitting, Protocol):
    """The channels, for who forwards."""

    def sending(self, number: int) -> OutChannel | None: ...

    def extra_channel(
        self, seat: Seat, receiver: Address, member: str, like: InChannel | OutChannel, schema: pa.Schema
    ) -> OutChannel: ...

    def give_back(self, message: Message) -> None: ...

    def wait_in(self, seat: Seat, message: Message) -> None: ...


class Waiting(Protocol):
    """Whoever follows messages while they wait."""

    def untrack(self, message: Message) -> None: ...


class Forwarding(Part):
    """Which messages of the lessors here go elsewhere."""

    def __init__(
        self,
        host: Host,
        channels: ForwardingChannels,
        rules: Rules,
        hosting: HostsOf,
        waiting: Waiting,
        figures: Figures,
    ) -> None:
        self._host = host
        self._channels = channels
        self._rules = rules
        self._hosting = hosting
        self._waiting = waiting
        self._figures = figures

    def frames(self) -> FrameHandlers:
        return {Offered: self._on_offered}

    def forwarded(self, seat: Seat, message: Message) -> bool:
        """Whether the lessor has sent an arriving message on to a lessee instead of queueing it."""
        gate = seat.gate
        if not isinstance(gate, LessorGate):
            return False
        if not isinstance(message.payload, RecordBatch):
            gate.unexecuted[message.channel.sender] += 1
        return self._is_forwarded(seat, gate, message)

    def _is_forwarded(self, seat: Seat, gate: LessorGate, message: Message) -> bool:
        strategy = seat.strategy
        is_batch = isinstance(message.payload, RecordBatch)
        if strategy is None or not seat.spec.lessees_max or not is_batch:
            return False
        if not self._rules.may_forward(gate, message.channel):
            return False
        chosen = strategy.enqueue(seat, message, self.candidates(seat, gate))
        return chosen is not None and self.forward(seat, gate, message, chosen)

    def forward(self, seat: Seat, gate: LessorGate, message: Message, to: str) -> bool:
        """Send a message of this lessor on to a lessee, if the protocol allows it now; the lessee may have to say first
        whether it takes it."""
        channel = message.channel
        if not isinstance(message.payload, RecordBatch) or not self._rules.may_forward(gate, channel):
            return False
        lessee = gate.lessees.get(to) or self.grant_lease(seat, gate, to)
        out = lessee.channels.get((channel.sender, channel.input))
        if out is None:
            out = self._channels.extra_channel(seat, seat.address, to, channel, message.payload.schema)
            lessee.channels[channel.sender, channel.input] = out
        elif out.credits <= 0:
            return False
        lessee.used = True
        self._channels.emit(
            out,
            message.payload,
            message.arrived_ns,
            None,
            message.progress_us,
            message.deadline_ns,
            message.credits,
        )
        if seat.strategy is not None and not seat.strategy.force_migrate:
            gate.offered[out.number, out.seq] = message
        else:
            self._is_away(seat, message)
        return True

    def _is_away(self, seat: Seat, message: Message) -> None:
        seat.metrics.messages_forwarded += 1
        message.channel.settle(message.seq)
        self._channels.give_back(message)

    # Lessees that may refuse.

    def is_refused(self, channel: InChannel, message: Message) -> bool:
        """A lessee that may refuse says whether it takes what was forwarded to it."""
        lessee = channel.seat
        strategy = lessee.strategy
        if strategy is None or strategy.force_migrate:
            return False
        taken = strategy.accept(lessee, message)
        assert channel.peer is not None
        self._host.effects.append(Send(channel.peer, Offered(channel.number, message.seq, taken)))
        if not taken:
            channel.settle(message.seq)
            self._channels.give_back(message)
        return not taken

    def _on_offered(self, sender: str, frame: Offered) -> None:
        channel = self._channels.sending(frame.number)
        if channel is None or channel.peer != sender:
            self._host.stale += 1
            return
        self.answered(channel.seat, frame.number, frame.seq, frame.taken)

    def answered(self, seat: Seat, number: int, seq: int, taken: bool) -> None:
        """A lessee has said whether it takes a message; what it refuses runs here."""
        gate = seat.gate
        message = gate.offered.pop((number, seq), None) if isinstance(gate, LessorGate) else None
        if message is None or seat.dropped:
            return
        if taken:
            self._is_away(seat, message)
            self._figures.touch(seat)
            self._host.offer(seat)  # Perhaps a barrier has waited for just this one.
        else:
            self._channels.wait_in(seat, message)

    # After a barrier.

    def shed(self, seat: Seat, gate: LessorGate) -> None:
        """What had to wait here during a barrier is offered to the lessees like what arrives, up to the sender's next
        critical message, which may be here already: an actor that is late by a window could not catch up otherwise."""
        if not seat.spec.lessees_max or not seat.mailbox:
            return
        waiting = list(seat.mailbox)
        gate.unexecuted.subtract([work.channel.sender for work in waiting if _is_critical(work)])
        for work in waiting:
            if _is_critical(work):
                gate.unexecuted[work.channel.sender] += 1
            if isinstance(work, Message) and self._is_forwarded(seat, gate, work):
                seat.mailbox.remove(work)
                self._waiting.untrack(work)

    # Leases.

    def candidates(self, seat: Seat, gate: LessorGate) -> list[str]:
        """The workers that a message may be sent to: those that hold a lease, and while there are too few, others."""
        if gate.candidates is None:
            hosts, lessees = self._hosting.hosts(seat), self._hosting.lessees_set(seat)
            current = self._rules.staying(gate, hosts, lessees)
            most = seat.spec.lessees_max if lessees is None else min(lessees, seat.spec.lessees_max)
            missing = max(0, most - len(gate.lessees))
            others = [member for member in hosts if member not in gate.lessees][:missing]
            gate.candidates = seat.instance.discipline.places(current + others)
        return gate.candidates

    def grant_lease(self, seat: Seat, gate: LessorGate, member: str) -> Lessee:
        """Let another worker run messages of an actor here."""
        lessee = gate.lessees[member] = gate.former.pop(member) if member in gate.former else Lessee(member)
        gate.candidates = None
        watermark_us = seat.instance.watermark_us
        self._host.send(member, Lease(seat.address, watermark_us, seat.criticals, gate.consolidated, seat.cost_ns))
        return lessee


def _is_critical(work: Work) -> TypeGuard[Message]:
    return isinstance(work, Message) and not isinstance(work.payload, RecordBatch)
