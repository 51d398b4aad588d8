"""Measures what scheduling by deadline costs per message, relative to the execution of a local aggregation.

Two workers get the same messages for the same windowed aggregations of many jobs, in turns of a few dozen messages. One
is the real one, under LLF; the other is the same machine with a plain FIFO queue and without priorities: no frontier,
no map of progress, no deadlines, no reply contexts. The overhead of a message is its time outside its function. It is
timed in both workers, message by message, with real aggregations in between, so that caches are as cold as in
production. All jobs have the same objective, so both workers process them in the same order. Times are summed by turn,
and the median turn is taken: it excludes turns that were interrupted, and includes work that happens only every few
messages. The difference is the cost of scheduling (thesis 5.6.3, figure 5.12); its ratio to the execution uses figures
of one run. Execution includes batches and closing windows, because the aggregation defers work from one to the other.

As a cross-check, the parts are also timed alone, in loops, taking the minimum of several rounds.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.actors.channel import GRANT_AT, Message, OutChannel, Payload
from stretto.actors.context import Context
from stretto.actors.critical import Watermark
from stretto.actors.deadlines import COST_WEIGHT, FIT_EVERY, NEVER_NS, POINTS_PER_WINDOW
from stretto.actors.deployment import Deployment
from stretto.actors.function import Function
from stretto.actors.mailbox import Mailbox
from stretto.actors.seat import NextRead, Seat
from stretto.actors.work import Outcome, Work
from stretto.api.app import App
from stretto.api.lowering import lowered
from stretto.bench.tenant_jobs import EPOCH_US, Stream, StreamSource
from stretto.operators.windows import tumbling
from stretto.protocol.jobs import Deploy
from stretto.protocol.machines import FrameArrived, Ticked
from stretto.protocol.membership import COORDINATOR, Member, Members
from stretto.runtime.garbage import calm_garbage_collector
from stretto.scheduling.policies import FIFO, Policy
from stretto.scheduling.ready import QUANTUM_NS, ReadyQueue
from stretto.scheduling.run_length import RowCost
from stretto.scheduling.strategy import Strategy
from stretto.sinks import null
from stretto.worker.channels import Channels, find_frontier, learn_reply
from stretto.worker.events import CodeLoaded, Effect, Ran, Run
from stretto.worker.hosting import Hosting
from stretto.worker.local_job import LocalJob
from stretto.worker.machine import Worker, WorkerParts

BATCH_ROWS = (1, 10, 100, 1_000, 10_000)
TENANTS = (10, 100, 1_000, 10_000)
TENANTS_OF_BATCHES = 10
"""Jobs with pending messages while batch sizes are compared."""
WINDOW_US = 1_000_000
BATCHES_PER_WINDOW = 10
GAP_US = WINDOW_US // BATCHES_PER_WINDOW
TURN = 50
"""Messages on one worker before the other one's turn."""
PART_CALLS = 2_000
PART_ROUNDS = 15
LATENCY_NS = 100_000_000


@dataclass(frozen=True)
class BatchCost:
    """Microseconds per message: its execution (the batch, and its share of closing a window of ten batches), and the
    overhead of both workers."""

    rows: int
    execution_us: float
    process_us: float
    close_us: float
    with_deadlines_us: float
    bare_fifo_us: float
    deciding_each_us: float
    bare_deciding_each_us: float

    @property
    def percent(self) -> float:
        """What scheduling adds, relative to the execution. Jobs with cheap messages keep the worker for a quantum."""
        return round(100 * (self.with_deadlines_us - self.bare_fifo_us) / self.execution_us, 3)

    @property
    def percent_deciding_each(self) -> float:
        """The same if every message were the last of its quantum, so that each needs a decision."""
        return round(100 * (self.deciding_each_us - self.bare_deciding_each_us) / self.execution_us, 3)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "percent": self.percent, "percent_deciding_each": self.percent_deciding_each}


@dataclass(frozen=True)
class Line:
    """A cost by the number of waiting jobs, and how it grows.

    `per_doubling` is the slope over log2(n), and `log_error_percent` the maximum deviation of a point from that line.
    `exponent` is that of a power law through the same points: 0 is constant, 1 is linear."""

    points: dict[int, float]
    per_doubling: float
    log_error_percent: float
    exponent: float


@dataclass(frozen=True)
class Growth:
    """By the number of waiting jobs: the queue alone, in microseconds and in comparisons, and the whole overhead of a
    message. The overhead also grows because more jobs do not fit the processor's caches, which is why it grows without
    priorities too."""

    queue_us: Line
    queue_comparisons: Line
    with_deadlines_us: Line
    bare_fifo_us: Line


@dataclass(frozen=True)
class SchedulingReport:
    """All figures; `parts_us` is the time of each part of scheduling alone for one message."""

    batches: list[BatchCost]
    parts_us: dict[str, float]
    growth: Growth

    @property
    def parts_percent(self) -> float:
        """All parts, relative to the execution at batch size 1. Counts the whole queue, not its excess over a FIFO."""
        return round(100 * sum(self.parts_us.values()) / self.batches[0].execution_us, 3)

    def as_dict(self) -> dict[str, Any]:
        return {
            "batches": [batch.as_dict() for batch in self.batches],
            "parts_us": self.parts_us,
            "parts_percent_at_batch_1": self.parts_percent,
            "growth": asdict(self.growth),
        }


def measure(messages: int = 4_000, progress: Callable[[str], None] = lambda text: None) -> SchedulingReport:
    """Returns all figures. Each worker gets `messages` messages per figure; large batches get fewer."""
    with calm_garbage_collector():
        batches = []
        for rows in BATCH_ROWS:
            progress(f"batches of {rows:,} rows")
            batches.append(batch_cost(rows, TENANTS_OF_BATCHES, max(10 * TURN, messages * 100 // (100 + rows))))
        progress("the parts alone")
        parts = parts_us(TENANTS_OF_BATCHES)
        return SchedulingReport(batches, parts, growth(TENANTS, messages, progress))


def batch_cost(rows: int, jobs: int, messages: int) -> BatchCost:
    """Returns the cost of a message with `rows` rows while `jobs` jobs wait."""
    workers = (Worker, BareWorker)
    timed = _in_turns([_Feed(worker, rows, jobs) for worker in workers], messages)
    deciding = _in_turns([_Feed(worker, rows, jobs, decides_each=True) for worker in workers], messages)
    process, close = (_us([ns for feed in timed for ns in getattr(feed, name)]) for name in ("process_ns", "close_ns"))
    outside = (_us(feed.outside_ns) for feed in (*timed, *deciding))
    return BatchCost(rows, round(process + close, 3), process, close, *outside)


def growth(tenants: tuple[int, ...], messages: int, progress: Callable[[str], None]) -> Growth:
    """Returns the overhead of a message by the number of jobs with a waiting message."""
    queue, comparisons, full, bare = {}, {}, {}, {}
    for jobs in tenants:
        progress(f"{jobs:,} jobs")
        queue[jobs] = round(
            queue_us([tenant.sums for tenant in _Feed(Worker, 1, jobs, executes=False).tenants.values()]), 3
        )
        comparisons[jobs] = comparisons_per_message(jobs, messages)
        feeds = [_Feed(worker, 1, jobs, executes=False, decides_each=True) for worker in (Worker, BareWorker)]
        timed = _in_turns(feeds, messages)
        full[jobs], bare[jobs] = (_us(feed.outside_ns) for feed in timed)
    return Growth(*(line_through(points) for points in (queue, comparisons, full, bare)))


def line_through(points: dict[int, float]) -> Line:
    """Fits how a cost grows with the number of jobs."""
    jobs, costs = np.array(list(points)), np.array(list(points.values()))
    slope, start = np.polyfit(np.log2(jobs), costs, 1)
    error = float(np.max(np.abs(costs / (start + slope * np.log2(jobs)) - 1)))
    exponent = np.polyfit(np.log(jobs), np.log(costs), 1)[0]
    return Line(points, round(float(slope), 4), round(100 * error, 2), round(float(exponent), 4))


def comparisons_per_message(jobs: int, messages: int) -> float:
    """Returns how often the queue compares two urgencies per message; it does not depend on the machine."""
    feed = _Feed(lambda member: Worker(member, policy=_CountedLLF()), 1, jobs, executes=False, decides_each=True)
    feed.run(jobs)
    _Counted.comparisons = 0
    feed.run(messages)
    return round(_Counted.comparisons / messages, 2)


class _Counted(float):
    """An urgency that counts its comparisons: entries first test whether their urgencies are equal."""

    __slots__ = ()
    comparisons = 0
    __hash__ = float.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.comparisons += 1
        return float.__eq__(self, other)


class _CountedLLF(Policy):
    starves = False

    def urgency(self, seat: Seat, what: Message | NextRead) -> float:
        return _Counted(what.deadline_ns)


def _us(times_ns: list[float]) -> float:
    return round(statistics.median(times_ns) / 1_000, 3)


def _in_turns(feeds: list[_Feed], messages: int) -> list[_Feed]:
    for feed in feeds:
        feed.run(TURN)
        feed.forget()
    for _ in range(max(1, messages // TURN)):
        for feed in feeds:
            feed.run(TURN)
    return feeds


class Swallow(Function):
    """Discards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        pass


# The worker without priorities.


class BareMailbox(Mailbox):
    """Messages in order of arrival."""

    def append_message(self, message: Message, urgency: float) -> bool:
        self.count += 1
        self._line.append((0, 0, message))
        return False

    def popleft(self) -> Work:
        self.count -= 1
        work: Work = self._line.popleft()[2]
        return work


class BareQueue(ReadyQueue):
    """First in, first out for all messages, with the same quantum as the real queue."""

    def __init__(self) -> None:
        super().__init__(Policy())
        self._waiting: deque[Seat] = deque()

    @property
    def idle(self) -> bool:
        return self._hot is None and not self._waiting

    def enqueue(self, seat: Seat) -> None:
        seat.queued = True
        if seat is self._current:
            self._hot = seat
        else:
            self._waiting.append(seat)

    def next_seat(self, now_ns: int) -> Seat | None:
        hot = self._hot
        if hot is not None:
            self._hot = None
            if now_ns - self._current_since_ns < self._quantum_ns:
                hot.queued = False
                return hot
            self._waiting.append(hot)
        while self._waiting:
            seat = self._waiting.popleft()
            seat.queued = False
            if not seat.dropped and (not seat.starved or seat.opening):
                self._current, self._current_since_ns = seat, now_ns
                return seat
        return None


class BareStrategy(Strategy):
    """Runs every message at home, in order of arrival."""

    def create_queue(self, policy: Policy) -> ReadyQueue:
        return BareQueue()


class BareChannels(Channels):
    """Sends without priority contexts, returns credits without reply contexts."""

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        if not isinstance(payload, pa.RecordBatch):
            super().send(channel, payload, outcome)
            return
        sender = channel.seat
        rows = payload.num_rows
        sent_to = sender.metrics.sent_to
        sender.metrics.rows_out += rows
        sent_to[channel.receiver.function] = sent_to.get(channel.receiver.function, 0) + rows
        assert channel.strategy is None
        self.emit(channel, payload, outcome.arrived_ns, None, None, NEVER_NS)

    def give_back(self, message: Message) -> None:
        if message.channel.out is not None:
            self._restore_credits(message.channel.out, message.credits)
        else:
            super().give_back(message)


class BareHosting(Hosting):
    """Gives new instances mailboxes that are not ordered by urgency."""

    def take_in(self, seat: Seat, job: LocalJob) -> None:
        super().take_in(seat, job)
        seat.mailbox = BareMailbox()


class BareWorker(Worker):
    """The worker machine without the tracking of urgency. (The running mean of costs stays.)"""

    def __init__(self, member: str) -> None:
        parts = WorkerParts(channels=BareChannels, hosting=BareHosting)
        super().__init__(member, parts, policy=FIFO(), strategy=BareStrategy())


# Feeding the workers.


class _Tenant:
    """A job on the worker: the channel into its aggregation, the aggregation, and the position in its stream."""

    __slots__ = ("batches", "out", "sums")

    def __init__(self, out: OutChannel, sums: Seat) -> None:
        self.out = out
        self.sums = sums
        self.batches = 0


class _Feed:
    """A worker with many jobs, each with a waiting message; times the messages.

    With `decides_each`, the clock advances past the quantum with each message, so that each needs a decision; otherwise
    it advances by the measured time."""

    def __init__(
        self, kind: Callable[[str], Worker], rows: int, jobs: int, executes: bool = True, decides_each: bool = False
    ) -> None:
        self._worker = kind("me~1")
        self._send = _send_bare if isinstance(self._worker, BareWorker) else _send_with_progress
        self._stream = _stream(rows)
        self._executes = executes
        self._decides_each = decides_each
        self._now_ns = 1_000_000_000
        self.process_ns: list[float] = []
        self.close_ns: list[float] = []
        self.outside_ns: list[float] = []
        self.tenants = {tenant.sums: tenant for tenant in self._hosted(jobs)}
        for tenant in self.tenants.values():
            self._send(self._worker, tenant.out, *self._next(tenant))
        # Any event makes an idle worker begin.
        self._run = _only_run(self._worker.handle(Ticked(), self._now_ns))

    def forget(self) -> None:
        """Drop the figures of the warm-up."""
        self.process_ns, self.close_ns, self.outside_ns = [], [], []

    def run(self, messages: int) -> None:
        """Run `messages` messages, each followed by another one for its job. Keeps their mean times."""
        clock, send, worker = time.perf_counter_ns, self._send, self._worker
        process_ns = close_ns = outside_ns = took_ns = 0
        for _ in range(messages):
            seat, work = self._run.seat, self._run.work
            tenant = self.tenants[seat]
            batch, upstream = self._next(tenant)
            self._now_ns += QUANTUM_NS if self._decides_each else took_ns
            began_ns = clock()
            outcome = seat.instance.apply(work, self._now_ns)
            ran_ns = clock()
            send(worker, tenant.out, batch, upstream)
            effects = worker.handle(Ran(seat, work, outcome, ran_ns - began_ns), self._now_ns)
            ended_ns = clock()
            took_ns = ended_ns - began_ns
            process_ns += ran_ns - began_ns
            outside_ns += ended_ns - ran_ns
            self._run = _only_run(effects)
            if self._executes:
                close_ns += self._close_window(tenant)
        self.process_ns.append(process_ns / messages)
        self.close_ns.append(close_ns / messages)
        self.outside_ns.append(outside_ns / messages)

    def _next(self, tenant: _Tenant) -> tuple[pa.RecordBatch, Outcome]:
        """Returns the next batch of a job, and the outcome of the upstream run that sends it."""
        batch = self._stream.batch(tenant.batches if self._executes else 0, 0)
        tenant.batches += 1
        return batch, _sent_at(tenant.batches)

    def _close_window(self, tenant: _Tenant) -> int:
        """Close a window once all its batches have run, which drops its state; returns the time that this takes."""
        ran = tenant.batches - 1
        if ran % BATCHES_PER_WINDOW:
            return 0
        closing = Message(tenant.sums.inputs[0], 0, Watermark(EPOCH_US + ran * GAP_US), self._now_ns)
        began_ns = time.perf_counter_ns()
        tenant.sums.instance.apply(closing, self._now_ns)
        return time.perf_counter_ns() - began_ns

    def _hosted(self, jobs: int) -> Iterator[_Tenant]:
        worker = self._worker
        members = [Member(name, name, name, "host", 1) for name in ("me~1", "peer~1")]
        _settle(worker, FrameArrived(COORDINATOR, Members(1, members)))
        pattern = _deployment(self._executes)
        placement = {name: ["peer~1" if name == "answers" else "me~1"] for name in pattern.functions}
        for number in range(jobs):
            job = f"job-{number}"
            _settle(worker, FrameArrived(COORDINATOR, Deploy(job, "", placement)))
            _settle(worker, CodeLoaded(job, replace(pattern, job=job, latency_ns=LATENCY_NS)))
            seats = {address.function: seat for address, seat in worker.jobs[job].seats.items()}
            tenant = _Tenant(seats["events"].outs[0], seats["sums"])
            tenant.sums.row_cost = _known_as_cheap()
            # Stagger the jobs, so that work that occurs only every few messages occurs at a different time for each.
            tenant.batches = number % (BATCHES_PER_WINDOW * FIT_EVERY // POINTS_PER_WINDOW)
            for sent in range(1, tenant.batches + 1):
                upstream = _sent_at(sent)
                _learn(tenant.out, upstream)
            yield tenant


def _known_as_cheap() -> RowCost:
    """Returns what is known of a function after many cheap runs: its batches run whole from the first one on."""
    row_cost = RowCost(LATENCY_NS)
    row_cost.learn(1 << 20, 1)
    return row_cost


def _sent_at(batches: int) -> Outcome:
    """Returns the outcome of the run that sends batch number `batches` of a job: events arrive as they happen."""
    upstream = Outcome(batches * GAP_US * 1_000)
    upstream.progress_us = EPOCH_US + batches * GAP_US
    return upstream


def _send_with_progress(worker: Worker, out: OutChannel, batch: pa.RecordBatch, upstream: Outcome) -> None:
    """Send as a worker does after the run of a function that feeds windows."""
    _learn(out, upstream)
    worker.channels.send(out, batch, upstream)


def _learn(out: OutChannel, upstream: Outcome) -> None:
    if out.seat.progress is not None and upstream.progress_us is not None:
        out.seat.progress.learn(upstream.progress_us, upstream.arrived_ns)


def _send_bare(worker: Worker, out: OutChannel, batch: pa.RecordBatch, upstream: Outcome) -> None:
    worker.channels.send(out, batch, upstream)


def _stream(rows: int) -> Stream:
    return Stream(rows, GAP_US, 0, 0, 1)


def _deployment(executes: bool) -> Deployment:
    """Returns a source, a windowed sum by key and a sink; without `executes`, a no-op replaces the sum."""
    app = App("pattern", engine="actors", parallelism=1)
    windows = app.source("events", StreamSource(_stream(1)), time="t").key_by("key").window(tumbling(f"{WINDOW_US} us"))
    windows.aggregate(total="sum(value)", rows="count(*)", name="sums").sink(null(), name="answers")
    deployment = lowered(app.plan(), "pattern", 1, 1)
    if not executes:
        sums = replace(deployment.functions["sums"], function=Swallow())
        deployment = replace(deployment, functions={**deployment.functions, "sums": sums})
    return deployment


def _settle(worker: Worker, event: Any) -> None:
    """Pass an event to the worker, and carry out its runs until it requests none."""
    pending = [effect for effect in worker.handle(event, 0) if isinstance(effect, Run)]
    while pending:
        run = pending.pop()
        ran = Ran(run.seat, run.work, run.seat.instance.apply(run.work, 0), 0)
        pending += [effect for effect in worker.handle(ran, 0) if isinstance(effect, Run)]


def _only_run(effects: list[Effect]) -> Run:
    return next(effect for effect in effects if isinstance(effect, Run))


# The parts alone.


def parts_us(jobs: int) -> dict[str, float]:
    """Returns the microseconds per message of each part of scheduling, while `jobs` jobs wait."""
    feed = _Feed(Worker, 1, jobs, executes=False, decides_each=True)
    feed.run(20 * jobs)  # Each stream has enough points for its regression line.
    tenant = next(iter(feed.tenants.values()))
    out, sums, progress = tenant.out, tenant.sums, tenant.out.seat.progress
    assert progress is not None
    steps = count(1)

    def deadline() -> None:
        step = next(steps)
        progress.learn(EPOCH_US + (tenant.batches + step) * GAP_US, step * QUANTUM_NS)
        if not step % BATCHES_PER_WINDOW:
            find_frontier(out, EPOCH_US + (tenant.batches + step) * GAP_US)

    def reply() -> None:
        learn_reply(out, sums.cost_ns, sums.path_ns)

    def mean_cost() -> None:
        sums.cost_ns += COST_WEIGHT * (1_000 - sums.cost_ns)

    def nothing() -> None:
        next(steps)

    idle = _least_us(nothing)
    return {
        "frontier, map of progress, deadline": round(_least_us(deadline) - idle, 3),
        "queue by urgency": round(queue_us([tenant.sums for tenant in feed.tenants.values()]), 3),
        "reply context": round(_least_us(reply) / GRANT_AT, 3),
        "mean cost": round(_least_us(mean_cost), 3),
    }


def queue_us(seats: list[Seat]) -> float:
    """Returns the time of the queue per message: each seat in turn runs next, and then gets another message."""
    queue = ReadyQueue()
    for seat in seats:
        seat.queued = False
        if seat.mailbox:
            queue.enqueue(seat)
    steps = count(1)

    def queueing() -> None:
        now_ns = next(steps) * QUANTUM_NS
        found = queue.next_seat(now_ns)
        assert found is not None
        message = found.mailbox.popleft()
        assert isinstance(message, Message)
        found.mailbox.append_message(message, now_ns + NEVER_NS // 2)
        queue.enqueue(found)

    return _least_us(queueing)


def _least_us(call: Callable[[], None]) -> float:
    """Returns the microseconds of a call: the minimum of several rounds, because disturbances only add."""
    rounds = []
    for _ in range(PART_ROUNDS):
        began_ns = time.perf_counter_ns()
        for _ in range(PART_CALLS):
            call()
        rounds.append((time.perf_counter_ns() - began_ns) / PART_CALLS)
    return min(rounds) / 1_000
