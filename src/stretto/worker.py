"""The worker machine: events in, effects out. It owns instances, mailboxes and channels, and runs one thing at a time.

It decides which message runs next (through a strategy), where outputs go, when a sender must wait for credits, and what
the coordinator is told. It must never know the clock, sockets, Spark or files: time comes with each event, and whatever
takes time or touches the world is an effect that comes back as an event.

A run is an effect (`Run`): the driver calls `instance.apply` and reports `Ran` or `RunFailed`, with what it cost.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from stretto.actors.address import Address, Attempt, attempt_of
from stretto.actors.channel import Message
from stretto.actors.deadlines import COST_WEIGHT, LAX_NS, YIELDS_NS, start_deadline_ns
from stretto.actors.deployment import Deployment
from stretto.actors.gate import LesseeGate, LessorGate, Observer
from stretto.actors.instance import Barrier, Errand, Instance, NextRead, Outcome, Phase, Publishing, Work
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.wiring import wire, wire_lessee
from stretto.channels import Channels
from stretto.desk import UNDECIDED_MAX, StrategyDesk
from stretto.invariants import check_instance
from stretto.leasing import Leasing
from stretto.local_job import JobPhase, LocalJob
from stretto.machine import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.checkpointing import Broken
from stretto.protocol.frames import Frame
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
from stretto.protocol.membership import COORDINATOR, Leave, Left, Member, Members
from stretto.protocol.reports import Report
from stretto.scheduling.policies import LLF, Policy
from stretto.scheduling.spreading import RejectSend
from stretto.scheduling.strategy import Strategy
from stretto.snapshots import (
    Fetched,
    FetchFailed,
    FetchSnapshots,
    SnapshotFailed,
    Snapshots,
    SnapshotStored,
    StoreSnapshot,
)

REPORT_EVERY_NS = 250_000_000


# Events: past facts.


@dataclass(frozen=True, slots=True)
class CodeLoaded:
    job: str
    deployment: Deployment


@dataclass(frozen=True, slots=True)
class CodeFailed:
    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Ran:
    instance: Instance
    work: Work
    outcome: Outcome
    cost_ns: int


@dataclass(frozen=True, slots=True)
class RunFailed:
    instance: Instance
    work: Work
    failure: Failure


@dataclass(frozen=True, slots=True)
class PeerBroken:
    """The connection to or from a member broke: frames may be lost."""

    member: str


Event = (
    FrameArrived
    | PeerBroken
    | CodeLoaded
    | CodeFailed
    | Ran
    | RunFailed
    | Ticked
    | SnapshotStored
    | SnapshotFailed
    | Fetched
    | FetchFailed
)


# Effects: imperatives.


@dataclass(frozen=True, slots=True)
class Run:
    """Apply the work to the instance, then say how it went."""

    instance: Instance
    work: Work


@dataclass(frozen=True, slots=True)
class LoadCode:
    """Fetch and check the code of a job, then say `CodeLoaded` or `CodeFailed`."""

    job: str
    digest: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the functions of dropped instances; failures are only logged."""

    instances: list[Instance]


@dataclass(frozen=True, slots=True)
class Connect:
    """The membership as it now is: connect to the new, cut off the gone."""

    members: list[Member]


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the loop after all that was sent before is out."""

    reason: str


Effect = Run | Send | LoadCode | Close | Connect | Refuse | Exit | StoreSnapshot | FetchSnapshots


class Worker:
    """The machine. `handle` is the only way in."""

    def __init__(
        self,
        member: str,
        leasing: type[Leasing] = Leasing,
        observer: Observer | None = None,
        policy: Policy | None = None,
        strategy: Strategy | None = None,
        snapshots: type[Snapshots] = Snapshots,
    ) -> None:
        self.member = member
        self._observer = observer
        self.policy = policy or LLF()
        self.leasing = leasing(self)
        self.channels = Channels(self)
        self.snapshots = snapshots(self)
        self.tracks = False
        """Whether a strategy wants to know who would be late, so that messages are followed while they wait."""
        self.desk = StrategyDesk(self, strategy or RejectSend())
        self._local_frames: deque[Frame] = deque()
        self.version = 0
        self.now_ns = 0
        self.refused = 0
        self.stale = 0
        self.jobs: dict[str, LocalJob] = {}
        self._members: dict[str, Member] = {}
        own = self.desk.own
        self.ready = own.create_queue(self.policy)
        # Asked for each message: a strategy that leaves it to the queue is passed over.
        self._next_message = partial(own.next_message, self.ready) if own.has_next_message else self.ready.next_instance
        self._running: Instance | None = None
        self._alarms: list[tuple[int, int, Instance, Errand]] = []
        self._alarms_made = 0
        self._report_due_ns = 0
        self._unreported: dict[str, LocalJob] = {}
        self.effects: list[Effect] = []
        self._leaving = False
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            FrameArrived: self._on_frame,
            CodeLoaded: self._on_code_loaded,
            CodeFailed: self._on_code_failed,
            Ran: self._on_ran,
            RunFailed: self._on_run_failed,
            Ticked: lambda event, now_ns: None,
            PeerBroken: self._on_peer_broken,
            **self.snapshots.handlers,
        }
        self._frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            **self.channels.frame_handlers,
            **self.leasing.frame_handlers,
            **self.desk.frame_handlers,
            **self.snapshots.frame_handlers,
            Members: self._on_members,
            Deploy: self._on_deploy,
            Start: self._on_start,
            Drain: self._on_drain,
            Stop: self._on_stop,
            Leave: self._on_leave,
            Hosts: self._on_hosts,
        }

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event in; the effects are to be carried out in order."""
        effects: list[Effect] = []
        self.effects = effects
        self.now_ns = now_ns
        self._handlers[type(event)](event, now_ns)
        while self._local_frames:
            frame = self._local_frames.popleft()
            self._frame_handlers[type(frame)](self.member, frame, now_ns)
        self._wake_due(now_ns)
        if now_ns >= self._report_due_ns and self._unreported:
            self._report(now_ns)
        if self._running is None and not self._leaving:
            self._dispatch()
        return effects

    def next_deadline_ns(self) -> int | None:
        """When to say `Ticked` at the latest, if nothing else happens."""
        deadline = self._alarms[0][0] if self._alarms else None
        if self._unreported:
            deadline = self._report_due_ns if deadline is None else min(deadline, self._report_due_ns)
        return deadline

    @property
    def busy(self) -> bool:
        """Whether a run is under way; its end will be an event."""
        return self._running is not None

    # Choosing what runs.

    def _dispatch(self) -> None:
        while (instance := self._next_message(self.now_ns)) is not None:
            work = self._next_work(instance)
            if work is not None:
                self._running = instance
                if self.tracks and isinstance(work, Message):
                    self.desk.untrack(work)
                if instance.pre_apply is not None:
                    instance.pre_apply(instance, work)
                self.effects.append(Run(instance, work))
                return

    def _next_work(self, instance: Instance) -> Work | None:
        if instance.gate is not None and (work := self.leasing.next_work(instance)) is not None:
            return work
        if instance.gate is None and instance.mailbox.count:
            return instance.mailbox.popleft()
        if instance.poll_due:
            instance.poll_due = False
            return Errand.POLL
        return None

    def offer(self, instance: Instance) -> None:
        """Put an instance up for running if it has work and may send."""
        if instance.queued or instance.dropped or instance is self._running:
            return
        has_work = instance.mailbox.count if instance.gate is None else self.leasing.has_work(instance)
        if (has_work or instance.poll_due) and (not instance.starved or instance.opening):
            self.ready.enqueue(instance)

    @property
    def running(self) -> Instance | None:
        return self._running

    def _wake_due(self, now_ns: int) -> None:
        while self._alarms and self._alarms[0][0] <= now_ns:
            _, _, instance, errand = heapq.heappop(self._alarms)
            if instance.dropped or instance.phase is Phase.FINISHED:
                continue
            if errand is Errand.POLL:
                instance.poll_due = True
            else:
                instance.timers_alarm_ns = None
                instance.mailbox.append(errand)
            self.offer(instance)

    def _set_alarm(self, due_ns: int, instance: Instance, errand: Errand) -> None:
        self._alarms_made += 1
        heapq.heappush(self._alarms, (due_ns, self._alarms_made, instance, errand))

    # Runs that ended.

    def _on_ran(self, event: Ran, now_ns: int) -> None:
        instance, work, outcome = event.instance, event.work, event.outcome
        self._running = None
        if instance.dropped:
            return
        metrics = instance.metrics
        metrics.busy_ns += event.cost_ns
        weight = COST_WEIGHT if instance.cost_ns else 1.0
        instance.cost_ns += weight * (event.cost_ns - instance.cost_ns)
        if self.ready.counts:
            self.policy.spent(instance, event.cost_ns, now_ns)
        if instance.feeds_windows and outcome.progress_us is not None:
            instance.progress.learn(outcome.progress_us, outcome.arrived_ns)
        self.mark(instance)
        if isinstance(work, Message):
            channel = work.channel
            channel.settle(work.seq)
            metrics.messages_in += 1
            if outcome.rows_in:
                rows = outcome.rows_in
                metrics.rows_in += rows
                sender = channel.sender.function
                metrics.executed_from[sender] = metrics.executed_from.get(sender, 0) + rows
                if instance.latency is not None:
                    instance.latency.add(now_ns - work.arrived_ns, rows)
            else:
                channel.executed += 1
            self.channels.give_back(channel)
        elif isinstance(work, Barrier):
            metrics.messages_in += len(work.messages)
            for message in work.messages:
                self.channels.give_back(message.channel)
        elif outcome.rows_in:
            metrics.rows_in += outcome.rows_in
        if outcome.snapshot is not None:
            self.snapshots.taken(instance, outcome.snapshot)
        elif isinstance(work, Publishing):
            self.snapshots.published(instance, work.checkpoint)
        self._send_from(0, event)

    def _send_from(self, first: int, event: Ran) -> None:
        """Send what a run gave. A critical message waits until it is decided where all batches before it go, and so
        does all that a barrier asks of an instance."""
        instance, work, outcome = event.instance, event.work, event.outcome
        sends = outcome.sends if not first else outcome.sends[first:]
        for place, (out, payload) in enumerate(sends, first):
            if instance.undecided and not isinstance(payload, pa.RecordBatch) and self.leasing.must_wait(instance):
                self._interrupt(instance, place, event)
                return
            self.channels.send(out, payload, outcome)
        if instance.undecided:
            last = outcome.finished or work is Errand.SURRENDER or isinstance(work, Barrier)
            if last and self.leasing.must_wait(instance):
                self._interrupt(instance, len(outcome.sends), event)
                return
        if isinstance(work, Barrier):
            self.leasing.after_barrier(instance, work, outcome)
        elif work is Errand.SURRENDER:
            self.leasing.after_surrender(instance, outcome)
        self._after_run(instance, work, outcome, self.now_ns)
        if instance.post_apply is not None and not instance.dropped:
            instance.post_apply(instance, work, event.cost_ns)

    def _interrupt(self, instance: Instance, place: int, event: Ran) -> None:
        instance.interrupted = (place, event)
        instance.starved += 1

    def undecided(self, sender: Instance) -> None:
        """A batch of an instance waits for its strategy to say where it goes."""
        sender.undecided += 1
        if sender.undecided == UNDECIDED_MAX:
            sender.starved += 1

    def decided(self, sender: Instance) -> None:
        """It is on its way."""
        if sender.undecided == UNDECIDED_MAX:
            sender.starved -= 1
        sender.undecided -= 1
        if sender.interrupted is not None and not sender.undecided:
            (place, event), sender.interrupted = sender.interrupted, None
            sender.starved -= 1
            self._send_from(place, event)
        else:
            self.offer(sender)

    def _after_run(self, instance: Instance, work: Work, outcome: Outcome, now_ns: int) -> None:
        if outcome.finished:
            instance.phase = Phase.FINISHED
            self._report_finished(instance, now_ns)
            self.snapshots.finished(instance, self.jobs[instance.address.job])
            self.offer(instance)  # It may have been asked to publish meanwhile.
            return
        if work is Errand.OPEN:
            self._opened(instance)
        elif work is Errand.POLL:
            instance.next_read = _next_read(instance, now_ns if outcome.next_ns is None else outcome.next_ns, now_ns)
            if outcome.next_ns is None:
                instance.poll_due = True
            elif self.ready.idle:
                self._set_alarm(outcome.next_ns, instance, Errand.POLL)
            else:
                # There is other work: let rows gather, so that batches grow with the load.
                self._set_alarm(max(outcome.next_ns, outcome.gather_until_ns), instance, Errand.POLL)
        timer_ns = instance.next_timer_ns()
        if timer_ns is not None and (instance.timers_alarm_ns is None or timer_ns < instance.timers_alarm_ns):
            instance.timers_alarm_ns = timer_ns
            self._set_alarm(timer_ns, instance, Errand.TIMERS)
        self.offer(instance)

    def _on_run_failed(self, event: RunFailed, now_ns: int) -> None:
        self._running = None
        if not event.instance.dropped:
            self.fail(event.instance.address.job, event.failure)

    def fail(self, job: str, failure: Failure) -> None:
        self.effects.append(Send(COORDINATOR, Failed(job, failure)))
        self._drop(job)

    # What the leasing part needs.

    def tell(self, member: str, frame: Frame) -> None:
        """Send a control frame to a member; to oneself it comes after what is being handled."""
        if member == self.member:
            self._local_frames.append(frame)
        else:
            self.effects.append(Send(member, frame))

    def instance_of(self, address: Address) -> Instance | None:
        """The lessor or lessee of an actor here."""
        job = self.jobs.get(address.job)
        return None if job is None else job.instances.get(address) or job.lessees.get(address)

    def home(self, address: Address) -> str:
        return self.jobs[address.job].placement[address.function][address.partition]

    def hosts(self, instance: Instance) -> list[str]:
        return self.jobs[instance.address.job].hosts_for(instance, self.member)

    def lessee(self, address: Address) -> Instance | None:
        """The lessee of an actor here, made when it is first needed; None where there can be none."""
        job = self.jobs.get(address.job)
        if job is None or job.deployment is None or not job.may_have_lessees(address.function):
            self.stale += 1
            return None
        instance = job.lessees.get(address)
        if instance is None:
            instance, outs = wire_lessee(
                address, self.member, job.deployment, job.placement, self.channels.made, job.instances
            )
            for out in outs.values():
                if out.local is not None:
                    self.guard(out.local.instance)
            self.channels.add(outs)
            job.lessees[address] = instance
            self._take_in(instance, job)
            instance.mailbox.append(Errand.OPEN)
            self.offer(instance)
        return instance

    def _take_in(self, instance: Instance, job: LocalJob) -> None:
        if job.storage is not None:
            instance.belong_to(Attempt(job.storage.lineage, job.storage.owner, attempt_of(job.job)))
        self._watch(instance)
        strategy = instance.strategy = job.strategies[instance.address.function]
        # The hooks that there are: they are called for every message.
        instance.pre_apply = strategy.pre_apply if strategy.has_pre_apply else None
        instance.post_apply = strategy.post_apply if strategy.has_post_apply else None
        assert job.deployment is not None
        for out in instance.outs:
            if job.deployment.functions[out.receiver.function].lessees_max:
                out.strategy = job.strategies[out.receiver.function]

    def leases_changed(self, instance: Instance) -> None:
        """A barrier is over: perhaps no lessee is left where none may be any more."""
        self._tell_hosts_left(self.jobs[instance.address.job])

    def guard(self, instance: Instance) -> None:
        """From now on messages to this instance may have to be held back."""
        if instance.gate is None:
            instance.gate = LessorGate(instance.address)
            self._watch(instance)

    def _watch(self, instance: Instance) -> None:
        if instance.gate is not None:
            instance.gate.observer = self._observer

    def _on_hosts(self, sender: str, frame: Hosts, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is None:
            self.stale += 1
            return
        self._set_hosts(job, frame.hosts)
        job.hosts_change = frame.change
        self._tell_hosts_left(job)

    def _set_hosts(self, job: LocalJob, hosts: list[str]) -> None:
        job.hosts = hosts
        for instance in job.instances.values():
            if isinstance(instance.gate, LessorGate):
                instance.gate.candidates = None

    def _tell_hosts_left(self, job: LocalJob) -> None:
        if not job.hosts_change:
            return
        gates = [i.gate for i in job.instances.values() if isinstance(i.gate, LessorGate)]
        if all(member in job.hosts for gate in gates for member in gate.lessees):
            self.effects.append(Send(COORDINATOR, HostsLeft(job.job, job.hosts_change)))
            job.hosts_change = 0

    # Jobs.

    def _on_frame(self, event: FrameArrived, now_ns: int) -> None:
        if event.sender != COORDINATOR and event.sender not in self._members:
            self.refuse(f"a frame of {event.sender}, which is not a member in version {self.version}")
            return
        handler = self._frame_handlers.get(type(event.frame))
        if handler is None:
            self.refuse(f"a frame of type {type(event.frame).__name__} from {event.sender}")
            return
        handler(event.sender, event.frame, now_ns)

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.effects.append(Refuse(reason))

    def _on_peer_broken(self, event: PeerBroken, now_ns: int) -> None:
        told = [Broken(job, event.member, "the connection broke") for job in self.jobs]
        self.effects.extend(Send(COORDINATOR, broken) for broken in told)

    def _on_members(self, sender: str, frame: Members, now_ns: int) -> None:
        if frame.version <= self.version:
            self.refuse(f"membership version {frame.version} after version {self.version}")
            return
        self.version = frame.version
        self._members = {member.name: member for member in frame.members}
        if self.member not in self._members:
            self._exit("this incarnation was superseded")
            return
        self.effects.append(Connect(frame.members))

    def _on_deploy(self, sender: str, frame: Deploy, now_ns: int) -> None:
        self.jobs[frame.job] = LocalJob(frame.job, frame.placement, frame.storage, frame.origin)
        self.effects.append(LoadCode(frame.job, frame.digest))

    def _on_code_failed(self, event: CodeFailed, now_ns: int) -> None:
        if event.job in self.jobs:
            self.fail(event.job, event.failure)

    def _on_code_loaded(self, event: CodeLoaded, now_ns: int) -> None:
        job = self.jobs.get(event.job)
        if job is None:
            return  # Stopped before it was loaded.
        job.phase = JobPhase.OPENING
        job.deployment = replace(event.deployment, job=job.job)
        wiring = wire(self.member, job.deployment, job.placement, self.channels.made)
        job.strategies = self.desk.strategies(job.deployment)
        job.instances = wiring.instances
        self.channels.add(wiring.outs)
        for instance in job.instances.values():
            self._take_in(instance, job)
        if job.origin is not None:
            self.snapshots.fetch(job)
        else:
            self.open(job)

    def open(self, job: LocalJob) -> None:
        """Let the actors of a job here be opened, but for those that had finished before a failure."""
        opening = [instance for instance in job.instances.values() if instance.phase is Phase.OPENING]
        job.opening = len(opening)
        job.finished = len(job.instances) - len(opening)
        for instance in opening:
            instance.mailbox.append(Errand.OPEN)
            self.offer(instance)
        self._ready_if_opened(job)

    def _opened(self, instance: Instance) -> None:
        instance.phase = Phase.FINISHED if instance.had_finished else Phase.OPEN
        if isinstance(instance.gate, LesseeGate):
            return
        if instance.gate is not None:
            instance.gate.shared = instance.shared
        job = self.jobs[instance.address.job]
        job.opening -= 1
        job.finished += instance.had_finished
        self._ready_if_opened(job)

    def _ready_if_opened(self, job: LocalJob) -> None:
        if job.opening == 0 and job.phase is JobPhase.OPENING:
            job.phase = JobPhase.READY
            self.effects.append(Send(COORDINATOR, Ready(job.job)))

    def _on_start(self, sender: str, frame: Start, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is None or job.phase is not JobPhase.READY:
            self.refuse(f"a start of job {frame.job}, which is not ready here")
            return
        job.phase = JobPhase.RUNNING
        self._set_hosts(job, frame.hosts)
        self.snapshots.start(job)
        for instance in job.instances.values():
            if instance.is_source and instance.phase is Phase.OPEN:
                instance.poll_due = True
                self.offer(instance)

    def _on_drain(self, sender: str, frame: Drain, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        for instance in job.instances.values() if job else ():
            if instance.is_source and instance.phase is Phase.OPEN:
                instance.draining = True
                instance.poll_due = True
                self.offer(instance)

    def _on_stop(self, sender: str, frame: Stop, now_ns: int) -> None:
        if frame.job in self.jobs:
            self._report_job(self.jobs[frame.job])
            self._drop(frame.job)
        self.effects.append(Send(COORDINATOR, Stopped(frame.job)))

    def _drop(self, name: str) -> None:
        job = self.jobs.pop(name)
        self._unreported.pop(name, None)
        instances = [*job.instances.values(), *job.lessees.values()]
        for instance in instances:
            instance.dropped = True
            self.desk.forget(instance)
            instance.mailbox.clear()
        self.channels.drop(instances)
        self.ready.forget(name)
        self._alarms = [alarm for alarm in self._alarms if not alarm[2].dropped]
        heapq.heapify(self._alarms)
        self.effects.append(Close([each for each in instances if each.phase is not Phase.FINISHED or each.lingers]))

    def _on_leave(self, sender: str, frame: Leave, now_ns: int) -> None:
        for job in list(self.jobs):
            self._drop(job)
        self.effects.append(Send(COORDINATOR, Left()))
        self._exit("the coordinator asked it to leave")

    def _exit(self, reason: str) -> None:
        self._leaving = True
        self.effects.append(Exit(reason))

    # Reports.

    def mark(self, instance: Instance) -> None:
        job = self.jobs[instance.address.job]
        job.unreported[instance.address] = instance
        self._unreported[job.job] = job

    def _report_finished(self, instance: Instance, now_ns: int) -> None:
        job = self.jobs[instance.address.job]
        job.finished += 1
        if job.finished == len(job.instances):
            self._report_job(job)
        self.effects.append(Send(COORDINATOR, Finished(instance.address, instance.marked)))

    def _report(self, now_ns: int) -> None:
        self._report_due_ns = now_ns + REPORT_EVERY_NS
        for job in self._unreported.values():
            self._report_job(job)
        self._unreported = {}

    def _report_job(self, job: LocalJob) -> None:
        functions: dict[str, dict[int, FunctionMetrics]] = {}
        for address, instance in job.unreported.items():
            functions.setdefault(address.function, {})[address.partition] = instance.snapshot_metrics()
        job.unreported = {}
        self.effects.append(Send(COORDINATOR, Report(job.job, functions, self.refused)))

    def check_invariants(self) -> None:
        """What must hold between any two events; the simulator and the property tests call this after each step."""
        for instance in [instance for job in self.jobs.values() for instance in job.instances.values()]:
            has_work = bool(instance.mailbox) if instance.gate is None else self.leasing.has_work(instance)
            check_instance(instance, has_work, instance is self._running)


def _next_read(source: Instance, due_ns: int, now_ns: int) -> NextRead:
    """Reading is as urgent as what will be read: it was due at a time, and has its whole way before it."""
    latency_ns = source.outs[0].latency_ns if source.outs else LAX_NS
    if latency_ns == LAX_NS:
        due_ns = max(due_ns, now_ns - YIELDS_NS)
    return NextRead(start_deadline_ns(due_ns, latency_ns, source.cost_ns, source.path_ns))
