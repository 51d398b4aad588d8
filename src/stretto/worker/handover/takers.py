"""The next attempt's side of a handover: its actors wait until all that they follow is here, are opened, and start.

Its instances are made while the running attempt still runs. Who follows whom is worked out from the shapes of the two,
as when a job resumes from a checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.gate import LesseeGate
from stretto.actors.instance import Instance
from stretto.actors.seat import Phase, Seat
from stretto.actors.shape import shapes_of
from stretto.checkpoints.manifest import ActorRecord
from stretto.checkpoints.resuming import Resumption, succession
from stretto.protocol.handover import Bequest, Prepared, Received, TakeOver
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.handover.inheritance import Former, Inheritance
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part
from stretto.worker.resuming import origin_of


class Opening(Protocol):
    """Whoever opens the actors of a job."""

    def open(self, job: LocalJob) -> None: ...


class Takers(Part):
    """The actors here that take over from another attempt."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._inheritances: dict[str, Inheritance] = {}
        """By attempt."""

    def connect(self, jobs: Opening) -> None:
        self._jobs = jobs

    def frames(self) -> FrameHandlers:
        return {Bequest: self._on_bequest, TakeOver: self._on_take_over}

    # It is prepared.

    def prepare(self, job: LocalJob) -> None:
        """The instances of an attempt that follows another one are made; they wait."""
        for seat in job.seats.values():
            seat.paused = []
        who = self._succession(job)
        wanted = {
            (address.function, former) for address in job.seats for former in who.follows(address.function, address[2])
        }
        self._inheritances[job.job] = Inheritance(wanted)
        self._host.effects.append(Send(COORDINATOR, Prepared(job.job)))

    def _succession(self, job: LocalJob, records: dict[str, list[ActorRecord]] | None = None) -> Resumption:
        assert job.follows is not None
        assert job.deployment is not None
        return succession(job.follows.shapes, shapes_of(job.deployment), records)

    # What it gets.

    def adopt(self, successor: str, number: int, seat: Seat) -> bool:
        """Takes note of an actor of the old attempt whose only follower is the same partition on the same worker: it
        will take over the function as it is. Returns whether that is so."""
        job = self._host.jobs.get(successor)
        follower = Address(successor, *seat.address[1:])
        if job is None or follower not in job.seats or not self._succession(job).is_whole(follower.function):
            return False
        self._inherit(job, number, follower[1:], Former(number, adopted=seat))
        return True

    def _on_bequest(self, sender: str, frame: Bequest) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None or job.job not in self._inheritances:
            self._host.stale += 1
            return
        former = self._inheritances[job.job].put(sender, frame)
        if former is not None:
            self._inherit(job, frame.number, (frame.function, frame.former), former)

    def _inherit(self, job: LocalJob, number: int, actor: tuple[str, int], former: Former) -> None:
        inheritance = self._inheritances[job.job]
        inheritance.take(number, actor, former)
        if inheritance.is_complete(number):
            self._host.effects.append(Send(COORDINATOR, Received(job.job, number)))

    # It takes over.

    def _on_take_over(self, sender: str, frame: TakeOver) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None or frame.job not in self._inheritances:
            self._host.stale += 1
            return
        job.checkpoint = frame.number
        records = {
            function: [ActorRecord(finished=each.finished, watermark_us=each.watermark_us) for each in formers]
            for function, formers in frame.formers.items()
        }
        who = self._succession(job, records)
        inheritance = self._inheritances.pop(frame.job)
        for seat in job.seats.values():
            assert job.follows is not None
            before = self._host.seat_of(Address(job.follows.attempt, *seat.address[1:]))
            is_task = before is not None and isinstance(before.gate, LesseeGate)
            self._let_follow(seat, who, inheritance, frame.number, None if is_task else before)
        self._jobs.open(job)

    def _let_follow(
        self, seat: Seat, who: Resumption, inheritance: Inheritance, number: int, before: Seat | None
    ) -> None:
        """Says what an actor resumes from. One that had finished does not run again, but for a sink with output to
        publish. If the same actor was here `before`, it goes on counting what it has done."""
        actor, instance = seat.address[1:], seat.instance
        seat.marked = number
        if before is not None and who.is_whole(actor[0]):
            seat.metrics, seat.latency, seat.cost_ns = before.metrics, before.latency, before.cost_ns
            seat.due_rows = before.due_rows
        if who.finished(*actor) and not (instance.is_sink and instance.durable):
            seat.phase = Phase.FINISHED
            return
        if instance.is_source:
            instance.read_splits(who.splits(actor[0]))
        formers = {former: inheritance.formers[actor[0], former] for former in who.follows(*actor)}
        live = {former: each for former, each in formers.items() if not each.finished}
        adopted = next((_instance_of(each) for each in live.values() if each.adopted is not None), None)
        origin = origin_of(seat, who, number, bool(live))
        bequests = {former: each.contents for former, each in live.items() if each.adopted is None}
        instance.origin = replace(origin, bequests=bequests, adopts=adopted)

    def start(self, job: LocalJob) -> None:
        """The point of no return: what was taken over is this attempt's alone, and it runs."""
        for seat in job.seats.values():
            seat.instance.keep()
            seat.paused = None
            self._host.offer(seat)

    def dropped(self, job: LocalJob) -> None:
        self._inheritances.pop(job.job, None)


def _instance_of(former: Former) -> Instance:
    assert former.adopted is not None
    return former.adopted.instance
