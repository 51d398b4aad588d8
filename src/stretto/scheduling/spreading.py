"""Simple strategies that spread an actor over workers; those that go by deadlines build on the same hooks.

REJECTSEND: the lessor forwards what it cannot do soon. DIRECTSEND: the sender picks among the lessor and its lessees.
"""

from __future__ import annotations

import random

from stretto.actors.channel import OutChannel
from stretto.actors.deployment import Spreading
from stretto.actors.gate import LessorGate
from stretto.actors.instance import Instance


class RejectSend(Spreading):
    """The lessor forwards to the least busy lessee when its own queue is longer than a threshold, and than theirs.

    A queue of cheap messages is done sooner than forwarded: it must also take longer than `patience_ms`, by what
    messages have cost so far."""

    def __init__(self, threshold: int = 4, patience_ms: float = 1.0) -> None:
        self.threshold = threshold
        self.patience_ns = patience_ms * 1e6

    def enqueue(self, lessor: Instance, candidates: list[str]) -> str | None:
        queued = len(lessor.mailbox)
        if queued < self.threshold or not candidates:
            return None
        metrics = lessor.metrics
        if queued * metrics.busy_ns <= self.patience_ns * metrics.messages_in:
            return None
        gate = lessor.gate
        assert isinstance(gate, LessorGate)
        lessees = gate.lessees
        busy = [lessees[member].unsettled if member in lessees else 0 for member in candidates]
        least = min(range(len(candidates)), key=busy.__getitem__)
        return candidates[least] if busy[least] < queued else None


class DirectSend(Spreading):
    """Each sender deals its batches in turn to the lessor and its lessees."""

    waits = True

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel]) -> OutChannel:
        places = len(direct) + 1
        for step in range(places):
            turn = (channel.seq + sum(extra.seq for extra in direct) + step) % places
            chosen = channel if turn == 0 else direct[turn - 1]
            if chosen.credits > 0:
                return chosen
        return channel


class Near(Spreading):
    """Each sender has a lessee on its own worker, where its rows are combined before anything crosses the network."""

    near = True

    def wants_direct(self, channel: OutChannel) -> bool:
        return channel.local is None

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel]) -> OutChannel:
        return direct[0] if direct[0].credits > 0 else channel


class ForwardAll(Spreading):
    """Everything goes to lessees, in turn: to show that answers do not depend on where messages run."""

    def enqueue(self, lessor: Instance, candidates: list[str]) -> str | None:
        return candidates[lessor.metrics.messages_forwarded % len(candidates)] if candidates else None


class Arbitrary(Spreading):
    """Where a message runs is drawn by lot, both ways of spreading together: to try a protocol out."""

    def __init__(self, seed: int, forwards: float = 0.5, direct: float = 0.5) -> None:
        self._random = random.Random(seed)
        self._forwards = forwards
        self._direct = direct
        self.waits = self._random.random() < 0.5

    def enqueue(self, lessor: Instance, candidates: list[str]) -> str | None:
        return self._random.choice(candidates) if candidates and self._random.random() < self._forwards else None

    def wants_direct(self, channel: OutChannel) -> bool:
        return self._random.random() < self._direct

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel]) -> OutChannel:
        chosen = self._random.choice([channel, *direct])
        return chosen if chosen.credits > 0 else channel
