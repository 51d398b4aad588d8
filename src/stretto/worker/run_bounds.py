"""Bounds what one run may take from an urgent neighbour: batches run in pieces where another job here has an objective.

A piece takes at most a tenth of the least objective for latency among the other jobs of the worker, as far as the cost
of a run depends on its rows. What is left of a message is the next work of its instance, and until the last piece has
run, the message counts as one that is running: it is not settled, no credit goes back, and no barrier begins. A run
that is too long nevertheless is reported, with the jobs that it delays.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyarrow import RecordBatch

from stretto.actors.address import job_of
from stretto.actors.channel import Message
from stretto.actors.seat import Seat
from stretto.actors.work import Open, Poll
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import LongRuns
from stretto.scheduling.run_length import UNBOUNDED, RowCost
from stretto.worker.events import Ran
from stretto.worker.local_job import LocalJob
from stretto.worker.part import Host, Part

SHARE = 10
"""A piece takes at most one part in so many of a neighbour's objective."""
BOUND_NS_MIN = 1_000_000
"""The quantum of the ready queue: shorter pieces would bring nothing."""
LONG_RUNS = 3
LONG_RUNS_WITHIN_NS = 60_000_000_000
"""An instance is reported after so many runs that were longer than a neighbour's whole objective, each within this time
of the one before, if they take most of its time: a few may be the fault of the machine."""


@dataclass(slots=True)
class Lengthy:
    """The long runs of an instance: how many, when the last one ended, their time, and how long it had been busy before
    the first."""

    runs: int
    last_ns: int
    long_ns: int
    busy_before_ns: int


class RunBounds(Part):
    """The bounds of the jobs here. `bounded` is whether there are any, which is asked for each run."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.bounded = False
        self._objectives_ns: dict[str, int] = {}
        """The least objective among the other jobs, by job."""
        self._long: dict[Seat, Lengthy] = {}
        self._reported: set[Seat] = set()

    def changed(self) -> None:
        """A job has come or gone."""
        # Two attempts of one job are here while one takes over from the other.
        promised = {job_of(name): latency_ns for name, latency_ns in self._promised().items()}
        least = sorted((latency_ns, name) for name, latency_ns in promised.items())[:2]
        self._objectives_ns = {}
        for job in self._host.jobs.values():
            others = [latency_ns for latency_ns, name in least if name != job_of(job.job)]
            if others:
                self._objectives_ns[job.job] = others[0]
            for seat in job.all_seats():
                self._bind(seat, others[0] if others else None)
        self.bounded = bool(self._objectives_ns)

    def _promised(self) -> dict[str, int]:
        """The objectives of the jobs that have instances here."""
        return {
            job.job: job.deployment.latency_ns
            for job in self._host.jobs.values()
            if job.seats and job.deployment is not None and job.deployment.latency_ns is not None
        }

    def _bind(self, seat: Seat, objective_ns: int | None) -> None:
        """Sets the bound of an instance that has run; None lifts it."""
        known = seat.row_cost
        if known is None:
            return
        if objective_ns is None:
            seat.row_cost = UNBOUNDED
            seat.instance.limit_read(None)
        elif known is UNBOUNDED:
            seat.row_cost = None
        else:
            known.bind(_bound_ns(objective_ns))

    def _row_cost(self, seat: Seat) -> RowCost:
        """Returns what is known of an instance, at its first run."""
        objective_ns = self._objectives_ns.get(seat.address.job)
        found = UNBOUNDED if objective_ns is None else RowCost(_bound_ns(objective_ns))
        seat.row_cost = found
        return found

    def dropped(self, job: LocalJob) -> None:
        for seat in job.all_seats():
            seat.rest = None
            self._long.pop(seat, None)
            self._reported.discard(seat)
        self.changed()

    # Before a run.

    def piece(self, seat: Seat, message: Message) -> Message:
        """Returns the message, or its first rows as another one; what is left waits at the seat."""
        payload = message.payload
        if type(payload) is not RecordBatch:
            return message
        rows = (seat.row_cost or self._row_cost(seat)).rows
        if payload.num_rows <= rows:
            return message
        seat.rest = message
        message.payload = payload.slice(rows)
        piece = Message(message.channel, message.seq, payload.slice(0, rows), message.arrived_ns)
        piece.progress_us, piece.deadline_ns = message.progress_us, message.deadline_ns
        piece.ticket, message.ticket = message.ticket, 0
        return piece

    def limit_read(self, seat: Seat) -> None:
        """Limits what a source reads next; the steps that are fused into it run with the read."""
        row_cost = seat.row_cost or self._row_cost(seat)
        seat.instance.limit_read(None if row_cost is UNBOUNDED else row_cost.rows)

    # After a run.

    def ran(self, event: Ran) -> None:
        """Learns from a run."""
        seat, work, cost_ns, rows = event.seat, event.work, event.cost_ns, event.outcome.rows_in
        row_cost = seat.row_cost or self._row_cost(seat)
        if cost_ns < row_cost.quick_ns and rows < row_cost.rows:
            return
        if rows and isinstance(work, Message | Poll):
            row_cost.learn(rows, cost_ns)
        objective_ns = self._objectives_ns.get(seat.address.job)
        if objective_ns is not None and cost_ns > objective_ns and type(work) is not Open:
            self._count(seat, cost_ns)

    def _count(self, seat: Seat, cost_ns: int) -> None:
        now_ns, busy_ns = self._host.now_ns, seat.metrics.busy_ns
        known = self._long.get(seat)
        if known is None or now_ns - known.last_ns > LONG_RUNS_WITHIN_NS:
            known = self._long[seat] = Lengthy(0, now_ns, 0, busy_ns - cost_ns)
        known.runs += 1
        known.last_ns = now_ns
        known.long_ns += cost_ns
        if known.runs >= LONG_RUNS and 2 * known.long_ns >= busy_ns - known.busy_before_ns:
            self._report(seat, cost_ns)

    def _report(self, seat: Seat, cost_ns: int) -> None:
        """Reports an instance, once."""
        if seat in self._reported:
            return
        self._reported.add(seat)
        address = seat.address
        others = {name: ns for name, ns in self._promised().items() if job_of(name) != job_of(address.job)}
        delayed = {name: ns for name, ns in others.items() if ns < cost_ns}
        report = LongRuns(address.job, address.function, cost_ns, delayed)
        self._host.effects.append(Send(COORDINATOR, report))


def _bound_ns(objective_ns: int) -> int:
    return max(objective_ns // SHARE, BOUND_NS_MIN)
