"""Workers that are added while jobs run. A part of the coordinator machine.

Each is started by the driver (`StartWorker`), and joins like any other. It gets the code of the running jobs then, and
may host lessees and tasks of each as soon as it has loaded it (`hosts.py`). Transient ones are added in the same way,
and are of use as soon as they have loaded a job (`transients.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stretto.coordinator.events import StartWorker
from stretto.coordinator.interfaces import Settled
from stretto.coordinator.membership import Membership, worker_of
from stretto.coordinator.part import Host, Part

COLD_WITHIN_NS = 120_000_000_000
"""So long is a transient worker waited for that was asked for."""


@dataclass
class Addition:
    """Workers that are added together: those that have not joined, those that have, and why others cannot. Transient
    ones are not waited for after `until_ns`."""

    missing: set[str]
    until_ns: int | None = None
    joined: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Adding(Part):
    """The additions under way, by the worker that was named first."""

    def __init__(self, host: Host, membership: Membership) -> None:
        self._host = host
        self._membership = membership
        self._additions: dict[str, Addition] = {}

    def connect(self, settled: Settled) -> None:
        self._settled = settled

    def add(self, count: int, transient: bool = False) -> str:
        """Has so many workers started; returns what the order is known by."""
        names = self._membership.name_more(count, transient)
        order = worker_of(names[0])  # Not a member's name, by which its drain is known.
        until_ns = self._host.now_ns + COLD_WITHIN_NS if transient else None
        self._additions[order] = Addition({worker_of(name) for name in names}, until_ns)
        self._host.effects.extend(StartWorker(name, transient) for name in names)
        return order

    def deadline_ns(self) -> int | None:
        return min((each.until_ns for each in self._additions.values() if each.until_ns is not None), default=None)

    def tick(self) -> None:
        """Gives up transient workers that have not come: the burst that they were for may be over, and what Spark has
        queued for them would hold slots for good."""
        now_ns = self._host.now_ns
        late = [each for each in self._additions.values() if each.until_ns is not None and now_ns >= each.until_ns]
        for addition in late:
            for base in sorted(addition.missing):
                self._membership.give_up(base, f"it has not come within {COLD_WITHIN_NS / 1e9:g} s")

    def joined(self, member: str) -> None:
        """A worker has joined; another incarnation of it counts too."""
        for order, addition in list(self._additions.items()):
            if worker_of(member) in addition.missing:
                addition.missing.discard(worker_of(member))
                addition.joined.append(member)
                self._settle(order, addition)

    def start_failed(self, member: str, reason: str) -> None:
        """A worker cannot be started."""
        for order, addition in list(self._additions.items()):
            if worker_of(member) in addition.missing:
                addition.missing.discard(worker_of(member))
                addition.failures.append(reason)
                self._settle(order, addition)

    def _settle(self, order: str, addition: Addition) -> None:
        if addition.missing:
            return
        del self._additions[order]
        if addition.failures:
            count = len(addition.joined) + len(addition.failures)
            self._settled.failed(order, f"{len(addition.joined)} of {count} workers joined: {addition.failures[0]}")
        else:
            self._settled.finished(order, {"workers": float(len(addition.joined))})
