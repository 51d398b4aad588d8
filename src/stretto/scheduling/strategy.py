"""The scheduling API: what a strategy is asked about each message, and what it can see and do (dirigo.txt 5.1).

A strategy is a small class. Each worker has one, chosen for the cluster by its name or as a user's own `module:Class`;
a function that may have lessees can be given another. All hooks have a default, and by default everything runs at home,
in the order of the policy. Whatever a strategy does, barriers are kept: it chooses among the places that the dual-mode
protocol allows at the moment.

A worked example that is complete, and tested, is `examples/ask_first.py`.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.scheduling.policies import Policy
from stretto.scheduling.ready import ReadyQueue


class Pending:
    """A batch that was sent and whose place is not decided yet."""

    __slots__ = ("arrived_ns", "channel", "deadline_ns", "payload", "progress_us")

    def __init__(
        self, channel: OutChannel, payload: pa.RecordBatch, arrived_ns: int, progress_us: int | None, deadline_ns: int
    ) -> None:
        self.channel = channel
        self.payload = payload
        self.arrived_ns = arrived_ns
        self.progress_us = progress_us
        self.deadline_ns = deadline_ns


class Desk(Protocol):
    """A worker as its strategies see it."""

    @property
    def member(self) -> str:
        """The worker's own name among the members."""

    @property
    def now_ns(self) -> int:
        """The time of what is being handled."""

    def waiting(self) -> int:
        """How many messages wait to run here, of all functions."""

    def admits(self, deadline_ns: float, cost_ns: float) -> bool:
        """Whether one more message could start by its deadline without making another one late. Needs `tracks`."""

    def ahead_ns(self, deadline_ns: float) -> float:
        """What it takes to run all that waits here and is as urgent as this. Needs `tracks`."""

    def late(self, seat: Seat) -> list[Message]:
        """The most urgent of the messages that would start late, of all actors here that have lessees and the strategy
        of this instance. Needs `tracks`."""

    def candidates(self, lessor: Seat) -> list[str]:
        """The workers that may have a lease of an actor here, or have one."""

    def homes(self, member: str) -> int:
        """How many actors a worker is home to, of the jobs that are here too."""

    def busy(self, lessor: Seat, member: str) -> int:
        """How many messages that were forwarded to a worker have not been heard of again."""

    def forward(self, message: Message, to: str) -> bool:
        """Send a message that waits here to a lessee; False when that is not possible any more, or not now."""

    def request(self, to: str, about: Address, content: Any) -> int:
        """A SCHEDULE_REQUEST: ask the strategy of an actor's function on another worker. The number names the reply."""

    def send(self, pending: Pending, channel: OutChannel) -> None:
        """Send a batch for which `prepare_send` gave no place."""


def seeded_random(desk: Desk, seed: int = 0) -> random.Random:
    """Returns a random generator for a strategy, seeded by `seed` and the worker's name: a run can be repeated, and two
    workers do not choose the same place at the same time."""
    return random.Random(f"{seed} {desk.member}")


class Strategy:
    """The hooks. `desk` is there from `bind` on.

    With `near`, a sender asks for a lessee on its own worker and for no other; with `waits`, it sends nothing until it
    knows of lessees. With `tracks`, the worker keeps a laxity queue of all that waits. Without `force_migrate`, a
    lessee may refuse what is forwarded to it, and the lessor runs that itself."""

    near = False
    waits = False
    tracks = False
    force_migrate = True
    has_next_message = False
    has_pre_apply = False
    has_post_apply = False
    desk: Desk

    def __init_subclass__(cls) -> None:
        """The worker calls only the hooks that there are: they would be called for every message."""
        cls.has_next_message = cls.next_message is not Strategy.next_message
        cls.has_pre_apply = cls.pre_apply is not Strategy.pre_apply
        cls.has_post_apply = cls.post_apply is not Strategy.post_apply

    def bind(self, desk: Desk) -> None:
        """The worker introduces itself, once."""
        self.desk = desk

    # Order; asked of the worker's own strategy alone.

    def create_queue(self, policy: Policy) -> ReadyQueue:
        """The queue of those who can run."""
        return ReadyQueue(policy)

    def next_message(self, queue: ReadyQueue, now_ns: int) -> Seat | None:
        """Whose next message runs now."""
        return queue.next_seat(now_ns)

    def pre_apply(self, seat: Seat, work: Work) -> None:
        """A message, or other work, is about to run."""

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        """It has run."""

    # Place; asked of the strategy of the function that gets the message.

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        """A message has come to the lessor: the worker to forward it to, or None to keep it (REJECTSEND)."""
        return None

    def accept(self, lessee: Seat, message: Message) -> bool:
        """A message was forwarded to a lessee here, which may refuse it unless `force_migrate`."""
        return True

    def wants_direct(self, channel: OutChannel) -> bool:
        """Whether a sender should ask for lessees that it may send to directly (DIRECTSEND)."""
        return False

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        """Where the next batch goes: `channel` to the lessor, one of `direct` to its lessees, or None, when it will be
        said later, with `desk.send`. What the actor does at the next barrier waits for that."""
        return channel

    def why(self, function: str) -> str | None:
        """What the strategy has chosen for a function and the reason, where it chooses; it is in the job's metrics."""
        return None

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        """A SCHEDULE_REQUEST has come; what is returned goes back as the SCHEDULE_REPLY. Plain data, both."""
        return None

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        """The reply to a request of this strategy."""
