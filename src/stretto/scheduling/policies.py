"""Policies: how urgent a message is. The least number runs first (thesis 5.4.2, 5.5.4).

A policy is a small class. A cluster takes one of these by its name, or a user's own as `module:Class`.
"""

from __future__ import annotations

from stretto.actors.channel import Message
from stretto.actors.seat import NextRead, Seat
from stretto.scheduling.naming import named


class Policy:
    """Override `urgency`; `spent` is told what each run has cost, where a policy has one.

    `starves` says that some could wait for ever if others keep coming, so that the queue must watch over them. A policy
    by deadlines or turns needs no watching: whoever waits becomes more urgent than all that come."""

    starves = True
    by_deadline = True
    """Whether the messages of one instance go by their deadlines too, and not as they came."""
    by_time = False
    """Whether an urgency is a moment, so that the queue sees who is hopelessly late."""
    has_spent = False

    def __init_subclass__(cls) -> None:
        cls.has_spent = cls.spent is not Policy.spent

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        """How urgent a message of the seat is, or what a source would read next: the least runs first, equals in
        the order they came."""
        return 0.0

    def spent(self, seat: Seat, cost_ns: int, now_ns: int) -> None:
        """A run has ended."""


class FIFO(Policy):
    """First come, first served: one message of each seat in turn."""

    starves = False
    by_deadline = False


class LLF(Policy):
    """Least laxity first: by the start deadline, which leaves time for the function itself and all below it."""

    starves = False
    by_time = True

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        return what.deadline_ns + seat.demand.handicap_ns


class EDF(Policy):
    """Earliest deadline first: by the moment at which the function must be done."""

    starves = False
    by_time = True

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        return what.deadline_ns + seat.cost_ns + seat.demand.handicap_ns


class SJF(Policy):
    """Shortest job first: by what the function costs, whatever the deadline."""

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        return seat.cost_ns


class FairShare(Policy):
    """Shares of the worker's time by job: weights, which an app states as `objective(share=...)`, or `shares` here.

    A token is a nanosecond of the worker, and each job's tokens are due at times that pass the more slowly the greater
    its share: whoever's next token is due first runs. Who was idle does not save tokens up, so an idle share is lent
    and nobody pays for it later."""

    starves = False

    def __init__(self, shares: dict[str, float] | None = None) -> None:
        self._shares = dict(shares or {})
        self._due: dict[str, float] = {}
        self._clock = 0.0

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        return max(self._due.get(seat.address.job, 0.0), self._clock)

    def spent(self, seat: Seat, cost_ns: int, now_ns: int) -> None:
        # The clock is at the token by which this one was chosen: all who wait have later ones, and nobody who comes now
        # begins before it. (Its job's next token may be due much later, since other instances of it have run as well.)
        self._clock = max(self._clock, seat.urgency)
        job = seat.address.job
        share = self._shares.get(job) or seat.share
        self._due[job] = max(self._due.get(job, 0.0), self._clock) + cost_ns / share


POLICIES: dict[str, type[Policy]] = {"llf": LLF, "edf": EDF, "sjf": SJF, "fifo": FIFO, "fair": FairShare}


def policy_named(name: str) -> Policy:
    """A policy by its name, or a user's own by `module:Class`."""
    return named(name, POLICIES, Policy, "policy")
