"""The coordinator machine: membership with epochs, and the life of every job. Events in, effects out.

It decides who is a member, which actor lives on which worker, and when a job has become ready, finished, failed or
stopped. It must never know Spark, sockets or the clock; the driver's runtime tells it what happened and carries out
what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from stretto.actors.metrics import FunctionMetrics
from stretto.machine import FrameArrived, Refuse, Send, Ticked
from stretto.protocol import (
    Deploy,
    Drain,
    Failed,
    Failure,
    Finished,
    Heartbeat,
    Hosts,
    HostsLeft,
    Join,
    Leave,
    Left,
    Member,
    Members,
    Ready,
    Report,
    Start,
    Stop,
    Stopped,
)

HEARTBEAT_EVERY_NS = 500_000_000
LOST_AFTER_NS = 10_000_000_000
"""A worker that was silent for this long is taken for lost. Generous, because two cores may be very busy."""


HELD_UP_AFTER_NS = 1_000_000_000
"""Ticks come more often than this, unless the coordinator itself was held up."""


class JobStatus(Enum):
    """The life of a job."""

    DEPLOYING = "deploying"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        return self in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.STOPPED)


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """All that placement needs to know of a function."""

    name: str
    parallelism: int
    on_driver: bool


# Events: past facts.


@dataclass(frozen=True, slots=True)
class WorkerExpected:
    """The runtime has started a worker under this name; only expected workers may join."""

    name: str
    public_key: str


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The Spark task of a worker returned or failed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SubmitRequested:
    job: str
    digest: str
    functions: tuple[FunctionShape, ...]
    spreads: bool = False
    """Whether functions may have lessees: then every worker gets the code, also those that join later."""


@dataclass(frozen=True, slots=True)
class RetireRequested:
    """A worker is to leave: no new lessees come to it, and when the last is gone it is asked to go."""

    name: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    job: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The cluster ends: all workers are to leave."""


Event = (
    WorkerExpected
    | WorkerEnded
    | FrameArrived
    | SubmitRequested
    | StopRequested
    | RetireRequested
    | CloseRequested
    | Ticked
)


# Effects: imperatives.


@dataclass(frozen=True, slots=True)
class AnnounceJob:
    """Tell whoever waits for the job what became of it."""

    job: str
    status: JobStatus
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class AnnounceMembers:
    """The membership has changed; the transport admits these and no others."""

    epoch: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class AnnounceLoss:
    """A worker is a member no more, and why."""

    member: str
    reason: str


Effect = Send | AnnounceJob | AnnounceMembers | AnnounceLoss | Refuse


@dataclass
class Job:
    """What the coordinator keeps of a job."""

    name: str
    functions: tuple[FunctionShape, ...]
    placement: dict[str, list[str]]
    digest: str = ""
    spreads: bool = False
    hosts: list[str] = field(default_factory=list)
    """Workers that may have lessees; a joining one is among them once it has loaded the code."""
    change: int = 0
    unchanged: set[str] = field(default_factory=set)
    """Members that have not said that they took the last change of hosts in."""
    status: JobStatus = JobStatus.DEPLOYING
    failure: Failure | None = None
    unready: set[str] = field(default_factory=set)
    unstopped: set[str] = field(default_factory=set)
    unfinished: set[tuple[str, int]] = field(default_factory=set)
    metrics: dict[str, dict[tuple[int, str], FunctionMetrics]] = field(default_factory=dict)
    """By function, then by partition and member: an actor may run in several places."""

    @property
    def members(self) -> list[str]:
        return sorted({*self.hosts, *self.homes})

    @property
    def homes(self) -> set[str]:
        """The members that host a lessor."""
        return {member for members in self.placement.values() for member in members}


class Coordinator:
    """The machine. `handle` is the only way in."""

    def __init__(self) -> None:
        self.epoch = 0
        self.members: dict[str, Member] = {}
        self.jobs: dict[str, Job] = {}
        self.refused_by: dict[str, int] = {}
        self._expected: dict[str, str] = {}
        self._seen_ns: dict[str, int] = {}
        self._ticked_ns = 0
        self._effects: list[Effect] = []
        self._closing = False
        self._retiring: set[str] = set()
        self._dismissed: set[str] = set()
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            WorkerExpected: self._on_expected,
            WorkerEnded: self._on_ended,
            FrameArrived: self._on_frame,
            SubmitRequested: self._on_submit,
            StopRequested: self._on_stop_requested,
            RetireRequested: self._on_retire_requested,
            CloseRequested: self._on_close,
            Ticked: self._on_ticked,
        }
        self._frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Heartbeat: lambda sender, frame, now_ns: None,
            Ready: self._on_ready,
            Finished: self._on_finished,
            Failed: self._on_failed,
            Stopped: self._on_stopped,
            Report: self._on_report,
            Left: self._on_left,
            HostsLeft: self._on_hosts_left,
        }

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event in; the effects are to be carried out in order."""
        effects: list[Effect] = []
        self._effects = effects
        self._handlers[type(event)](event, now_ns)
        return effects

    def next_deadline_ns(self) -> int | None:
        """When to say `Ticked` at the latest: when the first silent worker would count as lost."""
        return min(self._seen_ns.values()) + LOST_AFTER_NS if self._seen_ns else None

    # Membership.

    def _on_expected(self, event: WorkerExpected, now_ns: int) -> None:
        self._expected[event.name] = event.public_key

    def _on_frame(self, event: FrameArrived, now_ns: int) -> None:
        if isinstance(event.frame, Join):
            self._on_join(event.sender, event.frame, now_ns)
            return
        if event.sender in self._expected and isinstance(event.frame, Heartbeat):
            return  # Its pulse may overtake its request to join.
        if event.sender not in self.members:
            self._effects.append(Refuse(f"a frame of {event.sender}, which is not a member in epoch {self.epoch}"))
            return
        handler = self._frame_handlers.get(type(event.frame))
        if handler is None:
            self._effects.append(Refuse(f"a frame of type {type(event.frame).__name__} from {event.sender}"))
            return
        if event.sender in self._seen_ns:
            self._seen_ns[event.sender] = now_ns
        handler(event.sender, event.frame, now_ns)

    def _on_join(self, sender: str, frame: Join, now_ns: int) -> None:
        member = frame.member
        if member.name != sender or self._expected.get(sender) != member.public_key or self._closing:
            self._effects.append(Refuse(f"{sender} asked to join and is not expected"))
            return
        del self._expected[sender]
        self.members[sender] = member
        if not member.on_driver:
            self._seen_ns[sender] = now_ns
        self._announce_members()
        for job in self.jobs.values():
            if job.spreads and job.status is JobStatus.RUNNING and not member.on_driver:
                self._effects.append(Send(sender, Deploy(job.name, job.digest, job.placement)))

    def _announce_members(self) -> None:
        self.epoch += 1
        members = list(self.members.values())
        self._effects.append(AnnounceMembers(self.epoch, tuple(members)))
        for name in self.members:
            self._effects.append(Send(name, Members(self.epoch, members)))

    def _on_ticked(self, event: Ticked, now_ns: int) -> None:
        held_up_ns = now_ns - self._ticked_ns - HELD_UP_AFTER_NS
        if self._ticked_ns and held_up_ns > 0:
            # The coordinator itself was held up (a paused machine, a busy driver) and must not blame the workers.
            self._seen_ns = {name: seen_ns + held_up_ns for name, seen_ns in self._seen_ns.items()}
        self._ticked_ns = now_ns
        for name, seen_ns in list(self._seen_ns.items()):
            if now_ns - seen_ns >= LOST_AFTER_NS:
                self._lose(name, f"nothing was heard from it for {LOST_AFTER_NS / 1e9:g} s")

    def _on_left(self, sender: str, frame: Left, now_ns: int) -> None:
        self._lose(sender, "it left")

    def _on_ended(self, event: WorkerEnded, now_ns: int) -> None:
        self._expected.pop(event.name, None)
        self._lose(event.name, event.reason)

    def _lose(self, name: str, reason: str) -> None:
        if name not in self.members:
            return
        del self.members[name]
        self._retiring.discard(name)
        self._dismissed.discard(name)
        self._seen_ns.pop(name, None)
        self._effects.append(AnnounceLoss(name, reason))
        if not self._closing:
            self._announce_members()
        for job in self.jobs.values():
            if name not in job.members or job.status.ended:
                continue
            if job.status is JobStatus.STOPPING:
                self._stopped_at(job, name)
            else:
                self._fail(
                    job,
                    Failure(
                        "ClusterError",
                        f"worker {name} was lost while it ran job '{job.name}'",
                        reason,
                        "Submit the job again; the other jobs go on.",
                    ),
                )

    def _on_close(self, event: CloseRequested, now_ns: int) -> None:
        self._closing = True
        for job in self.jobs.values():
            if not job.status.ended:
                self._end(job, JobStatus.STOPPED)
        for name in self.members:
            self._effects.append(Send(name, Leave()))

    # Jobs.

    def workers(self) -> list[str]:
        """The members that host ordinary actors, in a stable order."""
        return sorted(
            name for name, member in self.members.items() if not member.on_driver and name not in self._retiring
        )

    def _on_submit(self, event: SubmitRequested, now_ns: int) -> None:
        placement = self._place(event.functions)
        hosts = self.workers() if event.spreads else []
        job = Job(event.job, event.functions, placement, event.digest, event.spreads, hosts)
        self.jobs[event.job] = job
        if not all(placement.values()):
            self._fail(job, Failure("ClusterError", "the cluster has no worker left", None, "Start a new cluster."))
            return
        job.unready = set(job.members)
        job.unfinished = {(f.name, p) for f in event.functions for p in range(f.parallelism)}
        for member in job.members:
            self._effects.append(Send(member, Deploy(job.name, event.digest, placement)))

    def _place(self, functions: tuple[FunctionShape, ...]) -> dict[str, list[str]]:
        """Partition i of each function of a job goes to the same worker, so that forward channels stay local; jobs, and
        functions of one partition, start at the least loaded worker."""
        workers = self.workers()
        driver = sorted(name for name, member in self.members.items() if member.on_driver)
        load = dict.fromkeys(workers, 0)
        for job in self.jobs.values():
            if not job.status.ended:
                for members in job.placement.values():
                    for member in members:
                        if member in load:
                            load[member] += 1
        first = min(range(len(workers)), key=lambda i: (load[workers[i]], i), default=0)
        placement: dict[str, list[str]] = {}
        for function in functions:
            if function.on_driver:
                placement[function.name] = driver[:1] * function.parallelism
            elif not workers:
                placement[function.name] = []
            elif function.parallelism == 1:
                least = min(workers, key=lambda worker: (load[worker], worker))
                placement[function.name] = [least]
            else:
                placement[function.name] = [workers[(first + p) % len(workers)] for p in range(function.parallelism)]
            for member in placement[function.name]:
                if member in load:
                    load[member] += 1
        return placement

    def _on_ready(self, sender: str, frame: Ready, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is not None and job.status is JobStatus.RUNNING and sender not in job.members:
            if sender in self.workers():
                self._change_hosts(job, [*job.hosts, sender])
            return
        if job is None or job.status is not JobStatus.DEPLOYING:
            return
        job.unready.discard(sender)
        if not job.unready:
            job.status = JobStatus.RUNNING
            self._effects.append(AnnounceJob(job.name, job.status))
            for member in job.members:
                self._effects.append(Send(member, Start(job.name, job.hosts)))
            if any(name in self._retiring for name in job.hosts):
                self._change_hosts(job, [name for name in job.hosts if name not in self._retiring])

    # Who may have lessees.

    def _change_hosts(self, job: Job, hosts: list[str]) -> None:
        """Tell all members of a job; those who are no longer among the hosts may still have lessees for a while."""
        told = job.members
        job.hosts = hosts
        job.change += 1
        job.unchanged = {member for member in {*told, *job.members} if member in self.members}
        for member in sorted(job.unchanged):
            self._effects.append(Send(member, Hosts(job.name, hosts, job.change)))

    def _on_hosts_left(self, sender: str, frame: HostsLeft, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is not None and frame.change == job.change:
            job.unchanged.discard(sender)
            self._let_retire()

    def _on_retire_requested(self, event: RetireRequested, now_ns: int) -> None:
        member = self.members.get(event.name)
        homes = [job.name for job in self.jobs.values() if not job.status.ended and event.name in job.homes]
        if member is None or member.on_driver or homes or event.name in self._retiring:
            why = f"it is home to actors of {', '.join(homes)}" if homes else "it is no worker, or it leaves already"
            self._effects.append(Refuse(f"{event.name} cannot retire: {why}"))
            return
        self._retiring.add(event.name)
        for job in self.jobs.values():
            if job.status is JobStatus.RUNNING and event.name in job.hosts:
                self._change_hosts(job, [name for name in job.hosts if name != event.name])
        self._let_retire()

    def _let_retire(self) -> None:
        """Ask those to leave who have nothing left to do."""
        running = [job for job in self.jobs.values() if not job.status.ended]
        for name in sorted(self._retiring - self._dismissed):
            if not any(name in job.members or job.unchanged for job in running):
                self._dismissed.add(name)
                self._effects.append(Send(name, Leave()))

    def _on_finished(self, sender: str, frame: Finished, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is None or job.status.ended:
            return
        job.unfinished.discard((frame.function, frame.partition))
        if not job.unfinished:
            self._end(job, JobStatus.FINISHED)

    def _on_failed(self, sender: str, frame: Failed, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is not None and not job.status.ended:
            self._fail(job, frame.failure)

    def _fail(self, job: Job, failure: Failure) -> None:
        job.failure = failure
        self._end(job, JobStatus.FAILED)

    def _end(self, job: Job, status: JobStatus) -> None:
        """Settle a job and let every member drop what it holds of it."""
        job.status = status
        self._effects.append(AnnounceJob(job.name, status, job.failure))
        for member in self._holders(job):
            self._effects.append(Send(member, Stop(job.name)))
        self._let_retire()

    def _holders(self, job: Job) -> list[str]:
        """The members that hold something of a job; for one that spreads, also those that join or retire just now."""
        return [name for name in self.members if name in job.members or job.spreads]

    def _on_stop_requested(self, event: StopRequested, now_ns: int) -> None:
        job = self.jobs.get(event.job)
        if job is None or job.status.ended:
            return
        if event.drain:
            for member in job.members:
                self._effects.append(Send(member, Drain(job.name)))
            return
        job.status = JobStatus.STOPPING
        job.unstopped = set(self._holders(job))
        for member in sorted(job.unstopped):
            self._effects.append(Send(member, Stop(job.name)))

    def _on_stopped(self, sender: str, frame: Stopped, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is not None and job.status is JobStatus.STOPPING:
            self._stopped_at(job, sender)

    def _stopped_at(self, job: Job, member: str) -> None:
        job.unstopped.discard(member)
        if not job.unstopped:
            job.status = JobStatus.STOPPED
            self._effects.append(AnnounceJob(job.name, job.status))

    def _on_report(self, sender: str, frame: Report, now_ns: int) -> None:
        self.refused_by[sender] = frame.refused
        job = self.jobs.get(frame.job)
        if job is not None:
            for function, partitions in frame.functions.items():
                known = job.metrics.setdefault(function, {})
                known.update({(partition, sender): metrics for partition, metrics in partitions.items()})

    def forget(self, job: str) -> None:
        """Drop the record of an ended job; the handle keeps what it needs."""
        record = self.jobs.get(job)
        if record is not None and record.status.ended:
            del self.jobs[job]
