"""Workers that leave while jobs run. A part of the coordinator machine.

A worker that is drained gets nothing new. Lessees and shards leave it because it is no host of any job any more
(`hosts.py`), homes because their jobs are handed over to attempts without it (`handovers.py`), and places of entities
move (`entity_moves.py`). When nothing is there,
it is asked to leave, and its Spark task returns; only then is the slot free. It is not replaced, also if it is lost
meanwhile, which is otherwise an ordinary loss: its jobs recover. A transient worker is asked to leave at once: what
runs there runs again at home.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from stretto.coordinator.interfaces import Observers, Settled
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import Host, Part
from stretto.coordinator.records import Job, JobStatus
from stretto.coordinator.standing import Standing

HANDED_OVER_NS = 1_000_000_000
"""The interval at which a handover is tried again that was called off."""
HASTENED_NS = 500_000_000
"""The interval of checkpoints of a job that has leases on a worker that drains."""


class Hosts(Protocol):
    """Whoever knows what is on a worker, and has leases and shards leave it."""

    def withdraw(self, member: str) -> None: ...

    def is_free(self, member: str) -> bool: ...


class Handovers(Protocol):
    """Whoever hands running jobs over to attempts with other homes."""

    def refusal(self, job: Job, parallelism: Mapping[str, int], avoid: frozenset[str] = ...) -> str | None: ...

    def reshape(self, job: Job, order: int, parallelism: Mapping[str, int], avoid: frozenset[str] = ...) -> None: ...


class EntitiesThere(Protocol):
    """Whoever knows where entities are."""

    def on(self, member: str) -> list[str]: ...


class TransientWorkers(Protocol):
    """Whoever has batches go to transient workers."""

    def withdraw(self, member: str) -> None: ...


class Draining(Part):
    """The workers that are to leave, until their Spark tasks have returned."""

    def __init__(self, host: Host, membership: Membership, hosts: Hosts, handovers: Handovers) -> None:
        self._host = host
        self._membership = membership
        self._hosts = hosts
        self._handovers = handovers
        self._since_ns: dict[str, int] = {}
        self._tried_ns: dict[str, int] = {}
        """When a job was last handed over, by its name."""
        self._announced: frozenset[str] = frozenset()

    def connect(
        self, settled: Settled, observers: Observers, entities: EntitiesThere, transients: TransientWorkers
    ) -> None:
        self._settled = settled
        self._transients = transients
        self._observers = observers
        self._entities = entities

    # Who leaves.

    def refusal(self, member: str) -> str | None:
        """Returns why a worker cannot be drained; None if it can."""
        standing = self._membership.standings.of(member)
        if member == self._membership.driver or standing is None:
            return f"there is no worker {member}"
        if standing is Standing.TRANSIENT:
            return None  # Nothing lives there, and what runs there runs elsewhere then.
        if standing is not Standing.ACTIVE:
            return f"it is {standing.value}"
        if self._membership.active() == [member]:
            return "it is the only worker"
        return next((why for job in self._at_home(member) if (why := self._unmovable(job, member))), None)

    def _unmovable(self, job: Job, member: str) -> str | None:
        """Returns why the actors that are at home on a worker cannot move; None if they can, now or soon."""
        if job.durability is None:
            sinks = [name for name, shape in job.shapes.items() if shape.is_sink and member in job.placement[name]]
            if sinks:
                why = "only with checkpoints can another worker continue what it writes"
                return f"it is home to sink '{sinks[0]}' of {job.name}, and {why}"
        if job.status is not JobStatus.RUNNING or job.handover is not None:
            return None
        avoid = frozenset({member, *self._membership.draining})
        why_not = self._handovers.refusal(job, {}, avoid)
        return None if why_not is None else f"it is home to actors of {job.name}, which cannot move: {why_not}"

    def leavers(self, count: int) -> tuple[list[str], str | None]:
        """Returns the workers that are best drained, those with the fewest homes, the least load and the last to join
        first, and why not all `count` of them can be."""
        candidates = sorted(self._membership.active(), key=self._weight)
        refusals = {member: self.refusal(member) for member in candidates}
        free = [member for member in candidates if refusals[member] is None]
        if len(free) >= count and len(candidates) > count:
            return free[:count], None
        why = [f"{member}: {refusal}" for member, refusal in refusals.items() if refusal is not None]
        able = min(len(free), len(candidates) - 1)
        return candidates[:1], f"{able} of {len(candidates)} workers can leave" + (
            f" ({'; '.join(why)})" if why else ""
        )

    def _weight(self, member: str) -> tuple[int, float, int]:
        homes = sum(members.count(member) for job in self._unended() for members in job.placement.values())
        homes += len(self._entities.on(member))
        observed = self._observers.last.workers.get(member)
        position = list(self._membership.members).index(member)
        return homes, 0.0 if observed is None else round(observed.busy_share, 2), -position

    # Leaving.

    def announce(self, members: Iterable[str]) -> None:
        """Says who is drained next. Homes leave all of them at one barrier, and do not move from one to another."""
        self._announced = frozenset(members)

    def leaves(self, member: str) -> bool:
        """Whether a worker is being drained, or has nothing left to wait for."""
        return member in self._since_ns

    def drain(self, member: str) -> None:
        """Has a worker leave; what becomes of it is reported under its name."""
        self._since_ns[member] = self._host.now_ns
        if self._membership.standings.of(member) is Standing.TRANSIENT:
            self._transients.withdraw(member)
            self._membership.dismiss(member)
            return
        self._membership.drain(member)
        self._hosts.withdraw(member)
        self.tick()

    def tick(self) -> None:
        """Moves homes away that are still there, and asks workers to leave where nothing is."""
        draining = self._membership.draining
        self._tried_ns = {name: at_ns for name, at_ns in self._tried_ns.items() if name in self._host.jobs and draining}
        for job in self._unended() if draining else ():
            if job.status is not JobStatus.RUNNING:
                continue
            if not job.homes.isdisjoint(draining):
                self._move_homes(job, self._announced.union(draining))
            if not job.leaving.isdisjoint(draining):
                self._hasten(job)
        self.dismiss_idle()

    def _move_homes(self, job: Job, avoid: frozenset[str]) -> None:
        """Hands a job over to an attempt without actors on these workers, and again if that was called off."""
        tried_ns = self._tried_ns.get(job.name, -HANDED_OVER_NS)
        if self._host.now_ns - tried_ns < HANDED_OVER_NS or self._handovers.refusal(job, {}, avoid) is not None:
            return
        self._tried_ns[job.name] = self._host.now_ns
        self._handovers.reshape(job, 0, {}, avoid)

    def _hasten(self, job: Job) -> None:
        """Has a job take checkpoints until the leases on a draining worker have ended: they end at barriers, and a
        checkpoint is a barrier of every actor. Otherwise the next watermark ends them."""
        durability = job.durability
        if durability is None or durability.underway is not None or durability.committing is not None:
            return
        if job.handover is not None:
            return  # It ends all leases of this attempt.
        if self._host.now_ns - durability.began_ns >= HASTENED_NS:
            durability.requested = True

    def dismiss_idle(self) -> None:
        """Asks the draining workers that are idle to leave."""
        for member in self._membership.draining:
            if self._hosts.is_free(member) and not self._entities.on(member):
                self._membership.dismiss(member)

    def ended(self, member: str) -> None:
        """The Spark task of a worker has returned."""
        since_ns = self._since_ns.pop(member, None)
        if since_ns is not None:
            self._settled.finished(member, {"seconds": (self._host.now_ns - since_ns) / 1e9})

    def _at_home(self, member: str) -> list[Job]:
        return [job for job in self._unended() if member in job.homes and job.status is not JobStatus.STOPPING]

    def _unended(self) -> list[Job]:
        return [job for job in self._host.jobs.values() if not job.status.ended]
