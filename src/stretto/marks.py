"""The marks of checkpoints that will not be: they are void, and nobody waits for them.

A part of the worker machine. The coordinator calls a checkpoint off when it cannot be stored, or when an actor cannot
come to its mark. The latter happens where a user's joint barrier reaches the actor too: if one of its upstream actors
sends the mark first and another one the user's message, each of the two barriers waits for what the other holds back.
The checkpoint yields, since it can be taken again. Two such barriers can also wait for each other at different actors,
where those between them have no credits left; then nobody sees it but by time.

Where nobody has lessees, an actor has its gate for joint barriers alone, and gives it back after each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.critical import Granularity, Mark, granularity
from stretto.actors.gate import LessorGate
from stretto.actors.instance import Instance
from stretto.actors.mailbox_states import MailboxState

if TYPE_CHECKING:
    from stretto.worker import Worker


def is_void(instance: Instance, message: Message) -> bool:
    """Whether it is the mark of a checkpoint that the actor has passed or that was called off."""
    return isinstance(message.payload, Mark) and message.payload.checkpoint <= instance.marked


class Marks:
    """What becomes of marks at the actors of one worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def crossed(self, instance: Instance, gate: LessorGate) -> bool:
        """Whether joint critical messages have come in different orders on the channels of an actor, so that none of
        their barriers could ever begin: a mark here and a user's own there, or the marks of two checkpoints."""
        together = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        checkpoints = {m.payload.checkpoint for m in together if isinstance(m.payload, Mark)}
        if len(checkpoints) > 1:
            return True
        return bool(checkpoints) and any(not isinstance(m.payload, Mark) for m in together)

    def uncross(self, instance: Instance, gate: LessorGate) -> None:
        """Of two checkpoints the earlier one was called off, or the later one would not have begun."""
        checkpoints = {m.payload.checkpoint for m in gate.waiting.values() if isinstance(m.payload, Mark)}
        last = max(checkpoints)
        if len(checkpoints) > 1:
            instance.marked = max(instance.marked, last - 1)
        else:
            instance.marked = last
            self._worker.snapshots.decline(instance, last, "a joint barrier of the app's own came across it")
        self.release(instance, gate)

    def overdue(self, instance: Instance, gate: LessorGate, checkpoint: int) -> None:
        """A checkpoint takes long. If since the last time this was said an actor waits for the same joint messages of
        the app's own, and not for its mark, the mark may be what keeps these from coming."""
        own = [m for m in gate.waiting.values() if granularity(m.payload) is Granularity.ONE]
        waits = {m.seq for m in own if not isinstance(m.payload, Mark)}
        if waits and gate.overdue == (checkpoint, waits):
            self._worker.snapshots.decline(instance, checkpoint, "a joint barrier of the app's own waits for too long")
        gate.overdue = (checkpoint, waits)

    def release(self, instance: Instance, gate: LessorGate) -> None:
        """Let go what waits for marks that have become void. Those of a barrier that has begun will be passed."""
        void = [message for message in gate.waiting.values() if is_void(instance, message)]
        if not void or gate.state is not MailboxState.RUNNABLE:
            return
        for message in void:
            del gate.waiting[message.channel]
            self._worker.leasing.note(instance, gate, message)
        instance.mailbox.put_back(gate.held)
        gate.held.clear()

    def unguard(self, instance: Instance, gate: LessorGate) -> None:
        """A barrier is over. A message takes nearly twice as long with a gate, so one that nothing needs goes."""
        deployment = self._worker.jobs[instance.address.job].deployment
        assert deployment is not None
        if gate.waiting or gate.held or deployment.spreads:
            return
        if not any(isinstance(work, Message) and needs_gate(work) for work in instance.mailbox):
            instance.gate = None


def needs_gate(message: Message) -> bool:
    """Whether it is a critical message whose barrier waits for other channels or instances, which only an instance with
    a gate can do."""
    if isinstance(message.payload, pa.RecordBatch):
        return False
    return message.sync is not None or granularity(message.payload) is Granularity.ONE
