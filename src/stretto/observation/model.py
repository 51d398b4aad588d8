"""An observation: plain data that never changes. Rates are per second of the interval in which they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from stretto.actors.juice import juice
from stretto.actors.metrics import FunctionMetrics, difference, is_stuck, merged
from stretto.actors.shape import FunctionShape
from stretto.api.slo import SLO
from stretto.observation.shards import ElasticObserved
from stretto.observation.transactions import EntitiesObserved
from stretto.protocol.bursts import To
from stretto.protocol.membership import Member, MemberRole
from stretto.rendering import megabytes

NAMES_SHOWN = 3


@dataclass(frozen=True)
class ActorObserved:
    """One instance of an actor: its totals now, and at the beginning of the last interval."""

    partition: int
    member: str
    totals: FunctionMetrics
    before: FunctionMetrics
    interval_ns: int

    @cached_property
    def interval(self) -> FunctionMetrics:
        """Its totals of the last interval."""
        return difference(self.totals, self.before)

    @property
    def busy_share(self) -> float:
        """The share of the interval in which it ran."""
        return (self.totals.busy_ns - self.before.busy_ns) / self.interval_ns if self.interval_ns else 0.0

    @cached_property
    def waits(self) -> dict[str, float]:
        """The share of the interval in which it waited for credits of a downstream function, by that function. One that
        waited when it last reported, and has not run since, still waits."""
        before = self.before.waited_ns
        found = {
            name: min(1.0, (waited_ns - before.get(name, 0)) / self.interval_ns)
            for name, waited_ns in self.totals.waited_ns.items()
            if self.interval_ns and waited_ns > before.get(name, 0)
        }
        if self.totals.busy_ns == self.before.busy_ns:
            found |= dict.fromkeys(self.totals.waits_for, 1.0)
        return found


@dataclass(frozen=True, slots=True)
class EdgeObserved:
    """Rows per second from one function to another: sent by the first, executed by the second."""

    sender: str
    receiver: str
    sent_rate: float
    executed_rate: float


@dataclass(frozen=True)
class FunctionObserved:
    """One function over all its instances. `state_bytes` is the size of its state in the last complete checkpoint; None
    if there is none. `elastic` has its partitions whose shards may be on several workers, `lessees` is how many lessees
    each of its actors may have now, `away` where its batches go, if some go to transient workers."""

    shape: FunctionShape
    actors: tuple[ActorObserved, ...]
    state_bytes: int | None = None
    elastic: tuple[ElasticObserved, ...] = ()
    lessees: int = 0
    away: To | None = None

    @cached_property
    def totals(self) -> FunctionMetrics:
        """The totals since it began. Computed on demand, because merging sketches is slow."""
        return merged([actor.totals for actor in self.actors])

    @cached_property
    def interval(self) -> FunctionMetrics:
        """The totals of the last interval."""
        return merged([actor.interval for actor in self.actors])

    @property
    def input_rate(self) -> float:
        return sum(_rate(actor.interval.rows_in, actor) for actor in self.actors)

    @property
    def arrival_rate(self) -> float:
        """Of a source: rows per second that arrive for it, also if it reads them later."""
        return sum(_rate(actor.interval.rows_due, actor) for actor in self.actors)

    @property
    def output_rate(self) -> float:
        return sum(_rate(actor.interval.rows_out, actor) for actor in self.actors)

    @property
    def busy_share(self) -> float:
        """How many workers it keeps busy."""
        return sum(actor.busy_share for actor in self.actors)

    @cached_property
    def waits(self) -> dict[str, float]:
        """The share of the interval in which it waited for credits of a downstream function, by that function: the
        mean over its instances."""
        found: dict[str, float] = {}
        for actor in self.actors:
            for name, share in actor.waits.items():
                found[name] = found.get(name, 0.0) + share / len(self.actors)
        return found

    @property
    def waits_share(self) -> float:
        """The share of the interval in which it could not run for want of credits."""
        return min(1.0, sum(self.waits.values()))

    @property
    def watermark_us(self) -> int | None:
        """How far its event time has come, on all instances."""
        return min(
            (each.totals.watermark_us for each in self.actors if each.totals.watermark_us is not None), default=None
        )

    @property
    def queued(self) -> int:
        """The number of messages that wait."""
        return sum(actor.totals.queued for actor in self.actors)


@dataclass(frozen=True, slots=True)
class DeployingObserved:
    """What a job waits for before it starts: of so many members, those that are `loading` the code, and those that are
    `opening` their instances."""

    code_bytes: int
    members: int
    loading: tuple[str, ...]
    opening: tuple[str, ...]

    def __str__(self) -> str:
        ready = self.members - len(self.loading) - len(self.opening)
        parts = [f"{ready} of {self.members} members are ready"]
        if self.loading:
            parts.append(f"waiting for {_names(self.loading)} to load {megabytes(self.code_bytes)} of code")
        if self.opening:
            parts.append(f"waiting for {_names(self.opening)} to open functions")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class CheckpointObserved:
    """A checkpoint that has ended: complete, with its size, how much of it is new, and how long it took from the first
    mark; or failed, for this reason."""

    number: int
    ended_ns: int
    bytes: int = 0
    bytes_written: int = 0
    took_ns: int = 0
    failed_because: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointsObserved:
    """The checkpoints of a job: the last ones that have ended, the latest last, the interval between two (None: only
    those that are asked for), and since when one is under way."""

    ended: tuple[CheckpointObserved, ...] = ()
    interval_ns: int | None = None
    since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class JobObserved:
    """One job: its workers, its objective and its functions in topological order. `deploying` until all are ready;
    `warm` are the transient workers that have loaded it. `checkpoints` are None if it has none; `failure` says why it
    failed, `waits_for` what it waits for before it is placed."""

    name: str
    status: str
    attempt: str
    members: tuple[str, ...]
    placement: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, FunctionObserved]
    objective: SLO | None = None
    deploying: DeployingObserved | None = None
    warm: tuple[str, ...] = ()
    checkpoints: CheckpointsObserved | None = None
    failure: str | None = None
    waits_for: str | None = None

    @property
    def totals(self) -> dict[str, FunctionMetrics]:
        """The totals of its functions that have reported."""
        return {name: function.totals for name, function in self.functions.items() if function.actors}

    @property
    def juice(self) -> float | None:
        """The share of the sources' input in the last interval that was processed to the end."""
        found = {name: function.interval for name, function in self.functions.items() if function.actors}
        return juice(found, {name for name, function in self.functions.items() if not function.shape.feeds})

    @property
    def is_stuck(self) -> bool:
        """Whether input waits at a function that has processed none of it in the last interval. Without results alone
        it need not be: windows may be open, and filters may drop everything."""
        return any(is_stuck(function.interval) for function in self.functions.values())

    @property
    def edges(self) -> list[EdgeObserved]:
        """Returns the row rates between functions in the last interval."""
        found = []
        for name, function in self.functions.items():
            for feed in function.shape.feeds:
                sender = self.functions[feed.sender]
                sent = sum(_rate(actor.interval.sent_to.get(name, 0), actor) for actor in sender.actors)
                executed = sum(_rate(a.interval.executed_from.get(feed.sender, 0), a) for a in function.actors)
                found.append(EdgeObserved(feed.sender, name, sent, executed))
        return found


@dataclass(frozen=True, slots=True)
class WorkerObserved:
    """One member: its busy share over all jobs, the messages that wait there, what it has refused, how many cores it
    can keep busy, whether it leaves once nothing is there, and what its process held in memory when it last reported
    (0: unknown)."""

    member: Member
    parked: bool
    busy_share: float
    queued: int
    refused: int
    cores: float = 1.0
    leaving: bool = False
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LongRunsObserved:
    """A function of a job has runs on a worker that are longer than what some other job there has promised."""

    job: str
    function: str
    member: str
    run_ns: int


@dataclass(frozen=True, slots=True)
class Observation:
    """The whole cluster at one moment. `refused` also counts for members that are gone. `entities` are those of
    jobs, by the name of the app's job: one that has streams too is also in `jobs`."""

    time_ns: int = 0
    jobs: Mapping[str, JobObserved] = field(default_factory=dict)
    workers: Mapping[str, WorkerObserved] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    long_runs: tuple[LongRunsObserved, ...] = ()
    entities: Mapping[str, EntitiesObserved] = field(default_factory=dict)

    @property
    def busy_shares(self) -> dict[str, float]:
        """How busy each member is."""
        return {name: worker.busy_share for name, worker in self.workers.items()}

    @property
    def transient(self) -> frozenset[str]:
        """The transient workers."""
        members = self.workers.items()
        return frozenset(name for name, worker in members if worker.member.role is MemberRole.TRANSIENT)


def worker_loads(jobs: Iterable[JobObserved]) -> tuple[dict[str, float], dict[str, int]]:
    """Returns the busy share of each worker that has instances, over all jobs, and how many messages wait there."""
    busy: dict[str, float] = {}
    queued: dict[str, int] = {}
    for job in jobs:
        for function in job.functions.values():
            for actor in function.actors:
                busy[actor.member] = busy.get(actor.member, 0.0) + actor.busy_share
                queued[actor.member] = queued.get(actor.member, 0) + actor.totals.queued
    return busy, queued


def _names(members: tuple[str, ...]) -> str:
    return ", ".join(members[:NAMES_SHOWN]) + (f" and {len(members) - NAMES_SHOWN} more" * (len(members) > NAMES_SHOWN))


def _rate(amount: int, actor: ActorObserved) -> float:
    return amount * 1e9 / actor.interval_ns if actor.interval_ns else 0.0
