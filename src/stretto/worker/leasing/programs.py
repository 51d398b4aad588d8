"""What rides with a critical message and what a lessee reports at a barrier: how far was sent on every channel."""

from __future__ import annotations

from stretto.actors.channel import OutChannel
from stretto.actors.critical import Last, SyncProgram
from stretto.actors.gate import LessorGate
from stretto.actors.seat import Seat
from stretto.protocol.leasing import Told


class Programs:
    """SYNC programs (dirigo.txt table 1)."""

    def __init__(self, member: str) -> None:
        self._member = member

    def program(self, channel: OutChannel) -> SyncProgram | None:
        """The SYNC program for a critical message on a channel between lessors; None when nobody else is concerned."""
        gate = channel.seat.gate
        last = self.dependencies(channel)
        ack = False
        if isinstance(gate, LessorGate) and self._has_others(channel.seat, gate):
            ack = True
            gate.unacked += 1
        return SyncProgram(tuple(last), ack) if last or ack else None

    def _has_others(self, seat: Seat, gate: LessorGate) -> bool:
        """Whether instances on other workers send for this actor, or may after this critical message."""
        if seat.spec.tasks_max:
            return bool(gate.lessees) or seat.executor is not None
        return bool(seat.spec.lessees_max)

    def dependencies(self, channel: OutChannel) -> list[Last]:
        """DEPENDENCY_PAYLOAD: what the lessees have reported, and what the lessor itself has sent directly to
        lessees."""
        gate = channel.seat.gate
        last = list(gate.told.pop(channel.index, {}).values()) if isinstance(gate, LessorGate) else []
        for extra in (channel.extras or {}).values():
            if extra.seq > extra.synced:
                extra.synced = extra.seq
                last.append(self._last(extra))
        channel.direct = None
        return last

    def told(self, lessee: Seat) -> tuple[Told, ...]:
        """How far a lessee has sent on every channel that it has used since its last barrier."""
        told = []
        for out in lessee.outs:
            for channel in (out, *(out.extras or {}).values()):
                if channel.seq > channel.synced:
                    channel.synced = channel.seq
                    told.append(Told(out.index, self._last(channel)))
            out.direct = None
        return tuple(told)

    def forwarded(self, member: str, gate: LessorGate) -> list[Last]:
        """What a lessor has forwarded to a lessee."""
        channels = gate.lessees[member].channels.values()
        return [Last(member, self._member, channel.number, channel.seq) for channel in channels if channel.seq]

    def _last(self, channel: OutChannel) -> Last:
        return Last(channel.peer or self._member, self._member, channel.number, channel.seq)
