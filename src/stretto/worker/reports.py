"""What the coordinator hears of the work here: totals of the instances that have run, four times a second.

Functions that took much of the worker since the last time yield to others from then on."""

from __future__ import annotations

from stretto.actors.deadlines import NEVER_NS
from stretto.actors.executor import Executor
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.metrics import FunctionMetrics, ShardTotals
from stretto.actors.seat import Seat
from stretto.actors.shards import SHARDS
from stretto.actors.tasks import ShardRows
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.reports import Report
from stretto.worker.local_job import LocalJob
from stretto.worker.part import Host, Part

REPORT_EVERY_NS = 250_000_000


class Reports(Part):
    """Which jobs have something to report. Reporting costs what was done, not what is there."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._unreported: dict[str, LocalJob] = {}
        self._next_ns = 0

    def touch(self, seat: Seat) -> None:
        """The figures of an instance have changed."""
        if seat.unreported:
            return
        seat.unreported = True
        job = self._host.jobs[seat.address.job]
        job.unreported.append(seat)
        self._unreported[job.job] = job
        self.due_ns = self._next_ns

    def wake(self) -> None:
        self._next_ns = self._host.now_ns + REPORT_EVERY_NS
        for job in self._unreported.values():
            self.report(job)
        self._unreported = {}
        self.due_ns = NEVER_NS

    def dropped(self, job: LocalJob) -> None:
        self._unreported.pop(job.job, None)
        if not self._unreported:
            self.due_ns = NEVER_NS

    def report(self, job: LocalJob) -> None:
        """Report what has changed of a job now."""
        functions: dict[str, dict[int, FunctionMetrics]] = {}
        busy_ns: dict[str, int] = {}
        for seat in job.unreported:
            seat.unreported = False
            function, partition = seat.address.function, seat.address.partition
            busy_ns[function] = busy_ns.get(function, 0) + seat.newly_busy_ns()
            _count_waits(seat, self._host.now_ns)
            functions.setdefault(function, {})[partition] = _totals(seat, self._host.member)
        if job.deployment is not None and job.unreported:
            latency_ns = job.unreported[0].latency_ns
            job.demands.assess(job.deployment.functions, busy_ns, latency_ns, self._host.now_ns)
        job.unreported = []
        host = self._host
        report = Report(job.job, functions, host.refused, host.now_ns, host.memory_bytes)
        host.effects.append(Send(COORDINATOR, report))


def _shards(executor: Executor | None, counted: ShardRows, here: str) -> ShardTotals:
    rows: list[int] = counted.rows.tolist()
    if executor is None:
        return ShardTotals(rows, bytes(SHARDS), [here], counted.row_bytes)
    owners = executor.owners.tobytes()
    return ShardTotals(rows, owners, list(executor.members), counted.row_bytes, executor.routing_ns)


def _count_waits(seat: Seat, now_ns: int) -> None:
    """Brings up to date for how long an instance has waited for credits, and of whom."""
    empty = [out for out in seat.outs if out.empty_since_ns is not None] if seat.starved else []
    for out in empty:
        out.count_wait(now_ns)
    seat.metrics.waits_for = tuple(sorted({out.receiver.function for out in empty}))


def _watermark_us(seat: Seat) -> int | None:
    """Returns how far the event time of an instance has come; None before its first watermark, and after its end."""
    watermark_us = seat.instance.watermark_us
    return watermark_us if EVENT_TIME_MIN_US < watermark_us < EVENT_TIME_MAX_US else None


def _totals(seat: Seat, here: str) -> FunctionMetrics:
    """The totals so far, with the queue length of this moment."""
    metrics = seat.metrics
    executor, counted = seat.executor, seat.instance.shard_rows
    metrics.queued = len(seat.mailbox) + (len(executor.own) + executor.waiting if executor is not None else 0)
    if counted is not None and not isinstance(seat.gate, LesseeGate):
        metrics.shards = _shards(executor, counted, here)
    sizes = seat.instance.shard_sizes.sizes
    metrics.shard_bytes = b"" if sizes is None else sizes.tobytes()
    metrics.counts = seat.instance.ctx.counts
    metrics.watermark_us = _watermark_us(seat)
    metrics.latency = seat.latency.export() if seat.latency is not None else None
    metrics.strategies = {
        name: why for out in seat.outs if out.strategy and (why := out.strategy.why(name := out.receiver.function))
    }
    durations = seat.gate.durations if isinstance(seat.gate, LessorGate) else None
    metrics.barriers = durations.export() if durations is not None else None
    return metrics
