"""The running attempt's side of a handover: sources stop at the mark, and who passes it pauses and gives what it has.

The mark goes from the sources to the sinks as that of a checkpoint does, and at its own moment each actor has run all
that came before it; nothing comes after it. A paused actor keeps everything, so that it can go on if the handover is
called off.
"""

from __future__ import annotations

from typing import Any, Protocol

from stretto.actors.address import Address
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.seat import Phase, Seat
from stretto.actors.tasks import TaskBarrier
from stretto.actors.work import BEQUEATH, Barrier, Bequeath, Errand, Marking, Outcome
from stretto.checkpoints.resuming import succession
from stretto.protocol.handover import Bequest, CallOff, HandOver, Passed
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part

PIECE_BYTES = 1 << 20
"""What an actor gives travels in pieces, so that other frames are not held up by a large one."""


class Marks(Protocol):
    """Whoever has sources send marks, and knows which are void."""

    def begin(self, job: LocalJob) -> None: ...

    def abandon(self, job: LocalJob, checkpoint: int) -> None: ...


class Adopting(Protocol):
    """Whoever can take over what is on the same worker without a copy."""

    def adopt(self, successor: str, number: int, seat: Seat) -> bool: ...


class Givers(Part):
    """The actors here whose attempt is handed over."""

    def __init__(self, host: Host, marks: Marks, takers: Adopting) -> None:
        self._host = host
        self._marks = marks
        self._takers = takers
        self._tasks: dict[Address, tuple[str, ...]] = {}
        """The members with tasks of an actor that has passed the mark."""

    def frames(self) -> FrameHandlers:
        return {HandOver: self._on_hand_over, CallOff: self._on_call_off}

    def errands(self) -> dict[type[Errand], AfterRun]:
        passed = AfterRun(settles=self._passed)
        return {Barrier: passed, Marking: passed, TaskBarrier: passed, Bequeath: AfterRun(settles=self._gave)}

    # It begins.

    def _on_hand_over(self, sender: str, frame: HandOver) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None or frame.number <= job.checkpoint:
            self._host.stale += 1
            return
        job.checkpoint, job.handover = frame.number, frame
        self._marks.begin(job)
        for seat in job.all_seats():
            if seat.paused is not None and seat.marked == frame.number:
                self._give(seat, frame)  # The mark came first.
            else:
                self._has_finished(seat, frame)

    def finished(self, seat: Seat) -> None:
        handover = self._host.jobs[seat.address.job].handover
        if handover is not None:
            self._has_finished(seat, handover)

    def _has_finished(self, seat: Seat, handover: HandOver) -> None:
        """An actor that has finished comes to no mark, but for a sink with output to publish. There is nothing of it
        but that it has finished."""
        if seat.phase is Phase.FINISHED and not seat.instance.lingers and not isinstance(seat.gate, LesseeGate):
            self._tell(Passed(seat.address, handover.number, True, EVENT_TIME_MAX_US))
            _, function, former = seat.address
            for member in self._receivers(seat, handover):
                given = Bequest(handover.successor, handover.number, function, former, finished=True)
                self._host.send(member, given)

    # The mark.

    def _passed(self, seat: Seat, work: Barrier | Marking | TaskBarrier, outcome: Outcome) -> None:
        number = outcome.passed
        if not number:
            return
        job = self._host.jobs[seat.address.job]
        seat.marked = max(seat.marked, number)
        if number <= job.called_off:
            return
        self._pause(seat)
        gate = seat.gate
        has_tasks = seat.spec.tasks_max and isinstance(gate, LessorGate)
        self._tasks[seat.address] = tuple(gate.members) if has_tasks and isinstance(gate, LessorGate) else ()
        if job.handover is not None and job.handover.number == number:
            self._give(seat, job.handover)

    def _pause(self, seat: Seat) -> None:
        """Nothing of it runs any more, but what concerns the handover."""
        seat.paused = []

    def _give(self, seat: Seat, handover: HandOver) -> None:
        if not isinstance(seat.gate, LesseeGate):
            instance = seat.instance
            self._tell(Passed(seat.address, handover.number, instance.finished, instance.sent_watermark_us))
            in_one_piece = not self._tasks[seat.address]
            if in_one_piece and self._takers.adopt(handover.successor, handover.number, seat):
                return
        assert seat.paused is not None
        seat.paused.append(BEQUEATH)
        self._host.offer(seat)

    def _gave(self, seat: Seat, errand: Bequeath, outcome: Outcome) -> None:
        handover = self._host.jobs[seat.address.job].handover
        if handover is None or seat.paused is None:
            return  # It was called off.
        content = outcome.states
        assert content is not None
        is_part = isinstance(seat.gate, LesseeGate)
        tasks = () if is_part else self._tasks[seat.address]
        pieces = max(1, -(-len(content) // PIECE_BYTES))
        _, function, former = seat.address
        for member in self._receivers(seat, handover):
            for piece in range(pieces):
                states = content[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES] if pieces > 1 else content
                name, number = handover.successor, handover.number
                given = Bequest(name, number, function, former, piece, pieces, states, False, tasks, is_part)
                self._host.send(member, given)

    def _receivers(self, seat: Seat, handover: HandOver) -> list[str]:
        """The members with actors that follow this one."""
        _, function, former = seat.address
        who = succession(handover.shapes, handover.successor_shapes)
        homes = handover.successor_placement[function]
        return sorted({homes[p] for p in range(len(homes)) if former in who.follows(function, p)})

    # It is called off.

    def _on_call_off(self, sender: str, frame: CallOff) -> None:
        job = self._host.jobs.get(frame.job)
        if job is None:
            self._host.stale += 1
            return
        job.called_off, job.handover = max(job.called_off, frame.number), None
        for seat in job.all_seats():
            self._tasks.pop(seat.address, None)
            if seat.paused is not None:
                seat.paused = None
                self._host.offer(seat)
        self._marks.abandon(job, frame.number)

    def dropped(self, job: LocalJob) -> None:
        for seat in job.all_seats():
            self._tasks.pop(seat.address, None)

    def _tell(self, frame: Any) -> None:
        self._host.effects.append(Send(COORDINATOR, frame))
