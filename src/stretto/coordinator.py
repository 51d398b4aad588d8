"""The coordinator machine: versioned membership, and the life of every job. Events in, effects out.

It decides who is a member, which actor lives on which worker, and when a job has become ready, finished, failed or
stopped. It must never know Spark, sockets or the clock; the driver's runtime tells it what happened and carries out
what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stretto.checkpointing import (
    AnnounceCheckpoint,
    Checkpointing,
    CheckpointRequested,
    ManifestFailed,
    ManifestWritten,
    PruneCheckpoints,
    WriteManifest,
)
from stretto.checkpoints.manifest import Manifest, Storage
from stretto.jobs import Durability, FunctionShape, Job, JobStatus
from stretto.machine import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.jobs import (
    Deploy,
    Drain,
    Failed,
    Failure,
    Finished,
    Hosts,
    HostsLeft,
    Ready,
    Start,
    Stop,
    Stopped,
)
from stretto.protocol.membership import Heartbeat, Join, Leave, Left, Member, Members
from stretto.protocol.reports import Report
from stretto.recovery import Recovery

HEARTBEAT_EVERY_NS = 500_000_000
LOST_AFTER_NS = 10_000_000_000
"""A worker that was silent for this long is taken for lost. Generous, because two cores may be very busy."""


HELD_UP_AFTER_NS = 1_000_000_000
"""Ticks come more often than this, unless the coordinator itself was held up."""


# Events: past facts.


@dataclass(frozen=True, slots=True)
class WorkerExpected:
    """The runtime has started a worker under this name; only expected workers may join. A parked one gets nothing to do
    until another one is lost."""

    name: str
    public_key: str
    parked: bool = False


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """The Spark task of a worker returned or failed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """How often to take one (None: when asked to), how many to keep, and those that are there: the job goes on from the
    last of them."""

    storage: Storage
    interval_ns: int | None
    kept: int
    manifests: tuple[Manifest, ...] = ()
    checkpoint: int = 0
    """The last checkpoint that was ever begun, as far as is known."""


@dataclass(frozen=True, slots=True)
class SubmitRequested:
    job: str
    digest: str
    functions: tuple[FunctionShape, ...]
    spreads: bool = False
    """Whether functions may have lessees: then every worker gets the code, also those that join later."""
    checkpoints: CheckpointPlan | None = None


@dataclass(frozen=True, slots=True)
class JobLost:
    """A job cannot go on, for a reason that its workers do not know."""

    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class RetireRequested:
    """A worker is to leave: no new lessees come to it, and when the last is gone it is asked to go."""

    name: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """At once; or with `drain`, when what was read has gone through; or with a savepoint, when that is complete."""

    job: str
    drain: bool = False
    savepoint: str | None = None


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
    | JobLost
    | CheckpointRequested
    | ManifestWritten
    | ManifestFailed
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

    version: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class AnnounceLoss:
    """A worker is a member no more, and why."""

    member: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReplaceWorker:
    """Start another worker in place of one that was lost; `parked`, if a parked one has taken its place; `joined`, if
    the lost one had."""

    name: str
    parked: bool
    joined: bool


Effect = (
    Send
    | AnnounceJob
    | AnnounceMembers
    | AnnounceLoss
    | Refuse
    | ReplaceWorker
    | WriteManifest
    | PruneCheckpoints
    | AnnounceCheckpoint
)


class Coordinator:
    """The machine. `handle` is the only way in."""

    def __init__(
        self,
        lost_after_ns: int = LOST_AFTER_NS,
        checkpointing: type[Checkpointing] = Checkpointing,
        recovery: type[Recovery] = Recovery,
    ) -> None:
        self.lost_after_ns = lost_after_ns
        self.version = 0
        self.members: dict[str, Member] = {}
        self.jobs: dict[str, Job] = {}
        self._runs: dict[str, Job] = {}
        """Jobs by what workers know them by."""
        self.refused_by: dict[str, int] = {}
        self._expected: dict[str, str] = {}
        self._seen_ns: dict[str, int] = {}
        self._ticked_ns = 0
        self.effects: list[Effect] = []
        self._closing = False
        self._retiring: set[str] = set()
        self._parked: set[str] = set()
        self._dismissed: set[str] = set()
        self.checkpointing = checkpointing(self)
        self.recovery = recovery(self)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            WorkerExpected: self._on_expected,
            WorkerEnded: self._on_ended,
            FrameArrived: self._on_frame,
            SubmitRequested: self._on_submit,
            StopRequested: self._on_stop_requested,
            JobLost: self._on_job_lost,
            RetireRequested: self._on_retire_requested,
            CloseRequested: self._on_close,
            Ticked: self._on_ticked,
            **self.checkpointing.handlers,
        }
        self._frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Heartbeat: lambda sender, frame, now_ns: self.recovery.heard(sender, now_ns),
            Ready: self._on_ready,
            Finished: self._on_finished,
            Failed: self._on_failed,
            Stopped: self._on_stopped,
            Report: self._on_report,
            Left: self._on_left,
            HostsLeft: self._on_hosts_left,
            **self.checkpointing.frame_handlers,
            **self.recovery.frame_handlers,
        }

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event in; the effects are to be carried out in order."""
        effects: list[Effect] = []
        self.effects = effects
        self._handlers[type(event)](event, now_ns)
        return effects

    def next_deadline_ns(self) -> int | None:
        """When to say `Ticked` at the latest: when the first silent worker would count as lost, or a checkpoint or a
        recovery is due."""
        due = [self.checkpointing.deadline_ns(), self.recovery.deadline_ns()]
        if self._seen_ns:
            due.append(min(self._seen_ns.values()) + self.lost_after_ns)
        return min((each for each in due if each is not None), default=None)

    # Membership.

    def _on_expected(self, event: WorkerExpected, now_ns: int) -> None:
        self._expected[event.name] = event.public_key
        if event.parked:
            self._parked.add(event.name)

    def _on_frame(self, event: FrameArrived, now_ns: int) -> None:
        if isinstance(event.frame, Join):
            self._on_join(event.sender, event.frame, now_ns)
            return
        if event.sender in self._expected and isinstance(event.frame, Heartbeat):
            return  # Its pulse may overtake its request to join.
        if event.sender not in self.members:
            self.effects.append(Refuse(f"a frame of {event.sender}, which is not a member in version {self.version}"))
            return
        handler = self._frame_handlers.get(type(event.frame))
        if handler is None:
            self.effects.append(Refuse(f"a frame of type {type(event.frame).__name__} from {event.sender}"))
            return
        if event.sender in self._seen_ns:
            self._seen_ns[event.sender] = now_ns
        handler(event.sender, event.frame, now_ns)

    def _on_join(self, sender: str, frame: Join, now_ns: int) -> None:
        member = frame.member
        if member.name != sender or self._expected.get(sender) != member.public_key or self._closing:
            self.effects.append(Refuse(f"{sender} asked to join and is not expected"))
            return
        del self._expected[sender]
        self.members[sender] = member
        if not member.on_driver:
            self._seen_ns[sender] = now_ns
        self._announce_members()
        for job in self.jobs.values():
            if job.spreads and job.status is JobStatus.RUNNING and sender in self.workers():
                self.effects.append(Send(sender, self._deployment(job)))
        self.recovery.tick(now_ns)

    def _announce_members(self) -> None:
        self.version += 1
        members = list(self.members.values())
        self.effects.append(AnnounceMembers(self.version, tuple(members)))
        for name in self.members:
            self.effects.append(Send(name, Members(self.version, members)))

    def _on_ticked(self, event: Ticked, now_ns: int) -> None:
        held_up_ns = now_ns - self._ticked_ns - min(HELD_UP_AFTER_NS, self.lost_after_ns // 4)
        if self._ticked_ns and held_up_ns > 0:
            # The coordinator itself was held up (a paused machine, a busy driver) and must not blame the workers.
            self._seen_ns = {name: seen_ns + held_up_ns for name, seen_ns in self._seen_ns.items()}
        self._ticked_ns = now_ns
        for name, seen_ns in list(self._seen_ns.items()):
            if now_ns - seen_ns >= self.lost_after_ns:
                self._lose(name, f"nothing was heard from it for {self.lost_after_ns / 1e9:g} s", now_ns)
        self.recovery.tick(now_ns)
        self.checkpointing.tick(now_ns)

    def _on_left(self, sender: str, frame: Left, now_ns: int) -> None:
        self._lose(sender, "it left", now_ns, replace=False)

    def _on_ended(self, event: WorkerEnded, now_ns: int) -> None:
        if self._expected.pop(event.name, None) is not None and not self._closing:
            self._replace(event.name, joined=False)
        self._lose(event.name, event.reason, now_ns)

    def _lose(self, name: str, reason: str, now_ns: int, replace: bool = True) -> None:
        if name not in self.members:
            return
        on_driver = self.members.pop(name).on_driver
        self._retiring.discard(name)
        self._dismissed.discard(name)
        self._seen_ns.pop(name, None)
        if not replace:
            self._parked.discard(name)
        self.recovery.lost(name)
        self.effects.append(AnnounceLoss(name, reason))
        if not self._closing:
            self._announce_members()
            if replace and not on_driver:
                self._replace(name)
        for job in list(self.jobs.values()):
            if name not in job.members or job.status.ended:
                continue
            if job.status is JobStatus.STOPPING:
                self._stopped_at(job, name)
            elif job.durability is not None and not on_driver and not self._closing:
                self.recovery.begin(job, now_ns)
            else:
                self.fail(
                    job,
                    Failure(
                        "ClusterError",
                        f"worker {name} was lost while it ran job '{job.name}'",
                        reason,
                        "Submit the job again; the other jobs go on.",
                    ),
                )

    def _replace(self, name: str, joined: bool = True) -> None:
        """A parked worker takes the place of one that is gone, if that had one, and another one is started."""
        was_parked = name in self._parked
        self._parked.discard(name)
        free = sorted(self._parked & self.members.keys())
        if free and not was_parked:
            self._parked.discard(free[0])
        self.effects.append(ReplaceWorker(name, parked=was_parked or bool(free), joined=joined))

    def _on_close(self, event: CloseRequested, now_ns: int) -> None:
        self._closing = True
        for job in self.jobs.values():
            if not job.status.ended:
                self.end(job, JobStatus.STOPPED)
        for name in self.members:
            self.effects.append(Send(name, Leave()))

    # Jobs.

    def workers(self) -> list[str]:
        """The members that host ordinary actors, in a stable order."""
        idle = self._retiring | self._parked
        return sorted(name for name, member in self.members.items() if not member.on_driver and name not in idle)

    def _on_submit(self, event: SubmitRequested, now_ns: int) -> None:
        job = Job(event.job, event.functions, digest=event.digest, spreads=event.spreads, run=event.job)
        self.jobs[event.job] = self._runs[event.job] = job
        if event.checkpoints is not None:
            plan = event.checkpoints
            last = plan.manifests[-1].checkpoint if plan.manifests else 0
            job.durability = Durability(
                plan.storage,
                plan.interval_ns,
                plan.kept,
                list(plan.manifests),
                max(plan.checkpoint, last),
                workers=len(self.workers()) or 1,
                waits_since_ns=now_ns,
            )
            self.recovery.go_on(job, now_ns)
        else:
            self.deploy(job)

    def deploy(self, job: Job) -> None:
        """Place a job on the workers that are there, and have its actors made."""
        job.placement = self._place(job.functions)
        job.hosts = self.workers() if job.spreads else []
        if not all(job.placement.values()):
            self.fail(job, Failure("ClusterError", "the cluster has no worker left", None, "Start a new cluster."))
            return
        job.unready = set(job.members)
        job.metrics = {}
        resumption = job.resumption
        job.unfinished = {actor for actor in job.actors if not resumption.finished(*actor)}
        if job.durability is not None:
            job.durability.traits = resumption.traits()
        for member in job.members:
            self.effects.append(Send(member, self._deployment(job)))

    def _deployment(self, job: Job) -> Deploy:
        storage = job.durability.storage if job.durability is not None else None
        return Deploy(job.run, job.digest, job.placement, storage, job.origin)

    def running(self, run: str) -> Job | None:
        """The job that workers know by this name; None for what has ended, and for an attempt that was given up."""
        job = self._runs.get(run)
        return None if job is None or job.status.ended else job

    def rename(self, job: Job, run: str) -> None:
        """Another attempt begins, and nothing of the one before is heard any more."""
        del self._runs[job.run]
        job.run = run
        self._runs[run] = job

    def announce(self, job: Job, status: JobStatus) -> None:
        job.status = status
        self.effects.append(AnnounceJob(job.name, status, job.failure))

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
        job = self.running(frame.job)
        if job is None:
            return
        if job.status is JobStatus.RUNNING and sender not in job.members:
            if sender in self.workers():
                self._change_hosts(job, [*job.hosts, sender])
            return
        job.unready.discard(sender)
        if not job.unready and job.status in (JobStatus.DEPLOYING, JobStatus.RECOVERING):
            self._start(job, now_ns)

    def _start(self, job: Job, now_ns: int) -> None:
        self.announce(job, JobStatus.RUNNING)
        for member in job.members:
            self.effects.append(Send(member, Start(job.run, job.hosts)))
        if any(name in self._retiring for name in job.hosts):
            self._change_hosts(job, [name for name in job.hosts if name not in self._retiring])
        if job.durability is not None:
            job.durability.unread = 0
            job.durability.due_ns = now_ns + (job.durability.interval_ns or 0)
            self.checkpointing.publish(job)
            if job.draining:
                self._drain(job)

    # Who may have lessees.

    def _change_hosts(self, job: Job, hosts: list[str]) -> None:
        """Tell all members of a job; those who are no longer among the hosts may still have lessees for a while."""
        told = job.members
        job.hosts = hosts
        job.change += 1
        job.unchanged = {member for member in {*told, *job.members} if member in self.members}
        for member in sorted(job.unchanged):
            self.effects.append(Send(member, Hosts(job.run, hosts, job.change)))

    def _on_hosts_left(self, sender: str, frame: HostsLeft, now_ns: int) -> None:
        job = self.running(frame.job)
        if job is not None and frame.change == job.change:
            job.unchanged.discard(sender)
            self._let_retire()

    def _on_retire_requested(self, event: RetireRequested, now_ns: int) -> None:
        member = self.members.get(event.name)
        homes = [job.name for job in self.jobs.values() if not job.status.ended and event.name in job.homes]
        if member is None or member.on_driver or homes or event.name in self._retiring:
            why = f"it is home to actors of {', '.join(homes)}" if homes else "it is no worker, or it leaves already"
            self.effects.append(Refuse(f"{event.name} cannot retire: {why}"))
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
                self.effects.append(Send(name, Leave()))

    def _on_finished(self, sender: str, frame: Finished, now_ns: int) -> None:
        job = self.running(frame.actor.job)
        if job is None:
            return
        actor = frame.actor[1:]
        job.unfinished.discard(actor)
        if job.durability is not None:
            self.checkpointing.finished(job, actor, frame.checkpoint)
            self.checkpointing.tick(now_ns)
        elif not job.unfinished:
            self.end(job, JobStatus.FINISHED)

    def _on_failed(self, sender: str, frame: Failed, now_ns: int) -> None:
        job = self.running(frame.job)
        if job is not None:
            self.fail(job, frame.failure)

    def _on_job_lost(self, event: JobLost, now_ns: int) -> None:
        job = self.jobs.get(event.job)
        if job is not None and not job.status.ended:
            self.fail(job, event.failure)

    def fail(self, job: Job, failure: Failure) -> None:
        job.failure = failure
        self.end(job, JobStatus.FAILED)

    def end(self, job: Job, status: JobStatus) -> None:
        """Settle a job and let every member drop what it holds of it."""
        self.announce(job, status)
        for member in self.holders(job):
            self.effects.append(Send(member, Stop(job.run)))
        self._let_retire()

    def holders(self, job: Job) -> list[str]:
        """The members that hold something of a job; for one that spreads, also those that join or retire just now."""
        return [name for name in self.members if name in job.members or job.spreads]

    def _on_stop_requested(self, event: StopRequested, now_ns: int) -> None:
        job = self.jobs.get(event.job)
        if job is None or job.status.ended:
            return
        if event.savepoint is not None and job.durability is not None:
            job.durability.savepoint, job.durability.requested = event.savepoint, True
            self.checkpointing.tick(now_ns)
            return
        if event.drain:
            job.draining = True
            self._drain(job)
            return
        self.stop(job)

    def stop(self, job: Job) -> None:
        """Let every member drop a job, and hear from all that they did."""
        job.status = JobStatus.STOPPING
        job.unstopped = set(self.holders(job))
        for member in sorted(job.unstopped):
            self.effects.append(Send(member, Stop(job.run)))
        if not job.unstopped:  # It waits for workers.
            self.announce(job, JobStatus.STOPPED)

    def _drain(self, job: Job) -> None:
        for member in job.members:
            self.effects.append(Send(member, Drain(job.run)))

    def _on_stopped(self, sender: str, frame: Stopped, now_ns: int) -> None:
        job = self.running(frame.job)
        if job is not None and job.status is JobStatus.STOPPING:
            self._stopped_at(job, sender)

    def _stopped_at(self, job: Job, member: str) -> None:
        job.unstopped.discard(member)
        if not job.unstopped:
            self.announce(job, JobStatus.STOPPED)

    def _on_report(self, sender: str, frame: Report, now_ns: int) -> None:
        self.refused_by[sender] = frame.refused
        job = self._runs.get(frame.job)
        if job is not None:
            for function, partitions in frame.functions.items():
                known = job.metrics.setdefault(function, {})
                known.update({(partition, sender): metrics for partition, metrics in partitions.items()})

    def forget(self, job: str) -> None:
        """Drop the record of an ended job; the handle keeps what it needs."""
        record = self.jobs.get(job)
        if record is not None and record.status.ended:
            del self.jobs[job], self._runs[record.run]
