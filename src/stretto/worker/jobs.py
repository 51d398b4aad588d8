"""The life of a job on this worker: its code is loaded, its actors are made and opened, it runs, it is dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stretto.actors.deployment import Deployment
from stretto.actors.gate import LessorGate
from stretto.actors.seat import Phase, Seat
from stretto.actors.wiring import wire
from stretto.actors.work import OPEN, Errand, Open, Outcome
from stretto.protocol.jobs import Deploy, Drain, Finished, Loaded, Ready, Start, Stop, Stopped
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.scheduling.strategy import Strategy
from stretto.worker.events import Close, CodeFailed, CodeLoaded, LoadCode
from stretto.worker.interfaces import ChannelNumbers
from stretto.worker.local_job import JobPhase, LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Handlers, Host, Part
from stretto.worker.promises import promising


class Strategies(Protocol):
    """Whoever gives functions their strategies."""

    def strategies(self, deployment: Deployment) -> dict[str, Strategy]: ...


class Taking(Protocol):
    """Whoever gives new instances their place."""

    def take_in(self, seat: Seat, job: LocalJob) -> None: ...

    def set_hosts(self, job: LocalJob, hosts: list[str], lessees: dict[str, int]) -> None: ...


class Resuming(Protocol):
    """Whoever knows how to resume from a checkpoint."""

    def fetch(self, job: LocalJob) -> None: ...

    def start(self, job: LocalJob) -> None: ...


class Reporting(Protocol):
    """Whoever reports."""

    def report(self, job: LocalJob) -> None: ...


class Neighbours(Protocol):
    """Whoever bounds runs by the objectives of other jobs."""

    def changed(self) -> None: ...


class TakingOver(Protocol):
    """Whoever takes over from a running attempt."""

    def prepare(self, job: LocalJob) -> None: ...

    def start(self, job: LocalJob) -> None: ...


class JobsHost(Host, Protocol):
    """The machine, which can drop a job."""

    def drop(self, name: str) -> None: ...


class Jobs(Part):
    """The jobs that have something here."""

    def __init__(
        self,
        host: JobsHost,
        channels: ChannelNumbers,
        desk: Strategies,
        hosting: Taking,
        snapshots: Resuming,
        reports: Reporting,
        neighbours: Neighbours,
        takers: TakingOver,
    ) -> None:
        self._host = host
        self._channels = channels
        self._desk = desk
        self._hosting = hosting
        self._snapshots = snapshots
        self._reports = reports
        self._neighbours = neighbours
        self._takers = takers

    def events(self) -> Handlers:
        return {CodeLoaded: self._on_code_loaded, CodeFailed: self._on_code_failed}

    def frames(self) -> FrameHandlers:
        return {
            Deploy: self._on_deploy,
            Start: self._on_start,
            Drain: self._on_drain,
            Stop: self._on_stop,
        }

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {Open: AfterRun(completes=self._opened)}

    # It begins.

    def _on_deploy(self, sender: str, frame: Deploy) -> None:
        self._host.jobs[frame.job] = LocalJob(
            frame.job, frame.placement, frame.storage, frame.origin, frame.follows, frame.promise
        )
        self._host.effects.append(LoadCode(frame.job, frame.digest))

    def _on_code_failed(self, event: CodeFailed) -> None:
        if event.job in self._host.jobs:
            self._host.fail(event.job, event.failure)

    def _on_code_loaded(self, event: CodeLoaded) -> None:
        job = self._host.jobs.get(event.job)
        if job is None:
            return  # Stopped before it was loaded.
        job.phase = JobPhase.OPENING
        self._host.effects.append(Send(COORDINATOR, Loaded(job.job)))
        job.deployment = promising(replace(event.deployment, job=job.job), job.promise)
        wiring = wire(self._host.member, job.deployment, job.placement, self._channels.made)
        job.strategies = self._desk.strategies(job.deployment)
        job.seats = wiring.seats
        self._channels.add(wiring.outs)
        for seat in job.seats.values():
            self._hosting.take_in(seat, job)
        self._neighbours.changed()
        if job.follows is not None:
            self._takers.prepare(job)
        elif job.origin is not None:
            self._snapshots.fetch(job)
        else:
            self.open(job)

    def open(self, job: LocalJob) -> None:
        """Let the actors of a job here be opened, but for those that had finished before a failure."""
        opening = [seat for seat in job.seats.values() if seat.phase is Phase.OPENING]
        job.opening = len(opening)
        job.finished = len(job.seats) - len(opening)
        for seat in opening:
            if seat.paused is not None:
                seat.paused.append(OPEN)
            else:
                seat.mailbox.append(OPEN)
            self._host.offer(seat)
        self._ready_if_opened(job)

    def _opened(self, seat: Seat, errand: Open, outcome: Outcome) -> None:
        had_finished = seat.instance.finished
        seat.phase = Phase.FINISHED if had_finished else Phase.OPEN
        job = self._host.jobs[seat.address.job]
        if job.lessees.get(seat.address) is seat:
            return
        if isinstance(seat.gate, LessorGate):
            seat.gate.consolidated = seat.instance.consolidated
        job.opening -= 1
        job.finished += had_finished
        self._ready_if_opened(job)

    def _ready_if_opened(self, job: LocalJob) -> None:
        if job.opening == 0 and job.phase is JobPhase.OPENING:
            job.phase = JobPhase.READY
            self._host.effects.append(Send(COORDINATOR, Ready(job.job)))

    def _on_start(self, sender: str, frame: Start) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None or job.phase is not JobPhase.READY:
            self._host.refuse(f"a start of job {frame.job}, which is not ready here")
            return
        job.phase = JobPhase.RUNNING
        self._hosting.set_hosts(job, frame.hosts, frame.lessees)
        if job.follows is not None:
            self._takers.start(job)
        self._snapshots.start(job)
        for source in self._open_sources(job):
            self._poll(source)

    def _open_sources(self, job: LocalJob) -> list[Seat]:
        return [seat for seat in job.seats.values() if seat.instance.is_source and seat.phase is Phase.OPEN]

    def _poll(self, source: Seat) -> None:
        source.poll_due = True
        self._host.offer(source)

    # It ends.

    def _on_drain(self, sender: str, frame: Drain) -> None:
        job = self._host.jobs.get(frame.job)
        for source in self._open_sources(job) if job is not None else ():
            source.instance.draining = True
            self._poll(source)

    def finished(self, seat: Seat) -> None:
        job = self._host.jobs[seat.address.job]
        job.finished += 1
        if job.finished == len(job.seats):
            self._reports.report(job)
        self._host.effects.append(Send(COORDINATOR, Finished(seat.address, seat.marked)))

    def _on_stop(self, sender: str, frame: Stop) -> None:
        job = self._host.jobs.get(frame.job)
        if job is not None:
            self._reports.report(job)
            self._host.drop(frame.job)
        self._host.effects.append(Send(COORDINATOR, Stopped(frame.job)))

    def drop_all(self) -> None:
        """This worker leaves."""
        for name in list(self._host.jobs):
            self._host.drop(name)

    def dropped(self, job: LocalJob) -> None:
        seats = job.all_seats()
        for seat in seats:
            seat.mailbox.clear()
            seat.interrupted = None
            if seat.gate is not None:
                seat.gate.forget()
        unclosed = [seat for seat in seats if seat.phase is not Phase.FINISHED or seat.instance.lingers]
        self._host.effects.append(Close(unclosed))
