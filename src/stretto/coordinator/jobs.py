"""The life of a job: submitted, deployed, ready, running, finished, failed or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stretto.coordinator.blame import failure_of_loss
from stretto.coordinator.events import (
    AnnounceJob,
    AnnounceMisbehaviour,
    Death,
    ForgetRequested,
    JobLost,
    StopRequested,
    SubmitRequested,
)
from stretto.coordinator.hosts import LesseeHosts
from stretto.coordinator.interfaces import Rooms, Stops
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.placement import placed
from stretto.coordinator.records import Actor, Durability, Job, JobStatus
from stretto.protocol.jobs import Deploy, Drain, Failed, Failure, Finished, Loaded, Ready, Start
from stretto.protocol.membership import MemberRole
from stretto.protocol.reports import Misbehaved

PLACEMENTS_MAX = 3
"""How often a job without checkpoints is placed, if workers are lost before it has begun to run."""


class Checkpoints(Protocol):
    """What jobs need of the checkpoints."""

    def tick(self) -> None: ...

    def publish(self, job: Job) -> None: ...

    def finished(self, job: Job, actor: Actor, checkpoint: int) -> None: ...


class Recoveries(Protocol):
    """What jobs need of the recovery."""

    def begin(self, job: Job) -> None: ...

    def resume(self, job: Job) -> None: ...


class Submitted(Protocol):
    """What jobs need of the submissions."""

    def submit(self, job: Job) -> None: ...


class HandedOver(Protocol):
    """What jobs need of the handovers."""

    def ready(self, sender: str, frame: Ready) -> None: ...

    def failed(self, frame: Failed) -> None: ...

    def give_up(self, job: Job, reason: str) -> None: ...

    def host_joins(self, job: Job, member: str) -> None: ...


class Observers(Protocol):
    """What jobs need of the observation."""

    def began(self, job: Job) -> None: ...

    def succeeded(self, job: Job, before: Mapping[str, list[str]]) -> None: ...

    def note(self) -> None: ...

    def observe(self) -> None: ...


class CalmWorkers(Protocol):
    """What jobs need of whoever knows of long runs."""

    def calm(self, job: Job, workers: list[str]) -> list[str]: ...


class Guests(Protocol):
    """Whoever has transient workers load the code of jobs."""

    def started(self, job: Job) -> None: ...

    def ready(self, job: Job, member: str) -> bool: ...

    def forget(self, attempt: str) -> None: ...


class Jobs(Part):
    """All jobs, by name and by the name of their attempt."""

    def __init__(
        self,
        host: Host,
        membership: Membership,
        hosts: LesseeHosts,
        observers: Observers,
        long_runners: CalmWorkers,
        rooms: Rooms,
        stops: Stops,
        guests: Guests,
    ) -> None:
        self._host = host
        self._membership = membership
        self._hosts = hosts
        self._observers = observers
        self._long_runners = long_runners
        self._rooms = rooms
        self._stops = stops
        self._guests = guests
        self.attempts: dict[str, Job] = {}
        """Jobs by the name of their last attempt."""

    def connect(
        self, checkpoints: Checkpoints, recoveries: Recoveries, submissions: Submitted, handovers: HandedOver
    ) -> None:
        self._handovers = handovers
        self._checkpoints = checkpoints
        self._recoveries = recoveries
        self._submissions = submissions

    def events(self) -> Handlers:
        return {
            SubmitRequested: self._on_submit,
            StopRequested: self._on_stop_requested,
            ForgetRequested: self._on_forget,
            JobLost: self._on_job_lost,
        }

    def frames(self) -> FrameHandlers:
        return {
            Loaded: self._on_loaded,
            Ready: self._on_ready,
            Finished: self._on_finished,
            Failed: self._on_failed,
            Misbehaved: self._on_misbehaved,
        }

    # Beginning.

    def _on_submit(self, event: SubmitRequested) -> None:
        job = Job(event.job, event.shapes, digest=event.digest, spreads=event.spreads, attempt=event.job)
        job.objective, job.code_bytes = event.objective, event.code_bytes
        self._host.jobs[event.job] = self.attempts[event.job] = job
        if event.checkpoints is not None:
            plan = event.checkpoints
            last = plan.manifests[-1].checkpoint if plan.manifests else 0
            job.durability = Durability(
                plan.storage,
                plan.interval_ns,
                plan.kept,
                list(plan.manifests),
                max(plan.checkpoint, last),
            )
        self._submissions.submit(job)

    def begin(self, job: Job) -> None:
        """Places and deploys a submitted job, or has it resume from its last checkpoint."""
        if job.status is JobStatus.WAITING:
            self.announce(job, JobStatus.DEPLOYING)
        if job.durability is None:
            self.deploy(job)
        else:
            job.durability.workers = len(self._hosts.workers())
            job.durability.waits_since_ns = self._host.now_ns
            self._recoveries.resume(job)

    def deploy(self, job: Job) -> None:
        """Places a job on the present workers and deploys it; if none of them is for it, on any."""
        workers = self._rooms.workers_for(job) or self._hosts.workers()
        others = [other.placement for other in self._host.jobs.values() if not other.status.ended]
        calm = self._long_runners.calm(job, workers)
        job.placement = placed(job.shapes, calm, self._membership.driver, others)
        job.hosts = workers if job.spreads else []
        if not all(job.placement.values()):
            self.fail(job, Failure("ClusterError", "the cluster has no worker left", None, "Start a new cluster."))
            return
        job.placements += 1
        job.unready, job.unloaded = set(job.members), set(job.members)
        self._observers.began(job)
        resumption = job.resumption
        job.unfinished = {actor for actor in job.actors if not resumption.finished(*actor)}
        if job.durability is not None:
            job.durability.shapes = resumption.shapes()
            job.durability.resumed_from = job.origin.checkpoint if job.origin is not None else 0
        for member in job.members:
            self._host.send(member, self.deployment(job))

    def joined(self, member: str) -> None:
        """Deploys the code of all jobs that may have lessees to a new worker."""
        for job in self._host.jobs.values():
            if job.status is JobStatus.RUNNING:
                self._send_code(job, member)

    def _send_code(self, job: Job, member: str) -> None:
        if job.spreads and member in self._rooms.workers_for(job):
            self._host.send(member, self.deployment(job))

    def deployment(self, job: Job) -> Deploy:
        """Returns what a member needs to have a part of a job, or to host what others send there."""
        storage = job.durability.storage if job.durability is not None else None
        return Deploy(job.attempt, job.digest, job.placement, storage, job.origin, promise=job.promise)

    def rename(self, job: Job, attempt: str) -> None:
        """Begins another attempt; frames of earlier attempts are ignored from now on."""
        del self.attempts[job.attempt]
        self._guests.forget(job.attempt)
        job.attempt = attempt
        job.leaving, job.unchanged = set(), set()
        self.attempts[attempt] = job

    def announce(self, job: Job, status: JobStatus) -> None:
        """Changes the status of a job and announces it."""
        job.become(status)
        self._observers.observe()
        self._host.effects.append(AnnounceJob(job.name, status, job.failure, job.waits_for))

    def _on_loaded(self, sender: str, frame: Loaded) -> None:
        job = self._host.running(frame.job)
        if job is not None:
            job.unloaded.discard(sender)
            self._observers.note()

    def _on_ready(self, sender: str, frame: Ready) -> None:
        job = self._host.running(frame.job)
        if job is None:
            self._handovers.ready(sender, frame)
            return
        if self._guests.ready(job, sender):
            return
        if job.status is JobStatus.RUNNING and sender not in job.members:
            if sender in self._rooms.workers_for(job):
                self._handovers.host_joins(job, sender)
                self._hosts.loaded(job, sender)
            return
        job.unready.discard(sender)
        self._observers.note()
        if not job.unready and job.status in (JobStatus.DEPLOYING, JobStatus.RECOVERING):
            self._start(job)

    def _start(self, job: Job) -> None:
        self.announce(job, JobStatus.RUNNING)
        self._begin_to_run(job)

    def succeed(self, job: Job, before: Mapping[str, list[str]]) -> None:
        """The attempt of a running job has taken over from the one with the placement `before`."""
        self._observers.succeeded(job, before)
        self._begin_to_run(job)
        self._observers.observe()

    def _begin_to_run(self, job: Job) -> None:
        for member in job.members:
            self._host.send(member, Start(job.attempt, job.hosts, job.lessees))
        self._hosts.started(job)
        self._guests.started(job)
        for member in sorted(set(self._hosts.workers()).difference(job.members)):
            self._send_code(job, member)  # It joined while the job was deployed, or handed over.
        if job.durability is not None:
            job.durability.unread = 0
            job.durability.due_ns = self._host.now_ns + (job.durability.interval_ns or 0)
            self._checkpoints.publish(job)
        if job.draining:
            self._drain(job)

    # Ending by itself.

    def _on_finished(self, sender: str, frame: Finished) -> None:
        job = self._host.running(frame.actor.job)
        if job is None:
            return
        actor = frame.actor[1:]
        job.unfinished.discard(actor)
        if job.durability is not None:
            self._checkpoints.finished(job, actor, frame.checkpoint)
            self._checkpoints.tick()
        elif not job.unfinished:
            self.end(job, JobStatus.FINISHED)

    def _on_failed(self, sender: str, frame: Failed) -> None:
        job = self._host.running(frame.job)
        if job is not None:
            self.fail(job, frame.failure)
        else:
            self._handovers.failed(frame)

    def _on_misbehaved(self, sender: str, frame: Misbehaved) -> None:
        job = self.attempts.get(frame.job)
        if job is not None:
            self._host.effects.append(AnnounceMisbehaviour(job.name, sender, frame))

    def _on_job_lost(self, event: JobLost) -> None:
        job = self._host.jobs.get(event.job)
        if job is not None and not job.status.ended:
            self.fail(job, event.failure)

    def lost(self, member: str, role: MemberRole, reason: str, death: Death | None) -> None:
        """Handles the loss of a member: its jobs resume from a checkpoint, or fail. Those in quarantine come
        first, to make room for the others."""
        for job in sorted(self._host.jobs.values(), key=lambda job: not self._rooms.is_quarantined(job)):
            if member not in job.members or job.status.ended:
                continue
            if job.status is JobStatus.STOPPING:
                self.stopped_at(job.attempt, member)
            elif self._can_be_placed_again(job, role):
                self._place_again(job)
            elif job.durability is not None and role is not MemberRole.DRIVER and not self._membership.closing:
                self._recoveries.begin(job)
            else:
                self.fail(job, failure_of_loss(job, member, reason, death))

    def _can_be_placed_again(self, job: Job, role: MemberRole) -> bool:
        """Whether nothing of a job has run. A job that ends its workers when it is opened must fail at some time."""
        begun = job.status is not JobStatus.DEPLOYING or job.durability is not None or role is MemberRole.DRIVER
        return not begun and not self._membership.closing and job.placements < PLACEMENTS_MAX

    def _place_again(self, job: Job) -> None:
        for holder in self.holders(job):
            self._stops.ask(holder, job.attempt)
        job.placement, job.hosts = {}, []
        self.rename(job, f"{job.name}~{job.placements + 1}")
        self._submissions.submit(job)

    def fail(self, job: Job, failure: Failure) -> None:
        """Fails a job."""
        job.failure = failure
        self.end(job, JobStatus.FAILED)

    def end(self, job: Job, status: JobStatus) -> None:
        """Ends a job and has every member drop its part of it."""
        self._handovers.give_up(job, f"the job is {status.value}")
        self._guests.forget(job.attempt)
        self.announce(job, status)
        for member in self.holders(job):
            self._stops.ask(member, job.attempt)
        self._hosts.dismiss_idle()

    def end_all(self) -> None:
        """Ends all jobs, since the cluster closes."""
        for job in self._host.jobs.values():
            if not job.status.ended:
                self.end(job, JobStatus.STOPPED)

    def holders(self, job: Job) -> list[str]:
        """Returns the members that hold a part of a job; if it spreads, also those that are joining or retiring."""
        guests = self._membership.transient()
        others = [name for name in self._membership.members if name not in guests]
        return [name for name in others if name in job.members or job.spreads]

    # Ending on request.

    def _on_stop_requested(self, event: StopRequested) -> None:
        job = self._host.jobs.get(event.job)
        if job is None or job.status.ended:
            return
        if event.savepoint is not None and job.durability is not None:
            job.durability.savepoint, job.durability.requested = event.savepoint, True
            self._checkpoints.tick()
            return
        if event.drain:
            job.draining = True
            self._drain(job)
            return
        self.stop(job)

    def stop(self, job: Job) -> None:
        """Has every member drop a job, and waits until all have reported it."""
        self._handovers.give_up(job, "the job was stopped")
        self._guests.forget(job.attempt)
        job.become(JobStatus.STOPPING)
        job.unstopped = set(self.holders(job))
        for member in sorted(job.unstopped):
            self._stops.ask(member, job.attempt)
        if not job.unstopped:  # It waits for workers.
            self.announce(job, JobStatus.STOPPED)

    def _drain(self, job: Job) -> None:
        for member in job.members:
            self._host.send(member, Drain(job.attempt))

    def stopped_at(self, attempt: str, member: str) -> None:
        """A member has dropped an attempt, or is lost."""
        job = self._host.running(attempt)
        if job is None or job.status is not JobStatus.STOPPING:
            return
        job.unstopped.discard(member)
        if not job.unstopped:
            self.announce(job, JobStatus.STOPPED)

    def _on_forget(self, event: ForgetRequested) -> None:
        job = self._host.jobs.get(event.job)
        if job is not None and job.status.ended:
            del self._host.jobs[event.job], self.attempts[job.attempt]
