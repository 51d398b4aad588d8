"""Variants of coming and going workers with one bug each. The checkers must catch every one, or they check nothing."""

from __future__ import annotations

from stretto.actors.gate import LessorGate
from stretto.actors.mailbox_states import MailboxState
from stretto.actors.seat import Seat
from stretto.coordinator.checkpointing import Checkpointing
from stretto.coordinator.draining import Draining
from stretto.coordinator.handovers import Handovers
from stretto.coordinator.hosts import LesseeHosts
from stretto.coordinator.jobs import Jobs
from stretto.coordinator.machine import CoordinatorParts
from stretto.coordinator.membership import Membership
from stretto.coordinator.records import Job, JobStatus
from stretto.coordinator.standing import Standing
from stretto.protocol.jobs import HostsLeft
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR, MemberRole
from stretto.simulator.checking.mutations import mutation_name, worker_with
from stretto.simulator.engine.durable import Parts
from stretto.worker.elastic.homes import Homes
from stretto.worker.hosting import Hosting
from stretto.worker.leasing.rules import Rules
from stretto.worker.local_job import LocalJob


class LeavesBeforeItIsEmpty(Draining):
    """A worker leaves before its shards and lessees have moved."""

    def dismiss_idle(self) -> None:
        for member in self._membership.draining:
            self._membership.dismiss(member)


class SlotFreeEarly(Draining):
    """A worker counts as gone when it has left, and not when its Spark task has returned."""

    def dismiss_idle(self) -> None:
        before = self._membership.draining
        super().dismiss_idle()
        for member in sorted(set(before).difference(self._membership.draining)):
            self.ended(member)


class LeaverForgotten(LesseeHosts):
    """A worker that drains is no member of a job any more while its lessees still are there: its loss is not
    noticed."""

    def _change(self, job: Job, hosts: list[str]) -> None:
        super()._change(job, hosts)
        job.leaving = set()


class SnapshotCutOff(LesseeHosts):
    """A worker leaves while it writes its part of a checkpoint."""

    def is_free(self, member: str) -> bool:
        running = [job for job in self._host.jobs.values() if not job.status.ended]
        return not any(member in job.members or job.unchanged for job in running)


class LostPartAwaited(Checkpointing):
    """A checkpoint goes on waiting for the part of a worker that was lost while it drained."""

    def member_lost(self, member: str) -> None:
        pass


class HostBeforeCode(Jobs):
    """A new worker may host lessees and tasks before it has the code of the job."""

    def joined(self, member: str) -> None:
        for job in self._host.jobs.values():
            if job.status is JobStatus.RUNNING and job.spreads and member in self._hosts.workers():
                self._hosts.loaded(job, member)


class DrainedReplaced(Membership):
    """Another worker is started in place of one that was lost while it drained."""

    def _lose(self, name: str, reason: str, *more: object, **options: object) -> None:
        draining = self.standings.of(name) is Standing.DRAINING
        super()._lose(name, reason, *more, **options)  # type: ignore[arg-type]
        if draining:
            self._replace(name, standing=None)


class NewcomerNotTold(Handovers):
    """A worker that becomes a host while a job is handed over does not hear of it: what its tasks have is given to
    nobody."""

    def host_joins(self, job: Job, member: str) -> None:
        pass


class PlacedOnLeavers(Membership):
    """A worker that drains still gets work."""

    def active(self) -> list[str]:
        leaving = self.standings.named(Standing.DRAINING, Standing.ACTIVE)
        return sorted(n for n, member in self.members.items() if member.role is MemberRole.WORKER and n in leaving)


class StillWanted(Membership):
    """A worker that is drained is still wanted."""

    def drain(self, name: str) -> None:
        super().drain(name)
        self.wanted += 1


class PartialStateDropped(Hosting):
    """A lessor forgets the lessees on a worker that drains at once, with their partial states."""

    def set_hosts(self, job: LocalJob, hosts: list[str], lessees: dict[str, int]) -> None:
        super().set_hosts(job, hosts, lessees)
        for seat in job.seats.values():
            if isinstance(seat.gate, LessorGate) and seat.gate.state is MailboxState.RUNNABLE:
                for member in [member for member in seat.gate.lessees if member not in hosts]:
                    seat.gate.former[member] = seat.gate.lessees.pop(member)


class LeftAtOnce(Hosting):
    """A member confirms a change of hosts although lessees are still where none may be."""

    def _report_hosts_left(self, job: LocalJob) -> None:
        if job.hosts_change:
            self._host.effects.append(Send(COORDINATOR, HostsLeft(job.job, job.hosts_change)))
            job.hosts_change = 0


class QueuedMovesKept(Homes):
    """Shards still move to a worker that drains, if they were told to before."""

    def evacuate(self, seat: Seat) -> None:
        executor = seat.executor
        queued = list(executor.moves) if executor is not None else []
        super().evacuate(seat)
        if seat.executor is not None and seat.executor is executor:
            executor.moves.clear()
            executor.moves.extend(queued)


class ExcessDroppedAtOnce(Hosting):
    """A lessor forgets the lessees beyond their number at once, with their partial states."""

    def set_hosts(self, job: LocalJob, hosts: list[str], lessees: dict[str, int]) -> None:
        super().set_hosts(job, hosts, lessees)
        for seat in job.seats.values():
            gate, number = seat.gate, self.lessees_set(seat)
            if isinstance(gate, LessorGate) and number is not None and gate.state is MailboxState.RUNNABLE:
                for member in list(gate.lessees)[number:]:
                    gate.former[member] = gate.lessees.pop(member)


class NumberKnownToSendersOnly(Rules):
    """Leases beyond their number continue over barriers."""

    def staying(self, gate: LessorGate, hosts: list[str], lessees: int | None) -> list[str]:
        return super().staying(gate, hosts, None)


class NumberNeverSet(Hosting):
    """A lessor gives as many leases as its function was deployed with."""

    def lessees_set(self, lessor: Seat) -> int | None:
        return None


SCALING_MUTATIONS: dict[str, Parts] = {
    **{
        mutation_name(mutation): Parts(coordinator=CoordinatorParts(draining=mutation))
        for mutation in (LeavesBeforeItIsEmpty, SlotFreeEarly)
    },
    **{
        mutation_name(mutation): Parts(coordinator=CoordinatorParts(membership=mutation))
        for mutation in (DrainedReplaced, PlacedOnLeavers, StillWanted)
    },
    **{
        mutation_name(mutation): Parts(coordinator=CoordinatorParts(hosts=mutation))
        for mutation in (LeaverForgotten, SnapshotCutOff)
    },
    mutation_name(HostBeforeCode): Parts(coordinator=CoordinatorParts(jobs=HostBeforeCode)),
    mutation_name(LostPartAwaited): Parts(coordinator=CoordinatorParts(checkpointing=LostPartAwaited)),
    mutation_name(NewcomerNotTold): Parts(coordinator=CoordinatorParts(handovers=NewcomerNotTold)),
    **{
        mutation_name(mutation): Parts(worker=worker_with(mutation))
        for mutation in (
            PartialStateDropped,
            LeftAtOnce,
            QueuedMovesKept,
            ExcessDroppedAtOnce,
            NumberKnownToSendersOnly,
            NumberNeverSet,
        )
    },
}
