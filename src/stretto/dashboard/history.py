"""What was observed and decided, in memory with a bound: an hour of figures, the last decisions.

Each job, each of its functions and each worker has a series: 300 rows by the second and 360 by ten seconds, in 32-bit
numbers. `bytes_max` says what that takes. Beyond the bounds, the oldest ended job goes first, and then what is newest
is left out. There is no clock here: observations have their own time, and a run of the simulator is kept like one of a
cluster.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from stretto.actors.metrics import SketchBins
from stretto.dashboard.entity_views import ENTITY_FIELDS, EntityHistory, without_streams
from stretto.dashboard.measures import (
    FUNCTION_FIELDS,
    JOB_FIELDS,
    JOB_SUMS,
    LATENCY_FIELDS,
    WORKER_FIELDS,
    function_row,
    job_latency,
    job_row,
    latency_between,
    latency_row,
    worker_row,
)
from stretto.dashboard.series import COARSE_KEPT, COARSE_S, FINE_S, Series
from stretto.elasticity.records import DecisionRecord
from stretto.observation.congestion import Congestion, Load, congestion_of, load_of
from stretto.observation.model import CheckpointObserved, JobObserved, Observation, WorkerObserved
from stretto.observation.transactions import EntitiesObserved

JITTER = 0.9
"""Observations come about every quarter of a second; one that is a little early is still that of the next second."""
ENDED = ("finished", "failed", "stopped")
QUIET_NS = 2_000_000_000
"""Observations come while something happens. When none has come for so long, nothing happens."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept at most."""

    jobs: int = 256
    functions: int = 2_048
    workers: int = 512
    decisions: int = 2_000
    checkpoints: int = 100

    @property
    def bytes_max(self) -> int:
        """How much memory the figures take at most. Records of decisions take some kilobytes each beside it."""
        of_job = Series.bytes_max(len(JOB_FIELDS)) + Series.bytes_max(len(LATENCY_FIELDS))
        of_job += Series.bytes_max(len(ENTITY_FIELDS))
        of_function, of_worker = Series.bytes_max(len(FUNCTION_FIELDS)), Series.bytes_max(len(WORKER_FIELDS))
        return self.jobs * of_job + self.functions * of_function + self.workers * of_worker


@dataclass(frozen=True, slots=True)
class Moment:
    """A job as it was observed at a time, and what held it back."""

    job: JobObserved
    congestion: Congestion
    time_s: float
    rate: float


@dataclass
class JobHistory:
    """A job as it was last observed, and its figures over time. `gone` once it is observed no more. `busiest` is the
    moment at which its sources read most: what it looked like at its very end says little. `held_back` counts the
    rows in which a function was the cause of congestion, by its job and its name."""

    last: JobObserved
    began_s: float
    seen_s: float
    congestion: Congestion
    busiest: Moment
    held_back: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: int = 0
    gone: bool = False
    series: Series = field(default_factory=lambda: Series(JOB_FIELDS, JOB_SUMS))
    latencies: Series = field(default_factory=lambda: Series(LATENCY_FIELDS, LATENCY_FIELDS))
    functions: dict[str, Series] = field(default_factory=dict)
    checkpoints: OrderedDict[tuple[int, int], CheckpointObserved] = field(default_factory=OrderedDict)
    latency: SketchBins | None = None
    """The latencies of all results up to the last row."""
    entities: EntityHistory | None = None

    @property
    def ended(self) -> bool:
        return self.gone or self.last.status in ENDED

    @property
    def results(self) -> tuple[float, float]:
        """How many results there were in the hour that is kept, and how many of them were in time."""
        rows = self.series.over_all()
        places = [self.series.names.index(name) for name in JOB_SUMS]
        total, in_time = (float(rows[:, place][rows[:, place] > 0].sum()) for place in places)
        return total, in_time


@dataclass
class WorkerHistory:
    """A worker as it was last observed, and its figures over time."""

    last: WorkerObserved
    seen_s: float
    gone: bool = False
    series: Series = field(default_factory=lambda: Series(WORKER_FIELDS))


class History:
    """Takes observations and decisions. `began_s` is the time at which the clock of the observations was zero, such as
    a time of Unix; without it, times are those of the observations."""

    def __init__(self, began_s: float = 0.0, bounds: Bounds | None = None) -> None:
        self.began_s = began_s
        self.bounds = bounds or Bounds()
        self.jobs: dict[str, JobHistory] = {}
        self.workers: dict[str, WorkerHistory] = {}
        self.decisions: OrderedDict[int, DecisionRecord] = OrderedDict()
        self.observation = Observation()
        self.load = Load({})
        self.version = 0
        """Changes with every row."""
        self.decided = 0
        """Changes with every record."""
        self.decided_by: Counter[str] = Counter()
        """How many decisions each controller has made, also those that are no longer kept."""
        self._changed: dict[int, int] = {}
        self._last_number = -1
        self._next_ns = 0
        self._left_out: Observation | None = None

    # What comes in.

    def observe(self, observation: Observation) -> None:
        """Takes an observation; of several in a second, one is kept."""
        ended = self._ended_by(observation)
        self.observation = observation
        if observation.time_ns < self._next_ns and not ended:
            self._left_out = observation
        else:
            self._keep(observation)

    def catch_up(self, now_ns: int) -> None:
        """Keeps the last observation if it was left out, and none has followed: nothing has happened since, and what is
        shown is to be how it came out."""
        if self._left_out is not None and now_ns >= self._next_ns:
            self._keep(self._left_out)

    def _keep(self, observation: Observation) -> None:
        self._left_out = None
        self._next_ns = observation.time_ns + int(FINE_S * JITTER * 1e9)
        self.load = load_of(observation)
        self.version += 1
        time_s = self.seconds(observation.time_ns)
        jobs = _all_jobs(observation)
        for name, job in jobs.items():
            self._keep_job(name, job, time_s)
        for name, entities in observation.entities.items():
            self._keep_entities(name, entities, time_s)
        for name, worker in observation.workers.items():
            self._keep_worker(name, worker, time_s)
        for name, known in self.jobs.items():
            known.gone = name not in jobs
        for name, member in self.workers.items():
            member.gone = name not in observation.workers

    def decide(self, record: DecisionRecord) -> None:
        """Takes the record of a decision; a later one of the same number replaces it."""
        self.decided += 1
        if record.number > self._last_number:
            self._last_number = record.number
            self.decided_by[record.controller] += 1
        elif record.number not in self.decisions:
            return  # It is no longer kept.
        self.decisions[record.number] = record
        self._changed[record.number] = self.decided
        while len(self.decisions) > self.bounds.decisions:
            number, _ = self.decisions.popitem(last=False)
            del self._changed[number]

    def _ended_by(self, observation: Observation) -> bool:
        """Whether a job has another status than before: what it was at its end is kept even within a second."""
        return any(
            name not in self.jobs or self.jobs[name].last.status != job.status
            for name, job in _all_jobs(observation).items()
        )

    # What is kept.

    def _keep_job(self, name: str, job: JobObserved, time_s: float) -> None:
        congestion = congestion_of(job, self.load)
        known = self.jobs.get(name)
        if known is None:
            if not self._has_room_for_job():
                return
            first = Moment(job, congestion, time_s, 0.0)
            known = self.jobs[name] = JobHistory(job, time_s, time_s, congestion, first)
        if known.last.attempt != job.attempt:
            known.latency = None  # Another attempt counts from zero.
        total = job_latency(job)
        since = latency_between(total, known.latency)
        known.last, known.seen_s, known.congestion, known.latency = job, time_s, congestion, total
        row = job_row(job, since)
        known.rows += 1
        known.held_back.update({(cause.job, cause.function) for cause in congestion.causes})
        if row[0] >= known.busiest.rate or job.attempt != known.busiest.job.attempt:
            known.busiest = Moment(job, congestion, time_s, row[0])
        known.series.add(time_s, row)
        known.latencies.add(time_s, latency_row(since))
        for each, function in job.functions.items():
            series = known.functions.get(each) or self._new_function(known, each)
            if series is not None:
                series.add(time_s, function_row(job, function))
        for ended in job.checkpoints.ended if job.checkpoints is not None else ():
            known.checkpoints[ended.number, ended.ended_ns] = ended
            if len(known.checkpoints) > self.bounds.checkpoints:
                known.checkpoints.popitem(last=False)

    def _keep_entities(self, name: str, entities: EntitiesObserved, time_s: float) -> None:
        known = self.jobs.get(name)
        if known is None:
            return  # There was no room for the job.
        if known.entities is None:
            known.entities = EntityHistory(entities)
        known.entities.keep(entities, time_s)

    def _has_room_for_job(self) -> bool:
        if len(self.jobs) < self.bounds.jobs:
            return True
        gone = [name for name, known in self.jobs.items() if known.gone]
        if gone:
            del self.jobs[min(gone, key=lambda name: self.jobs[name].seen_s)]
        return bool(gone)

    def _new_function(self, job: JobHistory, name: str) -> Series | None:
        if sum(len(each.functions) for each in self.jobs.values()) >= self.bounds.functions:
            return None
        return job.functions.setdefault(name, Series(FUNCTION_FIELDS))

    def _keep_worker(self, name: str, worker: WorkerObserved, time_s: float) -> None:
        known = self.workers.get(name)
        if known is None:
            gone = [each for each, other in self.workers.items() if other.gone]
            if len(self.workers) >= self.bounds.workers:
                if not gone:
                    return
                del self.workers[min(gone, key=lambda each: self.workers[each].seen_s)]
            known = self.workers[name] = WorkerHistory(worker, time_s)
        known.last, known.seen_s = worker, time_s
        known.series.add(time_s, worker_row(worker))

    # What is asked.

    def seconds(self, time_ns: int) -> float:
        """Returns a time of the observations in seconds since the beginning, or of Unix."""
        return self.began_s + time_ns / 1e9

    def is_quiet(self, now_ns: int) -> bool:
        """Whether nothing was observed for a while, so that rates are zero."""
        return now_ns - self.observation.time_ns > QUIET_NS

    def decided_since(self, decided: int) -> list[DecisionRecord]:
        """Returns the records that have changed since then, in their order."""
        return [record for number, record in self.decisions.items() if self._changed[number] > decided]

    @property
    def kept_s(self) -> float:
        """For how long figures are kept."""
        return COARSE_KEPT * COARSE_S


def _all_jobs(observation: Observation) -> dict[str, JobObserved]:
    """Returns the jobs of an observation, also those that have entities and no streams."""
    entities = observation.entities.items()
    return {name: without_streams(name, each) for name, each in entities} | dict(observation.jobs)
