"""A whole cluster in one process and in virtual time: workers, the driver's worker, the coordinator, the network."""

from __future__ import annotations

import heapq
import random
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from stretto.actors.address import Address, job_of
from stretto.actors.channel import Message
from stretto.actors.deployment import Deployment
from stretto.actors.gate import LesseeGate, Observer
from stretto.actors.instance import Instance
from stretto.actors.mailbox_states import MailboxState, Role, Trigger
from stretto.actors.seat import Seat
from stretto.actors.shape import shapes_of
from stretto.actors.work import OPEN
from stretto.api.slo import SLO
from stretto.coordinator import events as coordination
from stretto.coordinator.machine import Coordinator
from stretto.coordinator.observing import OBSERVE_EVERY_NS
from stretto.coordinator.records import JobStatus
from stretto.elasticity.decisions import DrainWorker
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.elasticity.team import Team
from stretto.errors import InvariantError
from stretto.observation.model import Observation
from stretto.operators.ends import SinkFunction
from stretto.protocol.bursts import Redirect
from stretto.protocol.channels import Data
from stretto.protocol.clock import SteadyClock
from stretto.protocol.elastic import ShardsMoved
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Deploy, Failure
from stretto.protocol.leasing import SyncAck, SyncReply, SyncRequest, Unsync
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR, Join, Leave, Member, MemberRole
from stretto.protocol.reports import Report
from stretto.scheduling.policies import LLF, Policy
from stretto.scheduling.strategy import Strategy
from stretto.simulator.checking.history import History
from stretto.simulator.engine.watching import present_watcher
from stretto.worker import events as working
from stretto.worker.machine import Worker, WorkerParts

REPEATABLE = (SyncRequest, SyncAck, SyncReply, Unsync)
"""Frames that carry the number of their barrier, so that the receiver recognises a duplicate."""

TRANSIENT = "t"
"""The names of transient workers begin so."""

CLOCK_TURN_NS = 5_000_000
"""How often a simulated clock reads its wall clock: more often than a real one, since simulated runs are short."""

Costs = Callable[[random.Random, Instance, Any], int]
"""Returns how long a run takes, in nanoseconds."""

Links = Callable[[str, str, Frame, int], int]
"""Returns how long a frame takes from one member to another, besides its delay, if it is sent now, in nanoseconds."""

STARTED_NS = (5_000_000, 60_000_000)
"""Bounds of the time until a worker that was added joins, and until Spark reports that a task has ended."""

WATCHED_EVERY_NS = 1_000_000_000

NEVER_LOST_NS = 10**18
"""Simulated workers send no heartbeats: where the coordinator has the time, a silent one must not count as lost."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in nanoseconds. The first two are uniformly random between their bounds.

    `receive_ns` is what a frame costs its receiver, `send_ns` what a batch costs its sender. If they are set, a worker
    does one thing at a time, as the real one does: frames wait while a function runs. Otherwise only runs take time."""

    delay_ns: tuple[int, int] = (20_000, 2_000_000)
    cost_ns: tuple[int, int] = (1_000, 500_000)
    receive_ns: int = 0
    send_ns: int = 0
    ns_per_byte: float = 0.0
    """Added to the delay of a frame for each byte of the state that it carries."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Disturbances without a crash: duplicated control frames, clock skew, slow workers, pauses.

    `slow` multiplies the cost of a run on a worker, `slow_work` that of a kind of work, `skew_ns` is how far a member's
    wall clock is ahead, `pauses` are the intervals in which a worker is stopped: nothing reaches it and nothing leaves
    it."""

    copies: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    skew_ns: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    slow_work: dict[type, float] = field(default_factory=dict)


@dataclass
class SimulatedJob:
    """The status and failure of a job, the writers of its sinks on the driver, and what misbehaved: strategies and
    policies that were given up, functions that have ended their worker."""

    status: JobStatus = JobStatus.DEPLOYING
    recoveries: int = 0
    failure: Failure | None = None
    writers: dict[str, Any] = field(default_factory=dict)
    given_up: list[coordination.AnnounceMisbehaviour] = field(default_factory=list)


class SimulatedCluster:
    """Use: `SimulatedCluster(workers=5, seed=7)`, `submit` deployments, then `run` until the event queue is empty."""

    def __init__(
        self,
        workers: int,
        seed: int,
        timing: Timing | None = None,
        steps_max: int = 5_000_000,
        weather: Weather | None = None,
        history: History | None = None,
        worker_parts: WorkerParts | None = None,
        costs: Costs | None = None,
        policy: Callable[[], Policy] = LLF,
        strategy: Callable[[], Strategy] | None = None,
        begins_ns: int = 1_000_000_000,
        controllers: Team | None = None,
        host_of: Callable[[str], str] | None = None,
        links: Links | None = None,
        checked: bool = True,
        transient: int = 0,
    ) -> None:
        """There are `workers` ordinary and `transient` transient workers.

        With `controllers`, the coordinator is told the time and asks them. `host_of` names the node of a worker; all
        are on one by default. Without `checked`, invariants are not checked: large experiments take half the time."""
        self._watcher = present_watcher()
        self._controllers = controllers
        self._host_of = host_of
        self._links = links
        self._checked = checked
        self._coordinator_wakes = False
        self._random = random.Random(seed)
        self._timing = timing or Timing()
        self._weather = weather or Weather()
        self._history = history
        self._worker_parts = worker_parts
        self._costs = costs
        self._policy = policy
        self._strategy = strategy
        self._steps_max = steps_max
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._latest_ns: dict[tuple[str, str], int] = {}
        self._wake_ns: dict[str, int] = {}
        self._deployments: dict[str, Deployment] = {}
        self._next_deployments: dict[str, Deployment] = {}
        """What a job is to be, for handovers that change its parallelism."""
        self._codes: dict[str, Deployment] = {}
        """The deployments of handovers, by their digests."""
        self._frames_waiting: dict[str, deque[working.Event]] = {}
        self._busy: set[str] = set()
        self._owed_ns: dict[str, int] = {}
        self._homes: dict[Instance, str] = {}
        """All instances that have run at least once, with their workers."""
        self._seats: set[Seat] = set()
        self.now_ns = begins_ns
        self._clocks: dict[str, SteadyClock] = {}
        self.jobs: dict[str, SimulatedJob] = {}
        self.recoveries = 0
        self.handed_over: list[str] = []
        """The attempts of jobs that others have taken over from."""
        self.handovers_called_off = 0
        self.shards_moved = 0
        self.moves: list[ShardsMoved] = []
        """What homes have reported about moves of shards."""
        self.decisions: dict[int, DecisionRecord] = {}
        """The records of controllers' decisions, by their numbers, each as it was announced last."""
        self._drains: dict[int, DecisionRecord] = {}
        """Those that have a worker leave. A run that does not end has thousands of others."""
        self.observation = Observation()
        self.unstartable = 0.0
        """The share of workers to be added that cannot be started."""
        self.cold_late, self.cold_late_ns = 0.0, 50_000_000
        """The share of transient workers to be added that come so much later, each time that they are looked at."""
        self.cold_given_up: set[str] = set()
        """Workers to be added that are not waited for any more."""
        self.leaver_faults: list[str] = []
        """What was wrong with workers that leave."""
        self.refusals: list[str] = []
        self.coordinator = self.new_coordinator()
        self._clocks[COORDINATOR] = self.new_clock(COORDINATOR)
        self.workers: dict[str, Worker] = {}
        self._gone: list[Worker] = []
        self.on_frame: Callable[[str, Frame], None] | None = None
        """Called with each frame that is sent and its receiver; for faults at the worst moment."""
        self._transient_wanted = transient
        self._assemble([*(f"w{i}~1" for i in range(workers)), "driver~1", *self._new_transient(1)])

    def _new_transient(self, incarnation: int) -> list[str]:
        return [f"{TRANSIENT}{i}~{incarnation}" for i in range(self._transient_wanted)]

    def new_coordinator(self) -> Coordinator:
        if self._controllers is None:
            return Coordinator()
        return Coordinator(NEVER_LOST_NS, controllers=self._controllers)

    def new_worker(self, name: str, observer: Observer | None, strategy: Strategy | None) -> Worker:
        return Worker(name, self._worker_parts, observer, self._policy(), strategy)

    def new_clock(self, name: str) -> SteadyClock:
        return SteadyClock(lambda: self.wall_ns(name), lambda: self.now_ns, CLOCK_TURN_NS)

    def wall_ns(self, name: str) -> int:
        """Returns the wall time at a member, which is not before the epoch, however far its clock was set back."""
        return max(0, self.now_ns + self._weather.skew_ns.get(name, 0))

    def step_clock(self, name: str, by_ns: int) -> None:
        """Set a member's wall clock forward or back. A process that replaces it later starts without the step."""
        self._weather.skew_ns[name] = self._weather.skew_ns.get(name, 0) + by_ns

    def submit(
        self,
        deployment: Deployment,
        checkpoints: coordination.CheckpointPlan | None = None,
        objective: SLO | None = None,
    ) -> SimulatedJob:
        """Ask the coordinator to run a deployment. Nothing happens before `run`."""
        if self._watcher is not None and not self.jobs:
            self._later(WATCHED_EVERY_NS, self._watch)
        job = self.jobs[deployment.job] = SimulatedJob()
        self._deployments[deployment.job] = deployment
        self._next_deployments.pop(deployment.job, None)
        shapes = shapes_of(deployment)
        request = coordination.SubmitRequested(deployment.job, "", shapes, deployment.spreads, checkpoints, objective)
        self._later(0, partial(self._coordinate, request))
        return job

    def stop(self, job: str, after_ns: int, drain: bool = False) -> None:
        """Stop a job after `after_ns` of virtual time."""
        self._later(after_ns, partial(self._coordinate, coordination.StopRequested(job, drain)))

    def reshape(self, deployment: Deployment, avoid: frozenset[str] = frozenset()) -> None:
        """Hand a running job over to an attempt with the parallelism of this deployment, and with keys dealt as there,
        off the workers to `avoid`."""
        self._next_deployments[deployment.job] = deployment
        counts = {name: spec.parallelism for name, spec in deployment.functions.items()}
        dealt = {name: spec.dealt for name, spec in deployment.functions.items() if spec.dealt is not None}
        self._coordinate(coordination.ReshapeRequested(deployment.job, counts, avoid, dealt))

    def ask(self, request: coordination.Event) -> None:
        """Have the coordinator handle an event now."""
        self._coordinate(request)

    def plan(self, after_ns: int, happen: Callable[[], None]) -> None:
        """Have something happen after `after_ns` of virtual time."""
        self._later(after_ns, happen)

    def join(self, name: str, after_ns: int) -> None:
        """Add a worker after `after_ns` of virtual time."""
        self._later(after_ns, partial(self._join, name))

    def retire(self, name: str, after_ns: int) -> None:
        """Have a worker drained after `after_ns`, if it is home to no actor then: handovers need the time, which only a
        cluster with failures tells the coordinator."""
        self._later(after_ns, partial(self._retire, name))

    def _retire(self, name: str) -> None:
        if not any(name in job.homes for job in self.coordinator.jobs.values() if not job.status.ended):
            self._coordinate(coordination.DrainRequested(name))

    def _watch(self) -> None:
        """Shows what can be observed, by the second, and changes nothing: a run is the same if it is watched."""
        if self._watcher is not None and self._queue and self.coordinator.jobs:
            self._watcher.observed(self.coordinator.observed())
        if self._queue:
            self._later(WATCHED_EVERY_NS, self._watch)

    def run(self) -> None:
        """Process events until all jobs have ended and the event queue is empty."""
        steps = 0
        while self._queue:
            steps += 1
            if steps > self._steps_max:
                raise InvariantError("the simulation does not end", f"{steps} steps, jobs {self.jobs}")
            self.step()
        unended = [name for name, job in self.jobs.items() if not job.status.ended]
        if unended:
            raise InvariantError("the event queue is empty, but jobs have not ended", ", ".join(unended))

    @property
    def next_ns(self) -> int | None:
        """When the next event happens, if any."""
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Process the next event."""
        self.now_ns, _, happen = heapq.heappop(self._queue)
        happen()

    def where(self, instance: Instance) -> str:
        """Returns the worker that hosts an instance."""
        return self._homes[instance]

    def close(self) -> None:
        """Release all objects. Call it after the last read from the cluster.

        The garbage collector does not track messages, so it cannot free a cycle through one. An object that holds a
        message (a mailbox, a gate, a strategy, the effects of a crashed worker) is also reachable from it, through its
        channel, the seat there and the sender. Clearing the fields of seats and the senders of channels breaks the
        cycles."""
        self._queue.clear()
        jobs = [job for worker in (*self.workers.values(), *self._gone) for job in worker.jobs.values()]
        seats = {*self._seats, *(seat for job in jobs for seat in job.all_seats())}
        for seat in seats:
            for out in (*seat.outs, *seat.extra_outs):
                if out.local is not None:
                    out.local.out = None
        for seat in seats:
            vars(seat.instance).clear()
            for name in Seat.__slots__:
                delattr(seat, name)
        self._homes.clear()
        self._seats.clear()
        self.workers.clear()
        self._gone.clear()

    # Members.

    def _assemble(self, names: list[str]) -> None:
        """Let all workers join at once: each receives only the last membership that the coordinator announces."""
        last: dict[str, Send] = {}
        for name in names:
            self._add(name)
            for effect in self.coordinator.handle(FrameArrived(name, Join(self._member(name))), self.now_ns):
                if isinstance(effect, Send):
                    last[effect.to] = effect
        for effect in last.values():
            self._work(effect.to, FrameArrived(COORDINATOR, effect.frame))

    def _join(self, name: str) -> None:
        self._add(name)
        self._transmit(name, COORDINATOR, Join(self._member(name)))

    def _start_worker(self, name: str) -> None:
        if name.partition("~")[0] in self.cold_given_up:
            return
        if is_transient(name) and self._random.random() < self.cold_late:
            self._later(self.cold_late_ns, partial(self._start_worker, name))  # Spark has no executor yet.
        elif self.unstartable and self._random.random() < self.unstartable:
            self._coordinate(coordination.StartFailed(name, "Spark has no slot"))
        else:
            self._join(name)

    def _release(self, name: str) -> None:
        """End the task of a worker that may hang."""
        if name in self.workers:
            self._gone.append(self.workers.pop(name))
        self._coordinate(coordination.WorkerEnded(name, "it was cancelled"))

    def _check_leaver(self, name: str, frame: Leave | Deploy) -> None:
        """A worker that leaves gets nothing new, and is asked to leave when no running job has anything there."""
        if isinstance(frame, Deploy):
            if name in self._leavers():
                self.leaver_faults.append(f"{name} drains and got {frame.job}")
            return
        current = {job.attempt for job in self.coordinator.jobs.values() if not job.status.ended}
        if is_transient(name):
            return  # What it has of jobs runs elsewhere then.
        jobs = self.workers[name].jobs.values() if name in self.workers else ()
        for seat in (seat for job in jobs if job.job in current for seat in job.all_seats()):
            if not isinstance(seat.gate, LesseeGate) or seat.gate.state is MailboxState.RUNNABLE:
                self.leaver_faults.append(f"{name} was asked to leave with {seat.address}")

    def _check_redirect(self, frame: Redirect) -> None:
        """Nothing new goes to a transient worker that leaves."""
        for function, to in frame.functions.items():
            if leaving := self._leavers().intersection(to.members):
                self.leaver_faults.append(f"{min(leaving)} leaves, and batches of {function} go there")

    def _check_slot(self, name: str) -> None:
        """The slot of a worker that has left is free."""
        if name in self.workers:
            self.leaver_faults.append(f"{name} has left, and its task has not ended")

    def _leavers(self) -> set[str]:
        leaving = [each for each in self._drains.values() if each.outcome in (Outcome.PENDING, Outcome.DONE)]
        return {each.decision.member for each in leaving if isinstance(each.decision, DrainWorker)}

    def forget_decisions(self) -> None:
        """Another driver has announced none yet."""
        self.decisions.clear()
        self._drains.clear()

    def _member(self, name: str) -> Member:
        role = MemberRole.DRIVER if name.startswith("driver") else MemberRole.WORKER
        if is_transient(name):
            return Member(name, "", name, self._host_of(name) if self._host_of else "", 0, MemberRole.TRANSIENT)
        return Member(name, f"sim://{name}", name, self._host_of(name) if self._host_of else "simulated", 0, role)

    def is_parked(self, name: str) -> bool:
        """Whether a worker is a spare that gets no work until another worker is lost."""
        return False

    def _add(self, name: str) -> None:
        observer = _Recorder(self, name, self._history) if self._history is not None else None
        strategy = self._strategy() if self._strategy is not None else None
        self.workers[name] = self.new_worker(name, observer, strategy)
        self._clocks[name] = self.new_clock(name)
        self._coordinate(coordination.WorkerExpected(name, name, self.is_parked(name), is_transient(name)))

    # Time and the network.

    def _later(self, delay_ns: int, happen: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._scheduled, happen))

    def _transmit(self, sender: str, to: str, frame: Frame) -> None:
        """Deliver a frame after a delay, and after all earlier frames from this sender to this receiver."""
        if is_transient(sender) and is_transient(to):
            raise InvariantError("two transient workers talk to each other", f"{sender} to {to}: {frame!r:.200}")
        if self.on_frame is not None:
            self.on_frame(to, frame)
        if isinstance(frame, Report):
            frame = _as_sent(frame)
        copies = 1
        if self._weather.copies and isinstance(frame, REPEATABLE) and self._random.random() < self._weather.copies:
            copies = 2
        for _ in range(copies):
            due_ns = self.now_ns + self._random.randint(*self._timing.delay_ns)
            if self._timing.ns_per_byte and (states := getattr(frame, "states", None)) is not None:
                due_ns += int(len(states) * self._timing.ns_per_byte)
            if self._links is not None:
                due_ns += self._links(sender, to, frame, self.now_ns)
            due_ns = self._latest_ns[sender, to] = max(due_ns, self._latest_ns.get((sender, to), 0) + 1)
            arrival = FrameArrived(sender, frame)
            if to == COORDINATOR:
                self._later(due_ns - self.now_ns, partial(self._coordinate, arrival))
            elif to in self.workers:
                self._later(due_ns - self.now_ns, partial(self._arrive, to, arrival))

    def _arrive(self, name: str, event: working.Event) -> None:
        if not self._timing.receive_ns:
            self._work(name, event)
            return
        self._frames_waiting.setdefault(name, deque()).append(event)
        if name not in self._busy:
            self._busy.add(name)
            self._take_next(name)

    def _take_next(self, name: str) -> None:
        """Let a worker that does one thing at a time take the next frame, or become idle."""
        if self._frames_waiting.get(name):
            self._later(self._owed(name) + self._timing.receive_ns, partial(self._take, name))
        else:
            self._busy.discard(name)

    def _take(self, name: str) -> None:
        worker = self.workers.get(name)
        if worker is None or worker.busy:
            return  # A timer has started a run; the frames wait for its end.
        if self._frames_waiting[name]:
            self._work(name, self._frames_waiting[name].popleft())
        if not worker.busy:
            self._take_next(name)

    def _owed(self, name: str) -> int:
        """Returns and clears the time that sending has cost since the last call."""
        return self._owed_ns.pop(name, 0)

    def _start(self, name: str, seat: Seat, work: Any) -> None:
        """Start a run after taking in the frames that have arrived."""
        waiting_frames = self._frames_waiting.get(name) or ()
        waiting = len(waiting_frames)
        for _ in range(waiting):
            self._work(name, self._frames_waiting[name].popleft())
        delay_ns = self._owed(name) + waiting * self._timing.receive_ns
        self._busy.add(name)
        self._later(delay_ns, partial(self._execute, name, seat, work))

    def _paused_until(self, name: str) -> int:
        pauses = self._weather.pauses.get(name)
        if pauses is None:
            return 0
        return max((end_ns for start_ns, end_ns in pauses if start_ns <= self.now_ns < end_ns), default=0)

    # The machines.

    def _coordinate(self, event: coordination.Event) -> None:
        if isinstance(event, FrameArrived) and isinstance(event.frame, ShardsMoved):
            self.shards_moved += event.frame.moved
            self.moves.append(event.frame)
        under_way = [(job, job.attempt, job.handover) for job in self.coordinator.jobs.values() if job.handover]
        for effect in self.coordinator.handle(event, self._clocks[COORDINATOR].now_ns()):
            match effect:
                case Send(to=to, frame=frame):
                    if isinstance(frame, Leave | Deploy):
                        self._check_leaver(to, frame)
                    if isinstance(frame, Redirect):
                        self._check_redirect(frame)
                    self._transmit(COORDINATOR, to, frame)
                case coordination.AnnounceJob(job=job, status=status):
                    self.recoveries += status is JobStatus.RECOVERING
                    self.jobs[job].recoveries += status is JobStatus.RECOVERING
                    self.jobs[job].status = status
                    self.jobs[job].failure = self.explained(effect).failure
                case coordination.Observed(observation=observation):
                    self.observation = observation
                    if self._watcher is not None:
                        self._watcher.observed(observation)
                case coordination.AnnounceMisbehaviour(job=job):
                    self.jobs[job].given_up.append(effect)
                case coordination.MakeCode():
                    self._later(self._random.randint(*self._timing.delay_ns), partial(self._make_code, effect))
                case coordination.AnnounceDecision(number=number, record=record):
                    self.decisions[number] = record
                    if self._watcher is not None:
                        self._watcher.decided(record)
                    if isinstance(record.decision, DrainWorker):
                        self._drains[number] = record
                    if isinstance(record.decision, DrainWorker) and record.outcome is Outcome.DONE:
                        self._check_slot(record.decision.member)
                case coordination.StartWorker(name=name):
                    self._later(self._random.randint(*STARTED_NS), partial(self._start_worker, name))
                case coordination.GiveUpWorker(name=name):
                    self.cold_given_up.add(name)
                case coordination.ReleaseWorker(name=name):
                    self._later(self._random.randint(*STARTED_NS), partial(self._release, name))
                case Refuse(reason=reason):
                    self.refusals.append(reason)
                case _:
                    self.carry_out_for_coordinator(effect)
        for known, before, handover in under_way:
            if known.attempt == handover.attempt:
                self.handed_over.append(before)
            elif known.handover is not handover:
                self.handovers_called_off += 1
        if self._controllers is not None:
            self._wake_coordinator()

    def _make_code(self, request: coordination.MakeCode) -> None:
        deployment = self._next_deployments.get(request.job) or self._rescaled(request)
        digest = f"code {len(self._codes) + 1}"
        self._codes[digest] = deployment
        shapes, spreads = shapes_of(deployment), deployment.spreads
        self._coordinate(coordination.CodeMade(request.job, request.order, digest, shapes, spreads))

    def _rescaled(self, request: coordination.MakeCode) -> Deployment:
        """Returns the deployment of a job with the parallelism that a controller wants."""
        deployment = self._deployments[request.job]
        counts = {**request.current, **request.parallelism}
        specs = {
            name: replace(spec, parallelism=counts[name], dealt=request.shards.get(name))
            for name, spec in deployment.functions.items()
        }
        return replace(deployment, functions=specs)

    def _wake_coordinator(self) -> None:
        """Tell the coordinator the time when a controller is due, and as often as it may observe, while jobs run."""
        if self._coordinator_wakes or all(job.status.ended for job in self.jobs.values()):
            return
        self._coordinator_wakes = True
        due_ns = self.coordinator.next_deadline_ns()
        in_ns = OBSERVE_EVERY_NS if due_ns is None else due_ns - self._clocks[COORDINATOR].now_ns()
        self._later(min(max(in_ns, CLOCK_TURN_NS), OBSERVE_EVERY_NS), self._tick_coordinator)

    def _tick_coordinator(self) -> None:
        self._coordinator_wakes = False
        self._coordinate(Ticked())

    def explained(self, announcement: coordination.AnnounceJob) -> coordination.AnnounceJob:
        """Hook for the causes of failures that only a cluster with checkpoints has."""
        return announcement

    def carry_out_for_coordinator(self, effect: coordination.Effect) -> None:
        """Hook for effects that only a cluster with checkpoints and failures has."""

    def carry_out_for_worker(self, name: str, effect: working.Effect) -> None:
        """Likewise."""

    def _work(self, name: str, event: working.Event) -> None:
        worker = self.workers.get(name)
        if worker is None:
            return
        paused_until_ns = self._paused_until(name)
        if paused_until_ns:
            self._later(paused_until_ns - self.now_ns, partial(self._work, name, event))
            return
        if self._history is not None and isinstance(event, working.Ran):
            self._history.ended(self.now_ns, name, event.seat.instance, event.work, event.outcome)
        for effect in worker.handle(event, self._clocks[name].now_ns()):
            match effect:
                case working.Run(seat=seat, work=work):
                    if self._timing.receive_ns:
                        self._later(0, partial(self._start, name, seat, work))
                    else:
                        self._execute(name, seat, work)
                case Send(to=to, frame=frame):
                    if isinstance(frame, Data):
                        self._owed_ns[name] = self._owed_ns.get(name, 0) + self._timing.send_ns
                    self._transmit(name, to, frame)
                case working.LoadCode(job=job, digest=digest):
                    deployment = self._codes.get(digest) or self._deployments[job_of(job)]
                    self._work(name, working.CodeLoaded(job, deployment))
                case working.Close(seats=seats):
                    for seat in seats:
                        seat.instance.close()
                case working.Exit():
                    self._gone.append(self.workers.pop(name))
                    ended = coordination.WorkerEnded(name, "its task returned")
                    self._later(STARTED_NS[0], partial(self._coordinate, ended))
                    return
                case Refuse(reason=reason):
                    self.refusals.append(reason)
                case _:
                    self.carry_out_for_worker(name, effect)
        if self._timing.receive_ns:
            if isinstance(event, working.Ran | working.RunFailed) and not worker.busy:
                self._take_next(name)
        elif self._checked:
            worker.check_invariants()
        self._wake(name, worker)

    def _wake(self, name: str, worker: Worker) -> None:
        deadline_ns = worker.next_deadline_ns()
        if deadline_ns is None or self._wake_ns.get(name, -1) == deadline_ns:
            return
        self._wake_ns[name] = deadline_ns
        self._later(max(0, deadline_ns - self._clocks[name].now_ns()), partial(self._tick, name, deadline_ns))

    def _tick(self, name: str, deadline_ns: int) -> None:
        if self._wake_ns.get(name) == deadline_ns:
            del self._wake_ns[name]
        self._work(name, Ticked())

    def _execute(self, name: str, seat: Seat, work: Any) -> None:
        paused_until_ns = self._paused_until(name)
        if paused_until_ns:
            # It hangs in the middle of a run, and continues that run before it receives anything else.
            self._later(paused_until_ns - self.now_ns, partial(self._execute, name, seat, work))
            return
        instance = seat.instance
        self._homes[instance] = name
        self._seats.add(seat)
        cost_ns = self._cost_ns(name, instance, work)
        if self._history is not None:
            self._history.began(self.now_ns, name, instance, work)
        event: working.Event
        try:
            outcome = instance.apply(work, self._clocks[name].now_ns())
        except Exception as error:
            failure = Failure(type(error).__name__, str(error), traceback=traceback.format_exc())
            event = working.RunFailed(seat, work, failure)
        else:
            cost_ns += int(self.spent_ns() * self._weather.slow.get(name, 1.0))
            event = working.Ran(seat, work, outcome, cost_ns)
            if work is OPEN and isinstance(instance.function, SinkFunction) and instance.spec.on_driver:
                self.jobs[job_of(instance.address.job)].writers[instance.address.function] = instance.function.writer
        self._later(cost_ns, partial(self._work, name, event))

    def spent_ns(self) -> int:
        """Hook for what the run that has just ended took besides, where only the functions know it."""
        return 0

    def _cost_ns(self, name: str, instance: Instance, work: Any) -> int:
        if self._costs is not None:
            cost_ns = self._costs(self._random, instance, work)
        else:
            cost_ns = self._random.randint(*self._timing.cost_ns)
        return int(cost_ns * self._weather.slow.get(name, 1.0) * self._weather.slow_work.get(type(work), 1.0))


class _Recorder:
    """Records what the gates of one worker do, and when, in the history."""

    def __init__(self, cluster: SimulatedCluster, member: str, history: History) -> None:
        self._cluster = cluster
        self._member = member
        self._history = history

    def moved(self, address: Address, role: Role, before: MailboxState, trigger: Trigger, after: MailboxState) -> None:
        self._history.moved(self._cluster.now_ns, self._member, address, role, before, trigger, after)

    def noted(self, message: Message) -> None:
        self._history.noted(self._cluster.now_ns, self._member, message)


def _as_sent(report: Report) -> Report:
    """Returns a report as it is now: instances go on counting in the metrics that it holds."""
    functions = {
        function: {
            partition: msgspec.structs.replace(
                metrics,
                executed_from=metrics.executed_from.copy(),
                sent_to=metrics.sent_to.copy(),
                counts=metrics.counts.copy(),
                waited_ns=metrics.waited_ns.copy(),
            )
            for partition, metrics in partitions.items()
        }
        for function, partitions in report.functions.items()
    }
    return msgspec.structs.replace(report, functions=functions)


def is_transient(name: str) -> bool:
    """Whether a member is a transient worker."""
    return name.startswith(TRANSIENT)
