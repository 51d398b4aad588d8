"""Strategies that spread an actor without looking at deadlines.

REJECTSEND: the lessor forwards what it cannot do soon. DIRECTSEND: the sender picks among the lessor and its lessees.
"""

from __future__ import annotations

import random
from typing import Any

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.scheduling.strategy import Desk, Pending, Strategy, seeded_random


class PriorityBased(Strategy):
    """Static binding: every message runs at its actor's home, the most urgent first."""


class RejectSend(Strategy):
    """The lessor forwards to the least busy lessee when its own queue is longer than a threshold, and than theirs.

    A queue of cheap messages is done sooner than forwarded: it must also take longer than `patience_ms`, by what
    messages have cost so far."""

    def __init__(self, threshold: int = 4, patience_ms: float = 1.0) -> None:
        self.threshold = threshold
        self.patience_ns = patience_ms * 1e6

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        queued = len(lessor.mailbox)
        if queued < self.threshold or not candidates:
            return None
        metrics = lessor.metrics
        if queued * metrics.busy_ns <= self.patience_ns * metrics.messages_in:
            return None
        busy = [self.desk.busy(lessor, member) for member in candidates]
        least = min(range(len(candidates)), key=busy.__getitem__)
        return candidates[least] if busy[least] < queued else None


class DirectSend(Strategy):
    """Each sender deals its batches in turn to the lessor and its lessees."""

    waits = True

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel:
        places = len(direct) + 1
        for step in range(places):
            turn = (channel.seq + sum(extra.seq for extra in direct) + step) % places
            chosen = channel if turn == 0 else direct[turn - 1]
            if chosen.credits > 0:
                return chosen
        return channel


class Near(Strategy):
    """Each sender has a lessee on its own worker, where its rows are combined before anything crosses the network."""

    near = True

    def wants_direct(self, channel: OutChannel) -> bool:
        return channel.local is None

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel:
        return direct[0] if direct[0].credits > 0 else channel


class ForwardAll(Strategy):
    """Everything goes to lessees, in turn: to show that answers do not depend on where messages run."""

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        return candidates[lessor.metrics.messages_forwarded % len(candidates)] if candidates else None


class Dispatcher(Strategy):
    """A central dispatcher, to show why not (thesis 6.8): the worker that is home to all actors sends each message to
    another one, drawn by lot, and runs none itself."""

    def bind(self, desk: Desk) -> None:
        super().bind(desk)
        self._random = seeded_random(desk)

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        return self._random.choice(candidates) if candidates else None


class Arbitrary(Strategy):
    """Whatever a strategy can do, by lot: to try a protocol out.

    Messages are forwarded as they come, or later out of the queue, and may be refused; batches go directly, at once or
    after a question."""

    def __init__(self, seed: int, forwards: float = 0.5, direct: float = 0.5) -> None:
        self._random = random.Random(seed)
        self._forwards = forwards
        self._direct = direct
        self._asked: dict[int, Pending] = {}
        self.waits = self._random.random() < 0.5
        self.force_migrate = self._random.random() < 0.5
        self._late = self._random.choice((0.0, 0.3))
        self._asks = self._random.choice((0.0, 0.5))

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        return self._random.choice(candidates) if candidates and self._random.random() < self._forwards else None

    def accept(self, lessee: Seat, message: Message) -> bool:
        return self._random.random() < 0.5

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        if not self._late or not seat.spec.lessees_max:
            return
        for message in list(seat.mailbox):
            candidates = self.desk.candidates(seat)
            if candidates and isinstance(message, Message) and self._random.random() < self._late:
                self.desk.forward(message, self._random.choice(candidates))

    def wants_direct(self, channel: OutChannel) -> bool:
        return self._random.random() < self._direct

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        chosen = self._random.choice([channel, *direct])
        if chosen.peer is not None and self._random.random() < self._asks:
            self._asked[self.desk.request(chosen.peer, channel.receiver, "?")] = pending
            return None
        return chosen if chosen.credits > 0 else channel

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return self._random.random()

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        pending = self._asked.pop(number)
        direct = [out for out in pending.channel.direct or () if out.credits > 0]
        self.desk.send(pending, self._random.choice([pending.channel, *direct]))
