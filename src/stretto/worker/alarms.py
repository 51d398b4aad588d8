"""When instances are to be woken: sources to read, functions with timers that are due, sinks that still publish."""

from __future__ import annotations

import heapq

from stretto.actors.context import Clock
from stretto.actors.deadlines import LAX_NS, NEVER_NS, YIELDS_NS, start_deadline_ns
from stretto.actors.reading import Read
from stretto.actors.seat import NextRead, Phase, Seat
from stretto.actors.work import FIRE_TIMERS, POLL, Errand, Outcome, Poll
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Misbehaved
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, Host, Part


class Alarms(Part):
    """Alarms by time, and of one moment in the order in which they were set."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._heap: list[tuple[int, int, Seat, Errand]] = []
        self._made = 0

    def errands(self) -> dict[type[Errand], AfterRun]:
        read = AfterRun(settles=self._read, completes=self._polled)
        return {Poll: read, Read: read}

    def wake(self) -> None:
        now_ns = self._host.now_ns
        while self._heap and self._heap[0][0] <= now_ns:
            _, _, seat, errand = heapq.heappop(self._heap)
            if seat.dropped or (seat.phase is Phase.FINISHED and (errand is POLL or errand is FIRE_TIMERS)):
                continue
            if errand is POLL:
                seat.poll_due = True
            else:
                if errand is FIRE_TIMERS:
                    seat.timers_alarm_ns = None
                seat.mailbox.append(errand)
            self._host.offer(seat)
        self._reset()

    def dropped(self, job: LocalJob) -> None:
        self._heap = [alarm for alarm in self._heap if not alarm[2].dropped]
        heapq.heapify(self._heap)
        self._reset()

    def after_run(self, seat: Seat) -> None:
        """A run may have set a timer that is due sooner than those before."""
        timer_ns = seat.instance.timers.next_due(Clock.PROCESSING)
        if timer_ns is not None:
            self.expect_timer(seat, timer_ns)

    def expect_timer(self, seat: Seat, timer_ns: int) -> None:
        """An instance has a timer that is due at this time."""
        if seat.timers_alarm_ns is None or timer_ns < seat.timers_alarm_ns:
            seat.timers_alarm_ns = timer_ns
            self._set(timer_ns, seat, FIRE_TIMERS)

    def again(self, seat: Seat, errand: Errand, due_ns: int) -> None:
        """An instance is to run an errand once more, at this time."""
        self._set(due_ns, seat, errand)

    def _read(self, seat: Seat, poll: Poll | Read, outcome: Outcome) -> None:
        metrics = seat.metrics
        metrics.rows_in += outcome.rows_in
        if outcome.rows_in:
            metrics.arrived_ns = outcome.arrived_ns
        else:
            metrics.idle_reads += 1
        # By the time at which it was asked: reading itself may take a while.
        read_ns = seat.instance.ctx.now_ns
        metrics.behind_ns = max(0, read_ns - outcome.arrived_ns)
        if seat.due_rows is not None:
            has_more = outcome.next_ns is None and not _is_last(poll, outcome)
            waiting = seat.due_rows.waiting(outcome.rows_in, outcome.arrived_ns, read_ns, has_more)
            metrics.rows_due = metrics.rows_in + waiting
        if outcome.notice is not None:
            told = Misbehaved(seat.address.job, seat.address.function, outcome.notice, "")
            self._host.effects.append(Send(COORDINATOR, told))

    def _polled(self, seat: Seat, poll: Poll | Read, outcome: Outcome) -> None:
        if outcome.finished:
            return
        now_ns, next_ns = self._host.now_ns, outcome.next_ns
        seat.next_read = _next_read(seat, now_ns if next_ns is None else next_ns, now_ns)
        if next_ns is None:
            seat.poll_due = True
        elif self._host.ready.idle:
            self._set(next_ns, seat, POLL)
        else:
            # There is other work: let rows gather, so that batches grow with the load.
            self._set(max(next_ns, outcome.gather_until_ns), seat, POLL)

    def _set(self, due_ns: int, seat: Seat, errand: Errand) -> None:
        self._made += 1
        heapq.heappush(self._heap, (due_ns, self._made, seat, errand))
        self._reset()

    def _reset(self) -> None:
        self.due_ns = self._heap[0][0] if self._heap else NEVER_NS


def _is_last(poll: Poll | Read, outcome: Outcome) -> bool:
    """Whether nothing follows what was read."""
    concludes = poll.conclusion if isinstance(poll, Read) else None
    return outcome.finished or (concludes is not None and concludes.done)


def _next_read(source: Seat, due_ns: int, now_ns: int) -> NextRead:
    """Reading is as urgent as what will be read: it was due at a time, and has its whole way before it."""
    out = source.outs[0] if source.outs else None
    latency_ns = LAX_NS if out is None else out.latency_ns
    if out is None or out.yields:
        due_ns = max(due_ns, now_ns - YIELDS_NS)
    return NextRead(start_deadline_ns(due_ns, latency_ns, source.cost_ns, source.path_ns))
