"""The worker machine: events in, effects out. It owns instances, mailboxes and channels, and runs one thing at a time.

It decides which message runs next (through a strategy), where outputs go, when a sender must wait for credits, and what
the coordinator is told. It must never know the clock, sockets, Spark or files: time comes with each event, and whatever
takes time or touches the world is an effect that comes back as an event.

A run is an effect (`Run`): the driver calls `instance.apply` and reports `Ran` or `RunFailed`, with what it cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import CREDITS_PER_CHANNEL, InChannel, Message, OutChannel, Payload
from stretto.actors.deployment import Deployment
from stretto.actors.instance import Errand, Instance, Outcome, Phase, Work
from stretto.actors.metrics import FunctionMetrics
from stretto.actors.wiring import wire
from stretto.errors import InvariantError
from stretto.machine import FrameArrived, Refuse, Send, Ticked
from stretto.protocol import (
    COORDINATOR,
    CriticalSent,
    Data,
    Deploy,
    Drain,
    Failed,
    Failure,
    Finished,
    Frame,
    Grant,
    Leave,
    Left,
    Member,
    Members,
    OpenChannel,
    Ready,
    Report,
    Start,
    Stop,
    Stopped,
)
from stretto.scheduling.fifo import Fifo

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


Event = FrameArrived | CodeLoaded | CodeFailed | Ran | RunFailed | Ticked


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


Effect = Run | Send | LoadCode | Close | Connect | Refuse | Exit


class JobPhase(Enum):
    """Where a job stands on this worker."""

    LOADING = "loading"
    OPENING = "opening"
    READY = "ready"
    RUNNING = "running"


class LocalJob:
    """What this worker knows of a job: the instances here and where the others are."""

    def __init__(self, job: str, placement: dict[str, list[str]]) -> None:
        self.job = job
        self.placement = placement
        self.phase = JobPhase.LOADING
        self.instances: dict[Address, Instance] = {}
        self.opening = 0
        self.finished = 0
        # What has run since the last report: reporting costs what was done, not what is there.
        self.unreported: dict[Address, Instance] = {}


class Worker:
    """The machine. `handle` is the only way in."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.epoch = 0
        self.refused = 0
        self.stale = 0
        self.jobs: dict[str, LocalJob] = {}
        self._members: dict[str, Member] = {}
        self._strategy = Fifo()
        self._running: Instance | None = None
        self._channels_made = 0
        self._outs: dict[int, OutChannel] = {}
        self._ins: dict[tuple[str, int], InChannel] = {}
        self._alarms: list[tuple[int, int, Instance, Errand]] = []
        self._alarms_made = 0
        self._report_due_ns = 0
        self._unreported: dict[str, LocalJob] = {}
        self._effects: list[Effect] = []
        self._leaving = False
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            FrameArrived: self._on_frame,
            CodeLoaded: self._on_code_loaded,
            CodeFailed: self._on_code_failed,
            Ran: self._on_ran,
            RunFailed: self._on_run_failed,
            Ticked: lambda event, now_ns: None,
        }
        self._frame_handlers: dict[type, Callable[[str, Any, int], None]] = {
            Data: self._on_data,
            CriticalSent: self._on_critical,
            Grant: self._on_grant,
            OpenChannel: self._on_open_channel,
            Members: self._on_members,
            Deploy: self._on_deploy,
            Start: self._on_start,
            Drain: self._on_drain,
            Stop: self._on_stop,
            Leave: self._on_leave,
        }

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event in; the effects are to be carried out in order."""
        effects: list[Effect] = []
        self._effects = effects
        self._handlers[type(event)](event, now_ns)
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
        instance = self._strategy.next_instance()
        if instance is None:
            return
        work: Work
        if instance.mailbox:
            work = instance.mailbox.popleft()
        else:
            work = Errand.POLL
            instance.poll_due = False
        self._running = instance
        self._effects.append(Run(instance, work))

    def _offer(self, instance: Instance) -> None:
        """Put an instance up for running if it has work and may send."""
        if instance.queued or instance.dropped or instance is self._running:
            return
        if (instance.mailbox or instance.poll_due) and (not instance.starved or instance.opening):
            self._strategy.enqueue(instance)

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
            self._offer(instance)

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
        self._mark(instance)
        if isinstance(work, Message):
            channel = work.channel
            metrics.messages_in += 1
            if outcome.rows_in:
                rows = outcome.rows_in
                metrics.rows_in += rows
                sender = channel.sender.function
                metrics.executed_from[sender] = metrics.executed_from.get(sender, 0) + rows
                if instance.latency is not None:
                    instance.latency.add(now_ns - work.arrived_ns, rows)
            self._give_back(channel)
        elif outcome.rows_in:
            metrics.rows_in += outcome.rows_in
        for out, payload in outcome.sends:
            self._send(out, payload, outcome.arrived_ns)
        self._after_run(instance, work, outcome, now_ns)

    def _after_run(self, instance: Instance, work: Work, outcome: Outcome, now_ns: int) -> None:
        if outcome.finished:
            instance.phase = Phase.FINISHED
            self._report_finished(instance, now_ns)
            return
        if work is Errand.OPEN:
            self._opened(instance)
        elif work is Errand.POLL:
            if outcome.next_ns is None:
                instance.poll_due = True
            elif self._strategy.idle:
                self._set_alarm(outcome.next_ns, instance, Errand.POLL)
            else:
                # There is other work: let rows gather, so that batches grow with the load.
                self._set_alarm(max(outcome.next_ns, outcome.gather_until_ns), instance, Errand.POLL)
        timer_ns = instance.next_timer_ns()
        if timer_ns is not None and (instance.timers_alarm_ns is None or timer_ns < instance.timers_alarm_ns):
            instance.timers_alarm_ns = timer_ns
            self._set_alarm(timer_ns, instance, Errand.TIMERS)
        self._offer(instance)

    def _on_run_failed(self, event: RunFailed, now_ns: int) -> None:
        self._running = None
        if not event.instance.dropped:
            self._fail(event.instance.address.job, event.failure)

    def _fail(self, job: str, failure: Failure) -> None:
        self._effects.append(Send(COORDINATOR, Failed(job, failure)))
        self._drop(job)

    # Channels.

    def _send(self, channel: OutChannel, payload: Payload, arrived_ns: int) -> None:
        channel.seq += 1
        channel.credits -= 1
        sender = channel.instance
        if channel.credits == 0:
            sender.starved += 1
        if isinstance(payload, pa.RecordBatch):
            sent_to = sender.metrics.sent_to
            rows = payload.num_rows
            sender.metrics.rows_out += rows
            sent_to[channel.receiver.function] = sent_to.get(channel.receiver.function, 0) + rows
        receiving = channel.local
        if receiving is not None:
            receiving.received = channel.seq
            self._put(receiving, Message(receiving, channel.seq, payload, arrived_ns))
            return
        assert channel.peer is not None
        if channel.seq == 1:
            # Announced here and not at the start of the job: a worker that started sooner may have fed us already.
            self._effects.append(Send(channel.peer, _opening(sender.address, channel)))
        frame: Frame
        if isinstance(payload, pa.RecordBatch):
            frame = Data(channel.number, channel.seq, arrived_ns, payload)
        else:
            frame = CriticalSent(channel.number, channel.seq, arrived_ns, payload)
        self._effects.append(Send(channel.peer, frame))

    def _put(self, channel: InChannel, message: Message) -> None:
        instance = channel.instance
        instance.mailbox.append(message)
        if instance.starved:
            self._mark(instance)  # It does not run now, and its queue grows: that should be seen.
        else:
            self._offer(instance)

    def _give_back(self, channel: InChannel) -> None:
        """Return credits for a consumed message: at once on a local channel, by the half window on a remote one."""
        if channel.out is not None:
            self._restore_credits(channel.out, 1)
            return
        channel.consumed += 1
        if channel.consumed * 2 >= CREDITS_PER_CHANNEL:
            assert channel.peer is not None
            self._effects.append(Send(channel.peer, Grant(channel.number, channel.consumed)))
            channel.consumed = 0

    def _restore_credits(self, channel: OutChannel, amount: int) -> None:
        before = channel.credits
        channel.credits = before + amount
        if before <= 0 < channel.credits:
            sender = channel.instance
            sender.starved -= 1
            self._offer(sender)

    def _on_data(self, sender: str, frame: Data, now_ns: int) -> None:
        self._receive(sender, frame.number, frame.seq, frame.batch, frame.arrived_ns)

    def _on_critical(self, sender: str, frame: CriticalSent, now_ns: int) -> None:
        self._receive(sender, frame.number, frame.seq, frame.critical, frame.arrived_ns)

    def _receive(self, sender: str, number: int, seq: int, payload: Payload, arrived_ns: int) -> None:
        channel = self._ins.get((sender, number))
        if channel is None:
            self.stale += 1  # A dropped job's frames may still be under way; they have nowhere to go.
            return
        if seq != channel.received + 1:
            self._fail(
                channel.instance.address.job,
                Failure(
                    "InvariantError",
                    f"channel {channel.sender} -> {channel.instance.address} lost its order",
                    f"message {seq} after {channel.received}",
                ),
            )
            return
        channel.received = seq
        self._put(channel, Message(channel, seq, payload, arrived_ns))

    def _on_grant(self, sender: str, frame: Grant, now_ns: int) -> None:
        channel = self._outs.get(frame.number)
        if channel is None:
            self.stale += 1
            return
        if channel.peer != sender or not 0 < frame.credits <= CREDITS_PER_CHANNEL - channel.credits:
            self._refuse(f"{frame.credits} credits from {sender} for channel {frame.number}, which are not its to give")
            return
        self._restore_credits(channel, frame.credits)

    def _on_open_channel(self, sender: str, frame: OpenChannel, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        instance = job.instances.get(Address(frame.job, frame.to_function, frame.to_partition)) if job else None
        channel = None
        if job is not None and instance is not None:
            home = job.placement.get(frame.function, [])
            if frame.partition >= len(home) or home[frame.partition] != sender:
                self._refuse(f"a channel of {frame.function}/{frame.partition} from {sender}, which does not host it")
                return
            address = Address(frame.job, frame.function, frame.partition)
            # A stream may reach an input by several edges: each announcement takes a channel that is still free.
            free = (c for c in instance.inputs if c.number < 0 and c.out is None)
            channel = next((c for c in free if c.sender == address and c.input == frame.input), None)
        if channel is None:
            self.stale += 1
            return
        channel.peer, channel.number = sender, frame.number
        self._ins[sender, frame.number] = channel

    # Jobs.

    def _on_frame(self, event: FrameArrived, now_ns: int) -> None:
        if event.sender != COORDINATOR and event.sender not in self._members:
            self._refuse(f"a frame of {event.sender}, which is not a member in epoch {self.epoch}")
            return
        handler = self._frame_handlers.get(type(event.frame))
        if handler is None:
            self._refuse(f"a frame of type {type(event.frame).__name__} from {event.sender}")
            return
        handler(event.sender, event.frame, now_ns)

    def _refuse(self, reason: str) -> None:
        self.refused += 1
        self._effects.append(Refuse(reason))

    def _on_members(self, sender: str, frame: Members, now_ns: int) -> None:
        if frame.epoch <= self.epoch:
            self._refuse(f"membership of epoch {frame.epoch} after epoch {self.epoch}")
            return
        self.epoch = frame.epoch
        self._members = {member.name: member for member in frame.members}
        if self.member not in self._members:
            self._exit("this incarnation was superseded")
            return
        self._effects.append(Connect(frame.members))

    def _on_deploy(self, sender: str, frame: Deploy, now_ns: int) -> None:
        self.jobs[frame.job] = LocalJob(frame.job, frame.placement)
        self._effects.append(LoadCode(frame.job, frame.digest))

    def _on_code_failed(self, event: CodeFailed, now_ns: int) -> None:
        if event.job in self.jobs:
            self._fail(event.job, event.failure)

    def _on_code_loaded(self, event: CodeLoaded, now_ns: int) -> None:
        job = self.jobs.get(event.job)
        if job is None:
            return  # Stopped before it was loaded.
        job.phase = JobPhase.OPENING
        wiring = wire(self.member, event.deployment, job.placement, self._channels_made)
        job.instances = wiring.instances
        self._outs.update(wiring.outs)
        self._channels_made += len(wiring.outs)
        job.opening = len(job.instances)
        for instance in job.instances.values():
            instance.mailbox.appendleft(Errand.OPEN)
            self._offer(instance)
        self._ready_if_opened(job)

    def _opened(self, instance: Instance) -> None:
        instance.phase = Phase.OPEN
        job = self.jobs[instance.address.job]
        job.opening -= 1
        self._ready_if_opened(job)

    def _ready_if_opened(self, job: LocalJob) -> None:
        if job.opening == 0 and job.phase is JobPhase.OPENING:
            job.phase = JobPhase.READY
            self._effects.append(Send(COORDINATOR, Ready(job.job)))

    def _on_start(self, sender: str, frame: Start, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        if job is None or job.phase is not JobPhase.READY:
            self._refuse(f"a start of job {frame.job}, which is not ready here")
            return
        job.phase = JobPhase.RUNNING
        for instance in job.instances.values():
            if instance.is_source:
                instance.poll_due = True
                self._offer(instance)

    def _on_drain(self, sender: str, frame: Drain, now_ns: int) -> None:
        job = self.jobs.get(frame.job)
        for instance in job.instances.values() if job else ():
            if instance.is_source and instance.phase is Phase.OPEN:
                instance.draining = True
                instance.poll_due = True
                self._offer(instance)

    def _on_stop(self, sender: str, frame: Stop, now_ns: int) -> None:
        if frame.job in self.jobs:
            self._report_job(self.jobs[frame.job])
            self._drop(frame.job)
        self._effects.append(Send(COORDINATOR, Stopped(frame.job)))

    def _drop(self, name: str) -> None:
        job = self.jobs.pop(name)
        self._unreported.pop(name, None)
        for instance in job.instances.values():
            instance.dropped = True
            instance.mailbox.clear()
            for out in instance.outs:
                self._outs.pop(out.number, None)
            for channel in instance.inputs:
                if channel.peer is not None:
                    self._ins.pop((channel.peer, channel.number), None)
        self._strategy.forget(name)
        self._alarms = [alarm for alarm in self._alarms if not alarm[2].dropped]
        heapq.heapify(self._alarms)
        self._effects.append(Close([i for i in job.instances.values() if i.phase is not Phase.FINISHED]))

    def _on_leave(self, sender: str, frame: Leave, now_ns: int) -> None:
        for job in list(self.jobs):
            self._drop(job)
        self._effects.append(Send(COORDINATOR, Left()))
        self._exit("the coordinator asked it to leave")

    def _exit(self, reason: str) -> None:
        self._leaving = True
        self._effects.append(Exit(reason))

    # Reports.

    def _mark(self, instance: Instance) -> None:
        job = self.jobs[instance.address.job]
        job.unreported[instance.address] = instance
        self._unreported[job.job] = job

    def _report_finished(self, instance: Instance, now_ns: int) -> None:
        job = self.jobs[instance.address.job]
        job.finished += 1
        if job.finished == len(job.instances):
            self._report_job(job)
        self._effects.append(Send(COORDINATOR, Finished(*instance.address)))

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
        self._effects.append(Send(COORDINATOR, Report(job.job, functions, self.refused)))

    def check_invariants(self) -> None:
        """What must hold between any two events; the simulator and the property tests call this after each step."""
        for job in self.jobs.values():
            for instance in job.instances.values():
                starved = sum(1 for out in instance.outs if out.credits <= 0)
                if starved != instance.starved:
                    raise InvariantError(f"{instance.address} counts {instance.starved} starved channels", f"{starved}")
                for out in instance.outs:
                    if out.credits > CREDITS_PER_CHANNEL:
                        raise InvariantError(f"a channel of {instance.address} has more credits than it began with")
                ready = bool(instance.mailbox or instance.poll_due) and not instance.starved
                if ready and not instance.queued and instance is not self._running:
                    raise InvariantError(f"{instance.address} has work and credits but is not up for running")


def _opening(sender: Address, channel: OutChannel) -> OpenChannel:
    return OpenChannel(
        channel.number,
        sender.job,
        sender.function,
        sender.partition,
        channel.receiver.function,
        channel.receiver.partition,
        channel.input,
        channel.schema.serialize().to_pybytes(),
    )
