"""Before an actor has its first task: all critical messages that it has sent so far must have run downstream.

While all shards are at home, critical messages are sent without a wish for an ACK, so that an elastic function that is
not in use costs nothing. A task sends to the actors downstream on channels of its own. What it sends could overtake a
critical message that the home sent before and that still waits there; so the home asks first.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.gate import LessorGate
from stretto.actors.seat import Seat
from stretto.protocol.elastic import AwaitCriticals
from stretto.protocol.leasing import Ack
from stretto.worker.leasing.barriers import executed_of
from stretto.worker.part import FrameHandlers, Host, Part


class Guarding(Protocol):
    """Whoever gives gates."""

    def guard(self, seat: Seat) -> None: ...


class Activation(Part):
    """Both sides: homes here that ask, and actors here that answer."""

    def __init__(self, host: Host, hosting: Guarding) -> None:
        self._host = host
        self._hosting = hosting

    def frames(self) -> FrameHandlers:
        return {AwaitCriticals: self._on_await}

    def ask(self, home: Seat, gate: LessorGate) -> None:
        """Ask all actors downstream. The actor has no task while answers are awaited."""
        if not home.criticals:
            return
        for receiver in dict.fromkeys(out.receiver for out in home.outs):
            gate.unacked += 1
            self._host.send(self._host.home(receiver), AwaitCriticals(receiver, home.address, home.criticals))

    def _on_await(self, sender: str, frame: AwaitCriticals) -> None:
        seat = self._host.seat_of(frame.actor)
        if seat is None or not any(channel.sender == frame.sender for channel in seat.inputs):
            self._host.stale += 1
            return
        if executed_of(seat, frame.sender) >= frame.criticals:
            self._host.send(sender, Ack(frame.sender))
            return
        self._hosting.guard(seat)
        assert isinstance(seat.gate, LessorGate)
        seat.gate.asking.append((sender, frame))

    def answer_waiting(self, gate: LessorGate) -> None:
        """Questions that had to wait are looked at again."""
        waiting, gate.asking = gate.asking, []
        for sender, frame in waiting:
            self._on_await(sender, frame)
