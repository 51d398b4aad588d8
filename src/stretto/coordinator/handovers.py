"""Handing a running job over from one attempt to the next at a joint barrier: another parallelism, other homes.

A part of the coordinator machine. The next attempt is deployed beside the running one. When its instances are made, the
mark of the handover goes through the running attempt: its actors pause there and give what they have to those that
follow them. When all is where it is needed, the actors of the next attempt are opened, and then started.

`Start` is the point of no return. Whatever goes wrong before it calls the handover off, and the old attempt goes on
from where it paused; no storage is involved, so that holds for jobs without checkpoints too. If a member of the old
attempt is lost, that is an ordinary loss: recovery with the old parallelism. After `Start` it is one with the new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stretto.actors.address import attempt_of
from stretto.actors.shards import ShardMap
from stretto.checkpoints.manifest import ActorRecord
from stretto.checkpoints.resuming import succession
from stretto.coordinator.dealing import EVEN, dealt_by, is_same, undealt_because
from stretto.coordinator.events import CodeMade, CodeRefused, MakeCode, ReshapeRequested
from stretto.coordinator.interfaces import Observers, Rooms, Stops
from stretto.coordinator.membership import Membership
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.placement import EXPECTED, arriving, idlest_first, replaced
from stretto.coordinator.records import Handover, HandoverStage, Job, JobStatus
from stretto.protocol.checkpointing import Overdue, Unstored
from stretto.protocol.handover import CallOff, FormerActor, HandOver, Passed, Prepared, Received, TakeOver
from stretto.protocol.jobs import Deploy, Failed, Predecessor, Ready

TIMEOUT_NS = 60_000_000_000
"""A handover that takes longer, from its request, is called off."""
OVERDUE_NS = 5_000_000_000
"""How often workers are asked what delays the barrier."""
RETRY_NS = 200_000_000
"""The delay before the barrier is tried again, if a joint barrier of the app's own came across it."""


class JobsHere(Protocol):
    """What handovers need of the jobs."""

    def succeed(self, job: Job, before: Mapping[str, list[str]]) -> None: ...

    def holders(self, job: Job) -> list[str]: ...

    def rename(self, job: Job, attempt: str) -> None: ...


class Results(Protocol):
    """Whoever waits for what becomes of a handover."""

    def handed_over(self, order: int, spent: Mapping[str, float]) -> None: ...

    def failed(self, order: int, reason: str) -> None: ...


class Handovers(Part):
    """The handovers of all jobs, at most one of each at a time."""

    def __init__(self, host: Host, jobs: JobsHere, membership: Membership, rooms: Rooms, stops: Stops) -> None:
        self._host = host
        self._jobs = jobs
        self._membership = membership
        self._rooms = rooms
        self._stops = stops

    def connect(self, results: Results, observers: Observers) -> None:
        self._results = results
        self._observers = observers

    def events(self) -> Handlers:
        return {
            ReshapeRequested: self._on_requested,
            CodeMade: self._on_code_made,
            CodeRefused: self._on_code_refused,
        }

    def frames(self) -> FrameHandlers:
        return {Prepared: self._on_prepared, Passed: self._on_passed, Received: self._on_received}

    # It is asked for.

    def refusal(
        self,
        job: Job,
        parallelism: Mapping[str, int],
        avoid: frozenset[str] = frozenset(),
        shards: Mapping[str, ShardMap] = EVEN,
    ) -> str | None:
        """Returns why a job cannot be reshaped now, None if it can."""
        if job.status is not JobStatus.RUNNING:
            return f"the job is {job.status.value}"
        if job.handover is not None:
            return "the job is being handed over already"
        if job.durability is not None and job.durability.savepoint is not None:
            return "the job stops with a savepoint"
        for function, partitions in sorted(parallelism.items()):
            shape = job.shapes.get(function)
            if shape is None:
                return f"the job has no function '{function}', but {', '.join(sorted(job.shapes))}"
            if partitions < 1:
                return f"a parallelism of {partitions} is not possible"
            if shape.on_driver and partitions != 1:
                return f"function '{function}' runs in the driver's process, which is one"
        undealt = undealt_because(job.shapes, parallelism, shards)
        if undealt is not None:
            return undealt
        if not self._workers(job, avoid):
            return "no worker would be left"
        if is_same(job.shapes, parallelism, shards) and not job.homes & avoid:
            return "nothing would change"
        return None

    def _on_requested(self, event: ReshapeRequested) -> None:
        job = self._host.jobs.get(event.job)
        asked = (event.parallelism, event.avoid, event.shards)
        refused = "there is no such job" if job is None else self.refusal(job, *asked)
        if job is None or refused is not None:
            self._host.refuse(f"{event.job} is not reshaped: {refused}")
        else:
            self.reshape(job, 0, *asked)

    def reshape(
        self,
        job: Job,
        order: int,
        parallelism: Mapping[str, int],
        avoid: frozenset[str] = frozenset(),
        shards: Mapping[str, ShardMap] = EVEN,
    ) -> None:
        """Gives functions of a running job another parallelism, deals their keys to the partitions as `shards` has it,
        and takes all its actors off the workers to `avoid`. `order` is for the report of what has become of it."""
        handover = job.handover = Handover(order, dict(parallelism), avoid, self._host.now_ns)
        if is_same(job.shapes, parallelism, shards):
            handover.shapes, handover.digest = dict(job.shapes_running), job.digest
            handover.spreads, handover.code_bytes = job.spreads, job.code_bytes
            self._deploy(job, handover)
        else:
            current = {name: shape.parallelism for name, shape in job.shapes.items()}
            dealt = dealt_by(job.shapes, parallelism, shards)
            self._host.effects.append(MakeCode(job.name, order, handover.parallelism, current, dealt))

    def _workers(self, job: Job, avoid: frozenset[str]) -> list[str]:
        return [name for name in self._rooms.workers_for(job) if name not in avoid]

    # The next attempt is made.

    def _on_code_made(self, event: CodeMade) -> None:
        job, handover = self._ordered(event.job, event.order)
        if job is None or handover is None:
            return
        # A source's input stays in as many splits as it had at first.
        handover.shapes = succession(job.shapes_running, event.shapes).shapes()
        handover.digest, handover.spreads, handover.code_bytes = event.digest, event.spreads, event.code_bytes
        self._deploy(job, handover)

    def _on_code_refused(self, event: CodeRefused) -> None:
        job, _ = self._ordered(event.job, event.order)
        if job is not None:
            self.give_up(job, event.reason)

    def _ordered(self, name: str, order: int) -> tuple[Job | None, Handover | None]:
        job = self._host.jobs.get(name)
        if job is None or job.handover is None or job.handover.order != order:
            return None, None
        return job, job.handover

    def _deploy(self, job: Job, handover: Handover) -> None:
        workers = self._workers(job, handover.avoid)
        others = [other.placement for other in self._host.jobs.values() if other is not job and not other.status.ended]
        busy = self._expected_busy(job)
        handover.placement = replaced(job.placement, handover.shapes, workers, self._membership.driver, others, busy)
        handover.hosts = idlest_first(workers, busy) if handover.spreads else []
        stuck = self._stuck_sink(job, handover)
        if stuck is not None or not all(handover.placement.values()):
            self.give_up(job, stuck or "no worker is left")
            return
        handover.attempt = self._next_name(job)
        handover.stage = HandoverStage.PREPARING
        handover.awaited = set(handover.members)
        storage = job.durability.storage if job.durability is not None else None
        follows = Predecessor(job.attempt, job.shapes_running)
        deploy = Deploy(handover.attempt, handover.digest, handover.placement, storage, None, follows, job.promise)
        for member in handover.members:
            self._host.send(member, deploy)

    def _expected_busy(self, job: Job) -> dict[str, float]:
        """Returns how busy workers are, with what other jobs that are being handed over bring there: a controller may
        decide about several jobs at once, and each would go where it is still quiet."""
        found = self._observers.last.busy_shares
        for other in self._host.jobs.values():
            if other is not job and other.handover is not None:
                for worker in arriving(other.placement, other.handover.placement):
                    found[worker] = found.get(worker, 0.0) + EXPECTED
        return found

    def _stuck_sink(self, job: Job, handover: Handover) -> str | None:
        """Returns why a sink cannot be continued: without checkpoints, rows that it has not published yet are with its
        writer."""
        if job.durability is not None:
            return None
        for name, shape in job.shapes.items():
            if shape.is_sink and not shape.on_driver and handover.placement[name] != job.placement[name]:
                return f"sink '{name}' writes on workers, and only with checkpoints can another writer continue"
        return None

    def _next_name(self, job: Job) -> str:
        if job.durability is not None:
            job.durability.attempt += 1
            return f"{job.name}~{job.durability.attempt}"
        job.placements = max(job.placements, attempt_of(job.attempt)) + 1
        return f"{job.name}~{job.placements}"

    def _on_prepared(self, sender: str, frame: Prepared) -> None:
        job, handover = self._next(frame.job)
        if job is None or handover is None or handover.stage is not HandoverStage.PREPARING:
            return
        handover.awaited.discard(sender)
        if not handover.awaited:
            handover.stage = HandoverStage.WAITING
            self.tick()

    def _next(self, attempt: str) -> tuple[Job | None, Handover | None]:
        """Returns the job whose next attempt has this name."""
        for job in self._host.jobs.values():
            if job.handover is not None and job.handover.attempt == attempt:
                return job, job.handover
        return None, None

    # The barrier.

    def tick(self) -> None:
        now_ns = self._host.now_ns
        for job in list(self._host.jobs.values()):
            handover = job.handover
            if handover is None:
                continue
            if now_ns - handover.began_ns >= TIMEOUT_NS:
                self.call_off(job, f"it took longer than {TIMEOUT_NS / 1e9:g} s")
            elif handover.stage is HandoverStage.WAITING and self._may_mark(job, handover):
                self._mark(job, handover)
            elif handover.stage is HandoverStage.MARKING and now_ns >= handover.overdue_ns:
                handover.overdue_ns = now_ns + OVERDUE_NS
                for member in sorted(job.homes):
                    self._host.send(member, Overdue(job.attempt, handover.number))

    def deadline_ns(self) -> int | None:
        found = [job.handover for job in self._host.jobs.values() if job.handover is not None]
        return min(map(self._due_ns, found), default=None)

    def _due_ns(self, handover: Handover) -> int:
        due_ns = handover.began_ns + TIMEOUT_NS
        if handover.stage is HandoverStage.WAITING and handover.retry_ns > self._host.now_ns:
            return min(due_ns, handover.retry_ns)
        return min(due_ns, handover.overdue_ns) if handover.stage is HandoverStage.MARKING else due_ns

    def _may_mark(self, job: Job, handover: Handover) -> bool:
        """A job has one mark at a time: a checkpoint that has begun comes first."""
        if self._host.now_ns < handover.retry_ns:
            return False
        durability = job.durability
        return durability is None or (durability.underway is None and durability.committing is None)

    def _mark(self, job: Job, handover: Handover) -> None:
        if job.durability is not None:
            job.durability.checkpoint += 1
            handover.number = job.durability.checkpoint
        else:
            job.marks += 1
            handover.number = job.marks
        handover.stage = HandoverStage.MARKING
        handover.marked_ns = self._host.now_ns
        handover.overdue_ns = self._host.now_ns + OVERDUE_NS
        handover.records, handover.unpassed = {}, set(job.actors)
        handover.awaited = set(self._receivers(job, handover))
        for member in sorted(job.members):
            self._announce_mark(job, handover, member)

    def _announce_mark(self, job: Job, handover: Handover, member: str) -> None:
        shapes, placement = handover.shapes, handover.placement
        frame = HandOver(job.attempt, handover.number, job.shapes_running, handover.attempt, shapes, placement)
        self._host.send(member, frame)

    def host_joins(self, job: Job, member: str) -> None:
        """A worker becomes a host of the running attempt. It may get a task before the mark is there, and must know
        who follows it: nobody else has that task's part."""
        if job.handover is not None and job.handover.stage is HandoverStage.MARKING:
            self._announce_mark(job, job.handover, member)

    def _receivers(self, job: Job, handover: Handover) -> set[str]:
        """The members with actors that follow others."""
        who = succession(job.shapes_running, handover.shapes)
        return {
            home
            for function, homes in handover.placement.items()
            for partition, home in enumerate(homes)
            if who.follows(function, partition)
        }

    def _on_passed(self, sender: str, frame: Passed) -> None:
        job = self._host.running(frame.actor.job)
        handover = job.handover if job is not None else None
        if job is None or handover is None or not self._is_marking(handover, frame.number):
            return
        actor = frame.actor[1:]
        handover.unpassed.discard(actor)
        handover.records[actor] = ActorRecord(finished=frame.finished, watermark_us=frame.watermark_us)
        self._open_if_all(job, handover)

    def _on_received(self, sender: str, frame: Received) -> None:
        job, handover = self._next(frame.job)
        if job is not None and handover is not None and self._is_marking(handover, frame.number):
            handover.awaited.discard(sender)
            self._open_if_all(job, handover)

    def _is_marking(self, handover: Handover, number: int) -> bool:
        return handover.stage is HandoverStage.MARKING and handover.number == number

    def declined(self, frame: Unstored) -> None:
        """An actor cannot come to the mark: a joint barrier of the app's own came across it. The old attempt goes on,
        and the mark is tried again."""
        job = self._host.running(frame.actor.job)
        handover = job.handover if job is not None else None
        if job is None or handover is None or not self._is_marking(handover, frame.checkpoint):
            return
        self._release(job, handover)
        handover.stage = HandoverStage.WAITING
        handover.retry_ns = self._host.now_ns + RETRY_NS

    # The next attempt takes over.

    def _open_if_all(self, job: Job, handover: Handover) -> None:
        if handover.unpassed or handover.awaited:
            return
        handover.stage = HandoverStage.OPENING
        handover.awaited = set(handover.members)
        formers = {
            name: [FormerActor(record.finished, record.watermark_us) for record in records]
            for name, records in self._records(job, handover).items()
        }
        for member in handover.members:
            self._host.send(member, TakeOver(handover.attempt, handover.number, formers))

    def _records(self, job: Job, handover: Handover) -> dict[str, list[ActorRecord]]:
        return {
            name: [handover.records[name, partition] for partition in range(shape.parallelism)]
            for name, shape in job.shapes.items()
        }

    def ready(self, sender: str, frame: Ready) -> None:
        """The actors of a next attempt are open at a member."""
        job, handover = self._next(frame.job)
        if job is None or handover is None or handover.stage is not HandoverStage.OPENING:
            return
        handover.awaited.discard(sender)
        if not handover.awaited:
            self._commit(job, handover)

    def _commit(self, job: Job, handover: Handover) -> None:
        """The point of no return: the next attempt starts, and the one before is dropped."""
        who = succession(job.shapes_running, handover.shapes, self._records(job, handover))
        before, holders, placement = job.attempt, self._jobs.holders(job), job.placement
        self._jobs.rename(job, handover.attempt)
        job.shapes, job.placement, job.hosts = handover.shapes, handover.placement, handover.hosts
        job.digest, job.spreads, job.code_bytes = handover.digest, handover.spreads, handover.code_bytes
        job.unready, job.unloaded = set(), set()
        job.unfinished = {actor for actor in job.actors if not who.finished(*actor)}
        if job.durability is not None:
            job.durability.shapes = job.shapes  # For the next manifest.
            job.durability.resumed_from = job.origin.checkpoint if job.origin is not None else 0
        job.handover = None
        self._jobs.succeed(job, placement)
        for member in holders:
            self._stops.ask(member, before)
        now_ns = self._host.now_ns
        spent = {"took_ms": (now_ns - handover.began_ns) / 1e6, "paused_ms": (now_ns - handover.marked_ns) / 1e6}
        self._results.handed_over(handover.order, spent)

    # It comes to nothing.

    def failed(self, frame: Failed) -> None:
        """A next attempt cannot be opened, for instance because a state cannot be divided."""
        job, _ = self._next(frame.job)
        if job is not None:
            failure = frame.failure
            self.call_off(job, ": ".join(filter(None, (failure.fact, failure.detail))))

    def member_lost(self, member: str) -> None:
        """If the old attempt has lost nobody, it goes on."""
        for job in list(self._host.jobs.values()):
            if job.handover is not None and member in (*job.handover.members, *job.members):
                self.call_off(job, f"worker {member} was lost")

    def broken(self, attempt: str, one: str, other: str) -> None:
        """The connection between two members broke: what actors gave may be lost. `attempt` is one that is there."""
        job = self._host.running(attempt) or self._next(attempt)[0]
        handover = job.handover if job is not None else None
        if job is not None and handover is not None and {one, other} <= {*job.members, *handover.members}:
            self.call_off(job, f"the connection between {one} and {other} broke")

    def call_off(self, job: Job, reason: str) -> None:
        """Lets the old attempt go on, and drops the next one."""
        if job.handover is not None:
            self._release(job, job.handover)
            self.give_up(job, reason)

    def _release(self, job: Job, handover: Handover) -> None:
        if handover.number:
            for member in sorted(job.members):
                self._host.send(member, CallOff(job.attempt, handover.number))

    def give_up(self, job: Job, reason: str) -> None:
        """Drops the next attempt, since the old one has ended or was never asked to pause."""
        handover, job.handover = job.handover, None
        if handover is None:
            return
        for member in handover.members if handover.attempt else ():
            if member in self._membership.members:
                self._stops.ask(member, handover.attempt)
        self._results.failed(handover.order, reason)
