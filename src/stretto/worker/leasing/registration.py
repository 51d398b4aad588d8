"""DIRECTSEND: senders ask a lessor for lessees that they may send to directly (LESSEE_REGISTRATION, dirigo.txt 4.2)."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, OutChannel
from stretto.actors.gate import Lessee, LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.protocol.leasing import Register, Registered
from stretto.scheduling.strategy import Strategy
from stretto.worker.interfaces import HostsOf
from stretto.worker.leasing.barriers import executed_of
from stretto.worker.leasing.rules import Rules
from stretto.worker.part import FrameHandlers, Host, Part


class ExtraChannels(Protocol):
    """Whoever makes channels to lessees."""

    def extra_channel(
        self, seat: Seat, receiver: Address, member: str, like: InChannel | OutChannel, schema: pa.Schema
    ) -> OutChannel: ...


class Leases(Protocol):
    """Whoever gives leases."""

    def candidates(self, seat: Seat, gate: LessorGate) -> list[str]: ...

    def grant_lease(self, seat: Seat, gate: LessorGate, member: str) -> Lessee: ...


class Registration(Part):
    """Both sides: senders here that ask, and lessors here that answer."""

    def __init__(self, host: Host, channels: ExtraChannels, rules: Rules, leases: Leases, hosting: HostsOf) -> None:
        self._host = host
        self._channels = channels
        self._rules = rules
        self._leases = leases
        self._hosting = hosting

    def frames(self) -> FrameHandlers:
        return {Register: self._on_register, Registered: self._on_registered}

    # The sender's side.

    def direct(self, channel: OutChannel, strategy: Strategy) -> list[OutChannel] | None:
        """The channels to lessees of the receiver that the next batch may take instead, if any."""
        if channel.direct is None and strategy.wants_direct(channel):
            self._ask(channel, strategy)
        return channel.direct

    def _ask(self, channel: OutChannel, strategy: Strategy) -> None:
        """What is sent before the answer goes to the lessor."""
        channel.direct = []
        sender = channel.seat
        if strategy.waits and not channel.waits:
            # Else all senders would pile on the lessor after each barrier, before they may go past it.
            channel.waits = True
            sender.starved += 1
        frame = Register(channel.receiver, sender.address, channel.index, sender.criticals, strategy.near)
        self._host.send(self._host.home(channel.receiver), frame)

    def ask_again(self, channel: OutChannel) -> None:
        """After a critical message, a sender that sent directly before it asks again at once."""
        gate, strategy = channel.seat.gate, channel.strategy
        continues = gate is None or gate.state is MailboxState.RUNNABLE
        if strategy is not None and channel.extras and continues and strategy.wants_direct(channel):
            self._ask(channel, strategy)

    def _on_registered(self, sender: str, frame: Registered) -> None:
        seat = self._host.seat_of(frame.actor)
        if seat is None or not 0 <= frame.index < len(seat.outs):
            return
        out = seat.outs[frame.index]
        if out.waits:
            out.waits = False
            seat.starved -= 1
            self._host.offer(seat)
        if out.direct is None or not self._rules.is_current(seat, frame):
            return
        for member in frame.lessees:
            extras = out.extras = out.extras or {}
            if member not in extras:
                extras[member] = self._channels.extra_channel(seat, out.receiver, member, out, out.schema)
            out.direct.append(extras[member])

    # The lessor's side.

    def _on_register(self, sender: str, frame: Register) -> None:
        seat = self._host.seat_of(frame.actor)
        gate = seat.gate if seat is not None else None
        if seat is None or not isinstance(gate, LessorGate) or not seat.spec.lessees_max:
            return
        upstream = frame.sender
        if not any(channel.sender == upstream for channel in seat.inputs):
            self._host.refuse(f"a registration of {upstream} with {seat.address}, which it does not feed")
            return
        executed = executed_of(seat, upstream)
        if executed > frame.criticals:
            # Its actor has passed a barrier since: it may ask again when it knows of that.
            self._host.send(sender, Registered(upstream, frame.index, frame.criticals, []))
            return
        if not self._rules.may_register(gate, executed, frame.criticals):
            gate.registrations.append((sender, frame))
            return
        if frame.near:
            lessees = [sender] if self._may_be_near(seat, gate, sender) else []
        else:
            lessees = list(self._leases.candidates(seat, gate))
        for member in lessees:
            lessee = gate.lessees.get(member) or self._leases.grant_lease(seat, gate, member)
            lessee.senders.add(upstream)
            lessee.used = True
        self._host.send(sender, Registered(upstream, frame.index, frame.criticals, lessees))

    def _may_be_near(self, seat: Seat, gate: LessorGate, sender: str) -> bool:
        hosts, lessees = self._hosting.hosts(seat), self._hosting.lessees_set(seat)
        if sender in gate.lessees:
            return sender in self._rules.staying(gate, hosts, lessees)
        return sender in hosts and (lessees is None or len(gate.lessees) < lessees)

    def answer_waiting(self, gate: LessorGate) -> None:
        """Registrations that had to wait are looked at again."""
        waiting, gate.registrations = gate.registrations, []
        for sender, frame in waiting:
            self._on_register(sender, frame)
