"""What the controller of bursts sees of one job: what its sources read, what its functions cost, and where they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stretto.elasticity.view import ElasticView
from stretto.observation.model import ActorObserved, FunctionObserved, JobObserved
from stretto.protocol.bursts import To

DEADLINE_S = 10.0
"""The deadline of a job that has neither a window nor an objective."""
DEADLINE_MIN_S = 1.0
"""What has piled up cannot be processed sooner than it is noticed."""


class SourceRead(NamedTuple):
    """What one instance of a source has read so far, when the last of it arrived, how long it had waited, whether
    there was ever nothing to read, and how many rows a second it has read in the last one."""

    rows: int
    arrived_ns: int
    behind_s: float
    was_idle: bool = False
    per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FunctionLoad:
    """A function in the last second: how busy it kept each ordinary worker, and transient ones together; rows per
    second in all, and those that ran on transient workers. `rows_waiting` are in its mailboxes now, and `rows_total`
    are those that it has had. It is `fluid` if its work goes where there is room among ordinary workers: a strategy
    spreads it, or its shards move."""

    name: str
    home: Mapping[str, float]
    away: float
    rows_per_s: float
    rows_away_per_s: float
    redirects: bool
    fluid: bool
    rows_waiting: float = 0.0
    rows_total: int = 0
    rows_by_home: Mapping[str, float] = field(default_factory=dict)
    """Rows per second that came to it on each ordinary worker, wherever they ran."""

    @property
    def at_home(self) -> float:
        return sum(self.home.values())

    @property
    def rows_home_per_s(self) -> float:
        return self.rows_per_s - self.rows_away_per_s


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A running job. `others` is how busy each ordinary worker is with everything else, `warm` are the transient
    workers that have loaded it, `redirected` is where batches go now."""

    name: str
    attempt: str
    functions: Mapping[str, FunctionLoad]
    sources: Mapping[tuple[str, int], SourceRead]
    read_per_s: float
    deadline_s: float
    others: Mapping[str, float]
    warm: tuple[str, ...]
    redirected: Mapping[str, To]

    @property
    def behind_s(self) -> float:
        """For how long events had waited at the sources when they were read."""
        return max((each.behind_s for each in self.sources.values()), default=0.0)

    @property
    def rows_read(self) -> int:
        """Rows that its sources have read so far."""
        return sum(each.rows for each in self.sources.values())

    @property
    def away(self) -> tuple[str, ...]:
        """The transient workers that batches go to now."""
        return tuple(sorted({member for to in self.redirected.values() for member in to.members}))

    @property
    def busiest(self) -> float:
        """How busy the ordinary workers that it is at home on are, on average."""
        homes = {worker for function in self.functions.values() for worker in function.home}
        mine = sum(function.at_home for function in self.functions.values())
        return (mine + sum(self.others[worker] for worker in homes)) / len(homes) if homes else 0.0


def load_of(view: ElasticView, name: str) -> JobLoad:
    """Returns the load of a job that runs."""
    job = view.observed.jobs[name]
    functions = {each: _function(view, each, observed) for each, observed in job.functions.items()}
    sources = {
        (each, actor.partition): _source_read(actor)
        for each, observed in job.functions.items()
        if not observed.shape.feeds
        for actor in observed.actors
        if actor.member in view.workers  # Its twins read nothing.
    }
    read = sum(functions[each].rows_per_s for each, observed in job.functions.items() if not observed.shape.feeds)
    mine = dict.fromkeys(view.workers, 0.0)
    for function in functions.values():
        for worker, busy in function.home.items():
            mine[worker] += busy
    others = {worker: max(0.0, each.busy_share - mine[worker]) for worker, each in view.workers.items()}
    redirected = {each: observed.away for each, observed in job.functions.items() if observed.away is not None}
    return JobLoad(
        name, job.attempt, functions, sources, read, _deadline_s(job), others, job.warm, redirected
    )  # fmt: skip


def _source_read(actor: ActorObserved) -> SourceRead:
    totals = actor.totals
    per_s = actor.interval.rows_in * 1e9 / actor.interval_ns if actor.interval_ns else 0.0
    return SourceRead(totals.rows_in, totals.arrived_ns, totals.behind_ns / 1e9, totals.idle_reads > 0, per_s)


def _function(view: ElasticView, name: str, observed: FunctionObserved) -> FunctionLoad:
    home: dict[str, float] = {}
    rows: dict[str, float] = {}
    away = 0.0
    transient = view.observed.transient
    for actor in observed.actors:
        if actor.member in view.workers:
            home[actor.member] = home.get(actor.member, 0.0) + actor.busy_share
            came = actor.interval.rows_in * 1e9 / actor.interval_ns if actor.interval_ns else 0.0
            rows[actor.member] = rows.get(actor.member, 0.0) + came
        elif actor.member in transient:
            away += actor.busy_share
    rows_away = sum(
        actor.interval.rows_away * 1e9 / actor.interval_ns for actor in observed.actors if actor.interval_ns
    )
    shape = observed.shape
    fluid = observed.lessees > 0 or shape.workers_max > 1
    waiting = sum(_rows_waiting(actor) for actor in observed.actors if actor.member in view.workers)
    total = sum(actor.totals.rows_in for actor in observed.actors)
    return FunctionLoad(name, home, away, observed.input_rate, rows_away, shape.redirects, fluid, waiting, total, rows)


def _rows_waiting(actor: ActorObserved) -> float:
    """Returns about how many rows wait in a mailbox, if its messages are as large as those of the last second."""
    recent = actor.interval
    return actor.totals.queued * recent.rows_in / recent.messages_in if recent.messages_in else 0.0


def _deadline_s(job: JobObserved) -> float:
    """Returns until when what has piled up is to be processed: the least slide of its windows, or its objective,
    whichever is less."""
    slides = [function.shape.slide_us / 1e6 for function in job.functions.values() if function.shape.slide_us]
    objective = job.objective.latency_ms if job.objective is not None else None
    wanted = [*slides, *([] if objective is None else [objective / 1e3])]
    return max(DEADLINE_MIN_S, min(wanted, default=DEADLINE_S))
