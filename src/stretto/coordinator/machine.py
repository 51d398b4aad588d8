"""The coordinator machine: events in, effects out. It checks the sender of a frame and passes it to its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stretto.coordinator.adding import Adding
from stretto.coordinator.blame import Blame
from stretto.coordinator.carrying_out import CarryingOut
from stretto.coordinator.checkpointing import Checkpointing
from stretto.coordinator.draining import Draining
from stretto.coordinator.enacting import Enactor
from stretto.coordinator.entities import EntityJobs
from stretto.coordinator.events import Death, Effect, Event
from stretto.coordinator.handovers import Handovers
from stretto.coordinator.hosts import LesseeHosts
from stretto.coordinator.jobs import Jobs
from stretto.coordinator.levers import Levers
from stretto.coordinator.long_runs import LongRunners
from stretto.coordinator.membership import Membership
from stretto.coordinator.observing import Observing
from stretto.coordinator.part import FrameHandlers, Handlers, Part
from stretto.coordinator.records import Job
from stretto.coordinator.recovery import Recovery
from stretto.coordinator.stopping import Stopping
from stretto.coordinator.submissions import Submissions
from stretto.coordinator.transients import Transients
from stretto.coordinator.user_requests import UserRequests
from stretto.elasticity.team import Team
from stretto.observation.model import Observation
from stretto.protocol.frames import Frame
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Heartbeat, Join, Member, MemberRole

LOST_AFTER_NS = 10_000_000_000
"""A worker that was silent for this long counts as lost. Generous, because a machine of two cores may be very busy."""
WORKERLESS_NS = 120_000_000_000
"""How long jobs wait for a worker where none is left."""


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """The classes of the parts. The simulator plants faults by replacing one."""

    checkpointing: type[Checkpointing] = Checkpointing
    recovery: type[Recovery] = Recovery
    submissions: type[Submissions] = Submissions
    blame: type[Blame] = Blame
    stopping: type[Stopping] = Stopping
    membership: type[Membership] = Membership
    hosts: type[LesseeHosts] = LesseeHosts
    jobs: type[Jobs] = Jobs
    draining: type[Draining] = Draining
    handovers: type[Handovers] = Handovers
    entities: type[EntityJobs] = EntityJobs


class Coordinator:
    """The machine. `handle` is its only entry."""

    def __init__(
        self,
        lost_after_ns: int = LOST_AFTER_NS,
        parts: CoordinatorParts | None = None,
        controllers: Team | None = None,
        workerless_ns: int = WORKERLESS_NS,
    ) -> None:
        self.now_ns = 0
        self._team = controllers or Team([])
        self.jobs: dict[str, Job] = {}
        self.effects: list[Effect] = []
        parts = parts or CoordinatorParts()
        self._membership = parts.membership(self, lost_after_ns, workerless_ns)
        self._parts = self._assembled(parts, self._membership)
        self._handlers: Handlers = {FrameArrived: self._on_frame, Ticked: self._on_ticked}
        self._frame_handlers: FrameHandlers = {}
        for part in self._parts:
            self._handlers.update(part.events())
            self._frame_handlers.update(part.frames())

    def _assembled(self, kinds: CoordinatorParts, membership: Membership) -> list[Part]:
        """Makes the parts and connects them."""
        hosts = kinds.hosts(self, membership)
        observing = self._observing = Observing(self, membership)
        self._entities = entities = kinds.entities(self, membership, observing)
        long_runners = LongRunners(self)
        self._blame = blame = kinds.blame(self, hosts)
        stopping = kinds.stopping(self, membership)
        self.transients = transients = Transients(self, membership, stopping)
        self._jobs = jobs = kinds.jobs(self, membership, hosts, observing, long_runners, blame, stopping, transients)
        checkpointing = kinds.checkpointing(self, jobs)
        self._recovery = recovery = kinds.recovery(self, jobs, hosts, membership, blame, stopping)
        self._submissions = submissions = kinds.submissions(self, jobs, hosts, membership)
        handovers = kinds.handovers(self, jobs, membership, blame, stopping)
        levers = Levers(self)
        self._adding = adding = Adding(self, membership)
        self._draining = draining = kinds.draining(self, membership, hosts, handovers)
        execution = CarryingOut(self, levers, hosts, handovers, adding, draining, transients)
        enactor = Enactor(self, self._team, execution)
        # Some parts need each other.
        blame.connect(jobs, recovery)
        stopping.connect(jobs)
        transients.connect(jobs)
        levers.connect(enactor)
        hosts.connect(draining, observing)
        adding.connect(enactor)
        draining.connect(enactor, observing, entities, transients)
        handovers.connect(enactor, observing)
        recovery.connect(handovers)
        execution.connect(observing)
        enactor.connect(observing)
        observing.connect(jobs.attempts, execution, long_runners, transients, entities)
        long_runners.connect(jobs.attempts)
        jobs.connect(checkpointing, recovery, submissions, handovers)
        checkpointing.connect(recovery, handovers)
        acting: list[Part] = [blame, stopping, jobs, submissions, recovery, handovers, checkpointing]
        asking = UserRequests(self, enactor, draining, transients)
        deciding: list[Part] = [levers, adding, draining, execution, enactor, asking]
        return [membership, hosts, transients, *acting, entities, observing, long_runners, *deciding]

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Handles one event, and returns the effects to carry out in order."""
        effects: list[Effect] = []
        self.effects = effects
        self.now_ns = now_ns
        self._handlers[type(event)](event)
        return effects

    def next_deadline_ns(self) -> int | None:
        """Returns when the next `Ticked` is due: when a silent worker would count as lost, or a checkpoint or a
        recovery is due."""
        due = (part.deadline_ns() for part in self._parts)
        return min((each for each in due if each is not None), default=None)

    def _on_ticked(self, event: Ticked) -> None:
        for part in self._parts:
            part.tick()

    def _on_frame(self, event: FrameArrived) -> None:
        sender, frame = event.sender, event.frame
        if isinstance(frame, Join):
            self._membership.on_join(sender, frame)
            return
        if self._membership.is_expected(sender) and isinstance(frame, Heartbeat):
            return  # Its heartbeat may overtake its request to join.
        if sender not in self._membership.members:
            self.refuse(f"a frame of {sender}, which is not a member in version {self._membership.version}")
            return
        handler: Callable[[str, Any], None] | None = self._frame_handlers.get(type(frame))
        if handler is None:
            self.refuse(f"a frame of type {type(frame).__name__} from {sender}")
            return
        self._membership.mark_alive(sender)
        handler(sender, frame)

    # The machine as its parts see it.

    def send(self, member: str, frame: Frame) -> None:
        self.effects.append(Send(member, frame))

    def refuse(self, reason: str) -> None:
        self.effects.append(Refuse(reason))

    def running(self, attempt: str) -> Job | None:
        job = self._jobs.attempts.get(attempt)
        return None if job is None or job.status.ended else job

    def joined(self, member: str) -> None:
        """Informs the parts of a new member."""
        self._jobs.joined(member)
        self._entities.joined(member)
        self._adding.joined(member)
        self.transients.joined(member)
        self._submissions.tick()
        self._recovery.tick()

    def lost(self, member: str, role: MemberRole, reason: str, death: Death | None) -> None:
        """Informs the parts of a lost member."""
        for part in self._parts:
            part.member_lost(member)
        in_entities = death is not None and death.interrupted is not None and self._entities.has(death.interrupted.job)
        if death is not None and role is MemberRole.WORKER and not in_entities:
            self._blame.judge(member, death)
        self._jobs.lost(member, role, reason, death)
        self._entities.lost(member, death)

    def ended(self, member: str) -> None:
        """Informs the parts that the Spark task of a worker has returned."""
        self._draining.ended(member)

    def start_failed(self, member: str, reason: str) -> None:
        """Informs the parts of a worker that cannot be started."""
        self._adding.start_failed(member, reason)
        self._submissions.tick()

    def end_all(self) -> None:
        """Ends all jobs, since the cluster closes."""
        self._jobs.end_all()
        self._entities.end_all()

    # For tests and the simulator.

    @property
    def members(self) -> dict[str, Member]:
        return self._membership.members

    @property
    def active(self) -> list[str]:
        """The workers that get work."""
        return self._membership.active()

    def observed(self) -> Observation:
        """Returns what would be announced now, and changes nothing."""
        return self._observing.present()

    @property
    def entities(self) -> EntityJobs:
        """The jobs with entities."""
        return self._entities

    @property
    def wanted(self) -> int:
        """How many workers there are to be."""
        return self._membership.wanted

    @property
    def version(self) -> int:
        """The version of the membership."""
        return self._membership.version
