"""Which instances are here, and where lessees may be: new instances get their place, and hosts come and go.

The coordinator says which workers may host lessees of a job. One that is no longer among them loses its lessees at the
next barrier, and the coordinator hears when the last is gone.
"""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address, Attempt, attempt_of
from stretto.actors.gate import LesseeGate, LessorGate, Observer
from stretto.actors.seat import Keeper, Seat
from stretto.actors.wiring import wire_lessee
from stretto.actors.work import OPEN
from stretto.protocol.jobs import Hosts, HostsLeft
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.interfaces import ChannelNumbers
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part


class Evacuating(Protocol):
    """Whoever moves the shards of elastic executors."""

    def evacuate(self, seat: Seat) -> None: ...


class Hosting(Part):
    """The instances here, lessors and lessees."""

    def __init__(self, host: Host, channels: ChannelNumbers, observer: Observer | None) -> None:
        self._host = host
        self._channels = channels
        self._observer = observer

    def connect(self, lessors: Keeper, lessees: Keeper, homes: Evacuating) -> None:
        """Who decides what lessors and lessees may run, and who moves shards."""
        self._lessors = lessors
        self._lessees = lessees
        self._homes = homes

    def frames(self) -> FrameHandlers:
        return {Hosts: self._on_hosts}

    # New instances.

    def take_in(self, seat: Seat, job: LocalJob) -> None:
        """Give a new instance its keeper and its strategies."""
        if job.storage is not None:
            seat.instance.belong_to(Attempt(job.storage.lineage, job.storage.owner, attempt_of(job.job)))
        self._keep(seat)
        seat.demand = job.demands.of(seat.address.function)
        seat.strategy = job.strategies[seat.address.function]
        assert job.deployment is not None
        for out in seat.outs:
            if job.deployment.functions[out.receiver.function].lessees_max:
                out.strategy = job.strategies[out.receiver.function]

    def guard(self, seat: Seat) -> None:
        """From now on messages to this instance may have to be held back."""
        if seat.gate is None:
            seat.gate = LessorGate(seat.address)
            self._keep(seat)

    def unguard(self, seat: Seat) -> None:
        """Nothing needs to be held back any more. A message takes nearly twice as long with a gate."""
        seat.gate = seat.keeper = None

    def _keep(self, seat: Seat) -> None:
        if seat.gate is not None:
            seat.gate.observer = self._observer
            seat.keeper = self._lessees if isinstance(seat.gate, LesseeGate) else self._lessors

    def lessee(self, address: Address) -> Seat | None:
        """The lessee of an actor here, made when it is first needed; None where there can be none."""
        job = self._host.jobs.get(address.job)
        if job is None or job.deployment is None or not job.may_have_lessees(address.function):
            self._host.stale += 1
            return None
        seat = job.lessees.get(address)
        if seat is None:
            seat, outs = wire_lessee(
                address, self._host.member, job.deployment, job.placement, self._channels.made, job.seats
            )
            for out in outs.values():
                if out.local is not None:
                    self.guard(out.local.seat)
            self._channels.add(outs)
            job.lessees[address] = seat
            self.take_in(seat, job)
            seat.mailbox.append(OPEN)
            self._host.offer(seat)
        return seat

    # Hosts.

    def hosts(self, lessor: Seat) -> list[str]:
        """The workers that may host lessees of an actor, those first that it should take first."""
        return self._host.jobs[lessor.address.job].hosts_for(lessor, self._host.member)

    def lessees_set(self, lessor: Seat) -> int | None:
        """How many lessees an actor may have, if that was set."""
        return self._host.jobs[lessor.address.job].lessees_set.get(lessor.address.function)

    def _on_hosts(self, sender: str, frame: Hosts) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        self.set_hosts(job, frame.hosts, frame.lessees)
        job.hosts_change = frame.change
        self._report_hosts_left(job)

    def set_hosts(self, job: LocalJob, hosts: list[str], lessees: dict[str, int]) -> None:
        """From now on these workers may host lessees, and actors may have so many."""
        job.hosts, job.lessees_set = hosts, lessees
        for seat in job.seats.values():
            if isinstance(seat.gate, LessorGate):
                seat.gate.candidates = None
            if seat.executor is not None:
                self._homes.evacuate(seat)

    def leases_changed(self, lessor: Seat) -> None:
        """A barrier is over: perhaps no lessee is left where none may be any more."""
        self._report_hosts_left(self._host.jobs[lessor.address.job])

    def _report_hosts_left(self, job: LocalJob) -> None:
        if not job.hosts_change:
            return
        gates = [seat.gate for seat in job.seats.values() if isinstance(seat.gate, LessorGate)]
        if all(member in job.hosts for gate in gates for member in gate.lessees):
            self._host.effects.append(Send(COORDINATOR, HostsLeft(job.job, job.hosts_change)))
            job.hosts_change = 0
