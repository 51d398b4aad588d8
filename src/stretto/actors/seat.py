"""What a worker keeps about an instance: what waits for it, how urgent that is, whether it may run, what it costs.

Plain data that the worker's parts keep; the instance does not read it. Scheduling policies and strategies see an
instance as its seat.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from stretto.actors.deadlines import LAX_NS, POINTS_PER_WINDOW, ProgressMap
from stretto.actors.due_rows import DueRows
from stretto.actors.mailbox import Mailbox
from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.actors.sharing import Lookups

if TYPE_CHECKING:
    from stretto.actors.away import Away
    from stretto.actors.channel import InChannel, Message, OutChannel
    from stretto.actors.executor import Executor
    from stretto.actors.gate import LesseeGate, LessorGate
    from stretto.actors.instance import Instance
    from stretto.actors.work import Errand, Work


class Phase(Enum):
    """The phases of an instance, in order; the worker advances them."""

    OPENING = "opening"
    OPEN = "open"
    FINISHED = "finished"


class NextRead:
    """The next read of a source, as urgent as the message that it would become."""

    __slots__ = ("deadline_ns",)

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns


class Keeper(Protocol):
    """A part of the worker that decides which of the waiting work an instance may run."""

    def has_work(self, seat: Seat) -> bool:
        """Whether `next_work` would return work or make progress."""

    def next_work(self, seat: Seat) -> Work | None:
        """Returns the next piece of work that may run now."""

    def urgent(self, seat: Seat) -> list[Message] | None:
        """Returns the messages of the next run if that is not the first in the mailbox; empty if it is to run at
        once."""


class Demand:
    """What the seats of a function on one worker have in common (`worker/demands.py`): `own_ns` is by how much they
    yield for the time that they take, and `handicap_ns` also for those that they feed. `below` are all functions that
    get rows of theirs, on whatever way."""

    __slots__ = ("below", "handicap_ns", "own_ns")

    def __init__(self) -> None:
        self.handicap_ns = 0.0
        self.own_ns = 0.0
        self.below: tuple[Demand, ...] = ()


class Seat:
    """The worker's record of one instance. Each group of fields is written by one part of the worker.

    - Itself: `phase`, and `dropped` with its job. While an attempt of its job takes over from another one, it is
      `paused`: only the errands in this list may run.
    - What may run: `keeper` decides, with its own record in `gate`; without one, everything in the `mailbox` may.
      `criticals` counts the critical messages that its actor has sent; `marked` is the last checkpoint whose mark it
      has passed, or that was abandoned: that mark and earlier ones are void.
    - Of an elastic executor: `executor` is the home's record, `leaving` are shards that an owner is to give away;
      `shared` once it has channels from several instances of one actor.
    - While a burst is redirected: `away` is what it has on transient workers.
    - Of one that uses shared objects: `lookups` are the batches that wait for some.
    - What it may send: a batch costs a credit for each `credit_bytes`, if its job says so. `owing` are the extra
      channels to it of which credits have not been returned.
    - Whether it may run: `starved` counts the reasons why not: channels without credits, or that wait for a list of
      lessees; too many batches whose receiver is `undecided`; a run that is `interrupted` until it is decided.
    - While it `holds`, messages wait and errands run: it calls entities, and many rows wait for replies.
    - Its place in the ready queue: `queued`, the number of its `entry`, its `urgency`.
    - For deadlines: the recent `cost_ns` per message, `path_ns` of the longest path below it, and `progress`, which
      predicts when stream time arrives, if it feeds windows; the `latency_ns` that its job's objective allows, and the
      `share` of its job; the `demand` of its function, and how long it had run (`assessed_ns`) when that was last
      assessed.
    - What it may run at once: `row_cost` is what its runs cost by their rows, `rest` what is left of the message that
      it runs in pieces.
    - When to wake it: `poll_due` and `next_read` of a source, `timers_alarm_ns`.
    - What is reported: `metrics`, for a sink `latency`, for a source `due_rows`; `unreported` while they have changed
      since."""

    __slots__ = (
        "address",
        "assessed_ns",
        "away",
        "cost_ns",
        "credit_bytes",
        "criticals",
        "demand",
        "dropped",
        "due_rows",
        "entry",
        "executor",
        "extra_outs",
        "gate",
        "holds",
        "inputs",
        "instance",
        "interrupted",
        "keeper",
        "latency",
        "latency_ns",
        "leaving",
        "lookups",
        "mailbox",
        "marked",
        "metrics",
        "next_read",
        "outs",
        "owing",
        "path_ns",
        "paused",
        "phase",
        "poll_due",
        "progress",
        "queued",
        "rest",
        "row_cost",
        "share",
        "shared",
        "spec",
        "starved",
        "strategy",
        "timers_alarm_ns",
        "undecided",
        "unreported",
        "urgency",
    )

    def __init__(
        self, instance: Instance, latency_ns: int = LAX_NS, share: float = 1.0, credit_bytes: int | None = None
    ) -> None:
        self.instance = instance
        self.credit_bytes = credit_bytes
        self.owing: list[InChannel] = []
        self.address = instance.address
        self.spec = instance.spec
        # The same lists as the instance's: the instance routes by them, the worker numbers and counts.
        self.inputs = instance.inputs
        self.outs = instance.outs
        self.extra_outs: list[OutChannel] = []
        self.phase = Phase.OPENING
        self.dropped = False
        self.paused: list[Errand] | None = None
        self.mailbox = Mailbox()
        self.keeper: Keeper | None = None
        self.gate: LessorGate | LesseeGate | None = None
        self.criticals = 0
        self.marked = 0
        self.executor: Executor | None = None
        self.away: Away | None = None
        self.leaving: list[Any] | None = None
        """`protocol.elastic.Give` frames, which this room does not import."""
        self.lookups = _lookups(instance)
        self.shared = False
        self.strategy: Any = None
        """A `scheduling.Strategy`, which this room does not import."""
        self.starved = 0
        self.undecided = 0
        self.interrupted: Any = None
        self.holds = False
        self.queued = False
        self.entry = 0
        self.urgency = 0.0
        self.latency_ns = latency_ns
        self.share = share
        self.demand = Demand()
        self.assessed_ns = 0
        self.cost_ns = 0.0
        self.path_ns = 0.0
        self.progress: ProgressMap | None = None
        self.row_cost: Any = None
        """A `scheduling.run_length.RowCost`, which this room does not import."""
        self.rest: Message | None = None
        self.next_read: NextRead | None = None
        self.poll_due = False
        self.timers_alarm_ns: int | None = None
        self.metrics = FunctionMetrics()
        self.unreported = False
        self.latency = LatencySketch() if instance.is_sink else None
        self.due_rows = DueRows() if instance.is_source else None

    @property
    def opening(self) -> bool:
        """Whether its next work is to open, which sends nothing and needs no credits."""
        return self.phase is Phase.OPENING

    @property
    def sends_nothing(self) -> bool:
        """Whether its next work sends nothing, so that it needs no credits: it is opened, or is paused."""
        return self.phase is Phase.OPENING or self.paused is not None

    def newly_busy_ns(self) -> int:
        """Returns how long it has run since this was last called."""
        busy_ns = self.metrics.busy_ns
        newly_ns, self.assessed_ns = busy_ns - self.assessed_ns, busy_ns
        return newly_ns

    def feed_windows(self, slide_us: int) -> None:
        """Starts predicting when stream time arrives, since it feeds a function with windows."""
        self.progress = self.progress or ProgressMap()
        self.progress.step_us = max(1, slide_us // POINTS_PER_WINDOW)


def _lookups(instance: Instance) -> Lookups | None:
    """Returns the record of an instance that uses shared objects."""
    if instance.sharing is None:
        return None
    return Lookups(ordered=not instance.spec.lessees_max)
