"""The number of lessees that actors may have is set at random while jobs run, and it is watched that they keep to it.

A lease beyond the number may continue until the next barrier of its actor, or as long as somebody may send to the
lessee directly; no other is given before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial

from stretto.actors.address import Address
from stretto.actors.deployment import Deployment
from stretto.actors.gate import LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.coordinator.events import LesseesRequested
from stretto.elasticity.decisions import SetLessees
from stretto.elasticity.records import Outcome
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.engine.cluster import SimulatedCluster

CHANGES_MAX = 6
LOOK_NS = 1_000_000


@dataclass
class Leases:
    """The leases of an actor as they were seen last, with the number that was set then. `free_since` are the lessees to
    which nobody may send directly, each with the barrier after which that was seen first."""

    number: int | None
    held: frozenset[str] = frozenset()
    free_since: dict[str, int] = field(default_factory=dict)


@dataclass
class LesseeWatch:
    """Looks at all lessors every millisecond."""

    cluster: SimulatedCluster
    violations: list[Violation] = field(default_factory=list)
    ended: int = 0
    """The number of leases that ended because the number was lowered."""
    _known: dict[Address, Leases] = field(default_factory=dict)

    def look(self) -> None:
        """Checks all lessors now, and again until the jobs have ended."""
        for worker in self.cluster.workers.values():
            for job in worker.jobs.values():
                for address, seat in job.seats.items():
                    if isinstance(seat.gate, LessorGate) and seat.spec.lessees_max:
                        self._check(address, seat.gate, job.lessees_set.get(address.function))
        if any(not job.status.ended for job in self.cluster.jobs.values()):
            self.cluster.plan(LOOK_NS, self.look)

    def _check(self, address: Address, gate: LessorGate, number: int | None) -> None:
        if number is None:
            # Also after a restart of the driver, which has forgotten the number; its attempts have the same names.
            self._known.pop(address, None)
            return
        before = self._known.get(address)
        if before is None or before.number != number:
            before = self._known[address] = Leases(number, frozenset(gate.lessees))
        held = frozenset(gate.lessees)
        new = held - before.held
        if new and len(held) > number:
            self._violated(f"{address} has given {sorted(new)} a lease, and may have {number} lessees: {sorted(held)}")
        free = [member for member, lessee in gate.lessees.items() if not lessee.senders]
        before.free_since = {member: before.free_since.get(member, gate.barriers) for member in free}
        kept = [member for member, barrier in before.free_since.items() if gate.barriers > barrier]
        if gate.state is MailboxState.RUNNABLE and len(kept) > number:
            self._violated(f"{address} may have {number} lessees, and has after a barrier: {sorted(kept)}")
        if len(before.held) > number:
            self.ended += len(before.held - held)
        before.held = held

    def _violated(self, text: str) -> None:
        self.violations.append(Violation("lessees", text))


def plan_numbers(cluster: SimulatedCluster, deployment: Deployment, chance: random.Random, span_ns: int) -> LesseeWatch:
    """Have the number of lessees of spread functions set at random moments; returns who watches."""
    spread = {name: spec.lessees_max for name, spec in deployment.functions.items() if spec.lessees_max}
    watch = LesseeWatch(cluster)
    for _ in range(chance.randint(1, CHANGES_MAX) if spread else 0):
        function = chance.choice(sorted(spread))
        lessees = chance.choice((0, 0, 1, chance.randint(0, spread[function])))
        at_ns = chance.randint(0, span_ns if chance.random() < 0.3 else span_ns // 6)
        cluster.plan(at_ns, partial(cluster.ask, LesseesRequested(deployment.job, function, lessees)))
    if spread:
        cluster.plan(LOOK_NS, watch.look)
    return watch


def numbers_set(cluster: SimulatedCluster) -> int:
    """Returns how often a number was set."""
    records = cluster.decisions.values()
    return sum(isinstance(each.decision, SetLessees) and each.outcome is Outcome.DONE for each in records)
