"""Policies: how urgent a message is. The least number runs first (thesis 5.4.2, 5.5.4).

A policy is a small class. A cluster takes one of these by its name, or a user's own as `module:Class`.
"""

from __future__ import annotations

import importlib
from typing import Any

from stretto.actors.channel import Message
from stretto.actors.instance import Instance, NextRead
from stretto.errors import UserError


class Policy:
    """Override `urgency`; `spent` is told what each run has cost, where a policy has one.

    `starves` says that some could wait for ever if others keep coming, so that the queue must watch over them. A policy
    by deadlines or turns needs no watching: whoever waits becomes more urgent than all that come."""

    starves = True

    def urgency(self, instance: Instance, what: Message | NextRead) -> float:
        """How urgent a message of the instance is, or what a source would read next: the least runs first, equals in
        the order they came."""
        return 0.0

    def spent(self, instance: Instance, cost_ns: int, now_ns: int) -> None:
        """A run has ended."""


class FIFO(Policy):
    """First come, first served: one message of each instance in turn."""

    starves = False


class LLF(Policy):
    """Least laxity first: by the start deadline, which leaves time for the function itself and all below it."""

    starves = False

    def urgency(self, instance: Instance, what: Message | NextRead) -> float:
        return what.deadline_ns


class EDF(Policy):
    """Earliest deadline first: by the moment at which the function must be done."""

    starves = False

    def urgency(self, instance: Instance, what: Message | NextRead) -> float:
        return what.deadline_ns + instance.cost_ns


class SJF(Policy):
    """Shortest job first: by what the function costs, whatever the deadline."""

    def urgency(self, instance: Instance, what: Message | NextRead) -> float:
        return instance.cost_ns


class FairShare(Policy):
    """Shares of the worker's time by job. `shares` are weights; a job that is not named has 1.

    A token is a nanosecond of the worker, and each job's tokens are due at times that pass the more slowly the greater
    its share: whoever's next token is due first runs. Who was idle does not save tokens up, so an idle share is lent
    and nobody pays for it later."""

    starves = False

    def __init__(self, shares: dict[str, float] | None = None) -> None:
        self._shares = dict(shares or {})
        self._due: dict[str, float] = {}
        self._clock = 0.0

    def urgency(self, instance: Instance, what: Message | NextRead) -> float:
        return max(self._due.get(instance.address.job, 0.0), self._clock)

    def spent(self, instance: Instance, cost_ns: int, now_ns: int) -> None:
        job = instance.address.job
        # The clock is at the token that was just used: nobody who comes now begins before it.
        self._clock = max(self._due.get(job, 0.0), self._clock)
        self._due[job] = self._clock + cost_ns / self._shares.get(job, 1.0)


POLICIES: dict[str, type[Policy]] = {"llf": LLF, "edf": EDF, "sjf": SJF, "fifo": FIFO, "fair": FairShare}


def policy_named(name: str) -> Policy:
    """A policy by its name, or a user's own by `module:Class`."""
    if name in POLICIES:
        return POLICIES[name]()
    module_name, _, class_name = name.partition(":")
    if not class_name:
        raise UserError(f"there is no policy '{name}'", None, f"Choose {', '.join(POLICIES)}, or name a module:Class.")
    try:
        found: Any = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"policy '{name}' cannot be imported", str(error), "Write it as module:Class.") from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise UserError(f"'{name}' is not a policy", None, "Subclass stretto.scheduling.Policy.")
    return found()
