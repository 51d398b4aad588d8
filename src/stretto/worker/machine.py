"""The worker machine: events in, effects out. It picks what runs next and lets its parts do the rest.

A run is an effect (`Run`): the driver calls `instance.apply` and reports `Ran` or `RunFailed`, with what it cost. One
thing runs at a time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.deadlines import COST_WEIGHT, NEVER_NS
from stretto.actors.gate import Observer
from stretto.actors.seat import Phase, Seat
from stretto.actors.tasks import Route
from stretto.actors.work import POLL, Outcome, Work
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Failed, Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR
from stretto.scheduling.policies import LLF, Policy
from stretto.scheduling.spreading import RejectSend
from stretto.scheduling.strategy import Strategy
from stretto.worker.alarms import Alarms
from stretto.worker.answering import Answering
from stretto.worker.asking import Asking
from stretto.worker.bursts.by_key import ByKey
from stretto.worker.bursts.redirecting import Redirecting
from stretto.worker.bursts.twins import Twins
from stretto.worker.calling import Calling
from stretto.worker.channels import Channels
from stretto.worker.copying import CopyKeeping
from stretto.worker.desk import StrategyDesk
from stretto.worker.doors import Doors
from stretto.worker.elastic.activation import Activation
from stretto.worker.elastic.homes import Homes
from stretto.worker.elastic.owners import Owners
from stretto.worker.elastic.routing import Routing
from stretto.worker.emitted import Fetching
from stretto.worker.entities import Entities
from stretto.worker.entity_reports import EntityReports
from stretto.worker.events import Effect, Event, Ran, Run, RunFailed
from stretto.worker.guarding import GuardedPolicy, is_shipped
from stretto.worker.handover.givers import Givers
from stretto.worker.handover.takers import Takers
from stretto.worker.hosting import Hosting
from stretto.worker.invariants import check_seat
from stretto.worker.jobs import Jobs
from stretto.worker.leasing.barriers import Barriers
from stretto.worker.leasing.forwarding import Forwarding
from stretto.worker.leasing.lessees import Lessees
from stretto.worker.leasing.lessors import Lessors
from stretto.worker.leasing.marks import Marks
from stretto.worker.leasing.programs import Programs
from stretto.worker.leasing.registration import Registration
from stretto.worker.leasing.rules import Rules
from stretto.worker.local_job import LocalJob
from stretto.worker.membership import Membership
from stretto.worker.part import FrameHandlers, Handlers, Part
from stretto.worker.promises import Promises
from stretto.worker.reports import Reports
from stretto.worker.resuming import Resuming
from stretto.worker.run_bounds import RunBounds
from stretto.worker.sending import Sending
from stretto.worker.sharing.homes import SharedHomes
from stretto.worker.sharing.reads import SharedReads
from stretto.worker.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """Which classes a worker is made of. The simulator plants faults by replacing one."""

    channels: type[Channels] = Channels
    hosting: type[Hosting] = Hosting
    rules: type[Rules] = Rules
    programs: type[Programs] = Programs
    barriers: type[Barriers] = Barriers
    lessees: type[Lessees] = Lessees
    forwarding: type[Forwarding] = Forwarding
    registration: type[Registration] = Registration
    activation: type[Activation] = Activation
    homes: type[Homes] = Homes
    routing: type[Routing] = Routing
    owners: type[Owners] = Owners
    snapshots: type[Snapshots] = Snapshots
    resuming: type[Resuming] = Resuming
    givers: type[Givers] = Givers
    takers: type[Takers] = Takers
    run_bounds: type[RunBounds] = RunBounds
    promises: type[Promises] = Promises
    redirecting: type[Redirecting] = Redirecting
    by_key: type[ByKey] = ByKey
    twins: type[Twins] = Twins
    entities: type[Entities] = Entities
    doors: type[Doors] = Doors
    calling: type[Calling] = Calling
    fetching: type[Fetching] = Fetching
    asking: type[Asking] = Asking
    answering: type[Answering] = Answering
    shared_reads: type[SharedReads] = SharedReads
    shared_homes: type[SharedHomes] = SharedHomes


class Worker:
    """The machine. `handle` is the only way in."""

    def __init__(
        self,
        member: str,
        parts: WorkerParts | None = None,
        observer: Observer | None = None,
        policy: Policy | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self.member = member
        self.policy = self._guarded(policy or LLF())
        self.now_ns = 0
        self.refused = 0
        self.memory_bytes = 0
        self.stale = 0
        self.jobs: dict[str, LocalJob] = {}
        self.effects: list[Effect] = []
        self._local_frames: deque[Frame] = deque()
        self._running: Seat | None = None
        self._timed: list[Part] = []
        self._parts = self._assembled(parts or WorkerParts(), observer, strategy or RejectSend())
        self._declare()

    def _assembled(self, kinds: WorkerParts, observer: Observer | None, strategy: Strategy) -> list[Part]:
        """Make the parts and introduce them to each other."""
        self.reports = reports = Reports(self)
        self.alarms = Alarms(self)
        self.run_bounds = run_bounds = kinds.run_bounds(self)
        self.channels = channels = kinds.channels(self, reports)
        rules = kinds.rules(self.member, channels)
        programs = kinds.programs(self.member)
        self.sending = sending = Sending(self, channels, rules)
        self.desk = desk = StrategyDesk(self, channels, sending, strategy)
        hosting = kinds.hosting(self, channels, observer)
        forwarding = kinds.forwarding(self, channels, rules, hosting, desk, reports)
        registration = kinds.registration(self, channels, rules, forwarding, hosting)
        barriers = kinds.barriers(self, channels, rules, programs, forwarding, registration, hosting)
        lessees = kinds.lessees(self, rules, programs, hosting)
        activation = kinds.activation(self, hosting)
        routing = kinds.routing(self, channels, desk)
        homes = kinds.homes(self, routing, rules, programs, forwarding, hosting, activation)
        self._owners = owners = kinds.owners(self, rules, hosting)
        snapshots = kinds.snapshots(self)
        marks = Marks(self, barriers, snapshots, hosting)
        resuming = kinds.resuming(self)
        takers = kinds.takers(self)
        givers = kinds.givers(self, snapshots, takers)
        jobs = Jobs(self, channels, desk, hosting, resuming, reports, run_bounds, takers)
        by_key = kinds.by_key(self, channels, desk, self.alarms)
        self._redirecting = redirecting = kinds.redirecting(self, desk, by_key)
        twins = kinds.twins(self, hosting)
        self.membership = membership = Membership(self)
        entity_reports = EntityReports(self)
        self.entities = entities = kinds.entities(self, entity_reports)
        self._fetching = fetching = kinds.fetching(self)
        self._calling = calling = kinds.calling(self, snapshots, fetching)
        self._shared_reads = shared_reads = kinds.shared_reads(self)
        # Some need each other.
        channels.connect(forwarding, registration, programs, hosting, desk, sending, routing)
        desk.connect(forwarding)
        hosting.connect(Lessors(rules, barriers, marks, routing), lessees, homes)
        barriers.connect(marks, homes, activation)
        snapshots.connect(marks, self.alarms)
        resuming.connect(jobs)
        takers.connect(jobs)
        asking, answering = kinds.asking(self), kinds.answering(self)
        copies = CopyKeeping(self, asking)
        asking.connect(membership, copies)
        answering.connect(membership)
        membership.connect(jobs, redirecting, entities, asking)
        own = desk.own
        self.ready = own.create_queue(self.policy)
        # Asked for each message: a strategy that leaves it to the queue is passed over.
        self._next_seat = partial(own.next_message, self.ready) if own.has_next_message else self.ready.next_seat
        calls: list[Part] = [entities, entity_reports, kinds.doors(self), calling, fetching, asking, copies, answering]
        shared: list[Part] = [shared_reads, kinds.shared_homes(self)]
        leasing: list[Part] = [forwarding, registration, barriers, lessees, activation, routing, homes, owners]
        timed: list[Part] = [membership, self.alarms, reports, run_bounds, kinds.promises(self, run_bounds)]
        others: list[Part] = [jobs, snapshots, resuming, givers, takers, *timed]
        return [channels, desk, hosting, *leasing, redirecting, by_key, twins, *calls, *shared, *others]

    def _declare(self) -> None:
        """Collect what the parts have declared."""
        self._handlers: Handlers = {
            FrameArrived: self._on_frame,
            Ran: self._on_ran,
            RunFailed: self._on_run_failed,
            Ticked: lambda event: None,
        }
        self._frame_handlers: FrameHandlers = {}
        for part in self._parts:
            self._handlers.update(part.events())
            self._frame_handlers.update(part.frames())
            for kind, after in part.errands().items():
                self.sending.follow(kind, after)
        self._timed += [part for part in self._parts if type(part).wake is not Part.wake]

    def _guarded(self, policy: Policy) -> Policy:
        if is_shipped(policy):
            return policy
        return GuardedPolicy(policy, lambda seat, what, error: self.desk.policy_misbehaved(seat, what, error))

    def attend(self, part: Part) -> None:
        """Wake a part that was made later than the others."""
        self._timed.append(part)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event in; the effects are to be carried out in order."""
        effects: list[Effect] = []
        self.effects = effects
        self.now_ns = now_ns
        self._handlers[type(event)](event)
        while self._local_frames:
            frame = self._local_frames.popleft()
            self._frame_handlers[type(frame)](self.member, frame)
        for part in self._timed:
            if part.due_ns <= now_ns:
                part.wake()
        if self._running is None and not self.membership.leaving:
            self._dispatch()
        return effects

    def next_deadline_ns(self) -> int | None:
        """When to say `Ticked` at the latest, if nothing else happens."""
        deadline_ns = min(part.due_ns for part in self._timed)
        return None if deadline_ns == NEVER_NS else deadline_ns

    @property
    def version(self) -> int:
        """Of the membership that it knows; 0 before it is a member."""
        return self.membership.version

    @property
    def busy(self) -> bool:
        """Whether a run is under way; its end will be an event."""
        return self._running is not None

    @property
    def running(self) -> Seat | None:
        return self._running

    # Choosing what runs.

    def _dispatch(self) -> None:
        while (seat := self._next_seat(self.now_ns)) is not None:
            begun = seat.rest is not None
            work = self._next_work(seat)
            if work is not None and seat.away is not None and not begun:
                work = self._redirecting.instead(seat, seat.away, work)
            if work is not None and seat.lookups is not None and not begun:
                work = self._shared_reads.instead(seat, seat.lookups, work)
            if work is not None:
                if type(work) is Message and self.run_bounds.bounded:
                    work = self.run_bounds.piece(seat, work)
                self._running = seat
                self.desk.begins(seat, work)
                self.effects.append(Run(seat, work))
                return

    def _next_work(self, seat: Seat) -> Work | None:
        work: Work | None = None
        if seat.paused is not None:
            return seat.paused.pop(0) if seat.paused else None
        if seat.rest is not None:
            work, seat.rest = seat.rest, None
        elif seat.away is not None and (seat.away.has_work or seat.away.waits):
            return self._redirecting.next_work(seat, seat.away)
        elif seat.lookups is not None and (seat.lookups.has_work or seat.lookups.waits):
            return self._shared_reads.next_work(seat, seat.lookups)
        elif seat.keeper is not None:
            work = seat.keeper.next_work(seat)
        elif seat.mailbox.count and not (seat.holds and seat.mailbox.first_is_message):
            work = seat.mailbox.popleft()
        if work is None and seat.away is not None and seat.away.own:
            return self._redirecting.own(seat.away)
        if work is None and seat.poll_due:
            seat.poll_due = False
            if self.run_bounds.bounded:
                self.run_bounds.limit_read(seat)
            return POLL
        return work

    def offer(self, seat: Seat) -> None:
        """Put a seat up for running if it has work and may send."""
        if seat.queued or seat.dropped or seat is self._running:
            return
        if seat.paused is not None:
            if seat.paused:
                self.ready.enqueue(seat)
            return
        has_work = seat.poll_due or (seat.mailbox.count if seat.keeper is None else seat.keeper.has_work(seat))
        if seat.holds and seat.keeper is None and seat.mailbox.first_is_message:
            has_work = False
        if seat.away is not None:
            has_work = seat.away.has_work or (bool(has_work or seat.away.own) and not seat.away.waits)
        if seat.lookups is not None:
            has_work = seat.lookups.has_work or (bool(has_work) and not seat.lookups.waits)
        if (has_work or seat.rest is not None) and (not seat.starved or seat.opening):
            self.ready.enqueue(seat)

    # Runs that ended.

    def _on_ran(self, event: Ran) -> None:
        seat, outcome = event.seat, event.outcome
        self._running = None
        if seat.dropped or (outcome.writes and self._shared_reads.writes_first(event)):
            return
        self.ran(event)

    def ran(self, event: Ran) -> None:
        """All that a run has written to servers is there: it counts as run."""
        seat, outcome, cost_ns = event.seat, event.outcome, event.cost_ns
        seat.metrics.busy_ns += cost_ns
        if seat.executor is not None:
            seat.executor.ran(cost_ns, outcome.rows_in, type(event.work) is Route)
        if type(event.work) is not Route:
            weight = COST_WEIGHT if seat.cost_ns else 1.0
            seat.cost_ns += weight * (cost_ns - seat.cost_ns)
        if self.ready.counts:
            self.policy.spent(seat, cost_ns, self.now_ns)
        if seat.progress is not None and outcome.progress_us is not None:
            seat.progress.learn(outcome.progress_us, outcome.arrived_ns)
        self.reports.touch(seat)
        if self.run_bounds.bounded:
            self.run_bounds.ran(event)
        work = event.work
        if type(work) is not Message:
            self.sending.settle(seat, work, outcome)
        elif seat.rest is None:
            self.channels.ran(seat, work, outcome)
        else:
            self.channels.count_rows(seat, work, outcome.rows_in)
        self.sending.send(event)

    def ran_elsewhere(self, seat: Seat, work: Work, outcome: Outcome, cost_ns: int) -> None:
        """A batch of an instance here has run on a transient worker; what that gave is sent as if it had run here."""
        self.reports.touch(seat)
        if type(work) is Message:
            self.channels.ran(seat, work, outcome)
        self.sending.send(Ran(seat, work, outcome, cost_ns))

    def after_run(self, seat: Seat, outcome: Outcome) -> None:
        """All that follows a run has been done, and what it sent is on its way."""
        if outcome.finished:
            seat.phase = Phase.FINISHED
            for part in self._parts:
                part.finished(seat)
        else:
            self.alarms.after_run(seat)
            if seat.leaving is not None:
                self._owners.look(seat)
        if seat.instance.calls:
            self._calling.after_run(seat)
        if seat.instance.reads_emitted:
            self._fetching.after_run(seat)
        if seat.instance.sharing is not None:
            self._shared_reads.after_run(seat, seat.instance.sharing)
        self.offer(seat)

    def _on_run_failed(self, event: RunFailed) -> None:
        self._running = None
        if not event.seat.dropped:
            self.fail(event.seat.address.job, event.failure)

    def fail(self, job: str, failure: Failure) -> None:
        self.effects.append(Send(COORDINATOR, Failed(job, failure)))
        self.drop(job)

    def drop(self, name: str) -> None:
        """Forget a job and all that waits for it."""
        job = self.jobs.pop(name)
        for seat in job.all_seats():
            seat.dropped = True
        for part in self._parts:
            part.dropped(job)
        self.ready.forget(name)

    # Frames.

    def _on_frame(self, event: FrameArrived) -> None:
        sender = event.sender
        if sender != COORDINATOR and sender not in self.membership.members:
            self.refuse(f"a frame of {sender}, which is not a member in version {self.version}")
            return
        handler = self._frame_handlers.get(type(event.frame))
        if handler is None:
            self.refuse(f"a frame of type {type(event.frame).__name__} from {sender}")
            return
        handler(sender, event.frame)

    def send(self, member: str, frame: Frame) -> None:
        """Send a control frame to a member; to oneself it comes after what is being handled."""
        if member == self.member:
            self._local_frames.append(frame)
        else:
            self.effects.append(Send(member, frame))

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.effects.append(Refuse(reason))

    # What is here.

    def seat_of(self, address: Address) -> Seat | None:
        job = self.jobs.get(address.job)
        return None if job is None else job.seats.get(address) or job.lessees.get(address)

    def home(self, address: Address) -> str:
        return self.jobs[address.job].placement[address.function][address.partition]

    def check_invariants(self) -> None:
        """What must hold between any two events; the simulator and the property tests call this after each step."""
        for job in self.jobs.values():
            for seat in job.seats.values():
                check_seat(seat, seat is self._running)
