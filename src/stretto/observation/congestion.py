"""Which functions hold a job back, and which only suffer from them. Pure.

A function that is too slow is not alone in looking bad: what feeds it has no credits and waits, what feeds that waits
too, and the source falls behind. So a function that waits for credits is a **victim**. The **cause** is at the end of
such a chain: what feeds it waits for its credits, and it waits for nobody. That it is slow is its own doing if it is
what its workers are busy with. If they are busy with something else, that is named instead.

A source yields to what it feeds on its own worker, so a job that is on one worker has no empty channels: there the
source falls behind while the worker is full. Then the cause is what takes most of that worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from stretto.observation.model import FunctionObserved, JobObserved, Observation

WAITS_MIN = 0.1
"""A function that waited for credits for less than this share of the interval does not count as held back."""
FULL_MIN = 0.85
"""A worker that is busy for at least this share has no room."""
BEHIND_MIN = 0.9
"""A source that reads less than this share of what arrives falls behind."""


class Pressure(Enum):
    """What is the matter with a function."""

    NONE = "none"
    BUSY = "busy"
    """Its workers are full, and nothing waits for it."""
    VICTIM = "victim"
    """It is held back by what it feeds, or by what else is on its worker."""
    CAUSE = "cause"
    """It holds others back."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A function that holds a job back. `job` is another one if that takes the worker. `victims` are the functions of
    the job that are held back, those nearest to the cause first. `text` says it in words."""

    job: str
    function: str
    victims: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Congestion:
    """The pressure on each function of a job, and the causes; without a cause there is no congestion."""

    pressures: Mapping[str, Pressure]
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """How busy each worker is, and with what: shares by job and function. Computed once for all jobs."""

    of_worker: Mapping[str, Mapping[tuple[str, str], float]]

    def full(self, worker: str) -> bool:
        return sum(self.of_worker.get(worker, {}).values()) >= FULL_MIN

    def greatest(self, workers: set[str]) -> tuple[str, str, float]:
        """Returns the job and the function that take most of these workers, and the share of them that it takes."""
        total: dict[tuple[str, str], float] = {}
        for worker in sorted(workers):
            for place, share in self.of_worker.get(worker, {}).items():
                total[place] = total.get(place, 0.0) + share
        (job, function), share = max(total.items(), key=lambda item: (item[1], item[0]), default=(("", ""), 0.0))
        return job, function, share / max(1, len(workers))


def load_of(observation: Observation) -> Load:
    """Returns what the workers of a cluster are busy with."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for job in observation.jobs.values():
        for name, function in job.functions.items():
            for actor in function.actors:
                here = found.setdefault(actor.member, {})
                here[job.name, name] = here.get((job.name, name), 0.0) + actor.busy_share
    return Load(found)


def congestion_of(job: JobObserved, load: Load) -> Congestion:
    """Returns what holds a job back, and what is held back."""
    waits = {name: function.waits for name, function in job.functions.items()}
    victims = {name for name in waits if sum(waits[name].values()) >= WAITS_MIN}
    ends = {
        end for name in victims for end, share in waits[name].items() if share >= WAITS_MIN / 2 and end not in victims
    }
    causes = [_cause_of_end(job, load, name, victims) for name in sorted(ends & job.functions.keys())]
    if not causes:
        behind = {name for name, function in job.functions.items() if _is_behind(function, load)}
        causes = list(_causes_of_sources(job, load, behind))
        victims |= behind
    own = {cause.function for cause in causes if cause.job == job.name}
    pressures = {name: _pressure(name, function, own, victims, load) for name, function in job.functions.items()}
    return Congestion(pressures, tuple(causes))


def _pressure(name: str, function: FunctionObserved, causes: set[str], victims: set[str], load: Load) -> Pressure:
    if name in causes:
        return Pressure.CAUSE
    if name in victims:
        return Pressure.VICTIM
    mine = load.greatest(_workers(function))[1] == name
    return Pressure.BUSY if mine and any(load.full(worker) for worker in _workers(function)) else Pressure.NONE


def _cause_of_end(job: JobObserved, load: Load, name: str, victims: set[str]) -> Cause:
    """The function at the end of a chain of waiting ones is the cause, unless something else takes its workers."""
    function = job.functions[name]
    held = tuple(_above(job, name, victims))
    workers = _workers(function)
    own = function.busy_share / max(1, len(workers))
    other_job, other, taken = load.greatest(workers)
    is_own_doing = (other_job, other) == (job.name, name) or taken <= 2 * own
    if is_own_doing or not all(load.full(worker) for worker in workers):
        text = (
            f"{', '.join(held)} wait{'s' * (len(held) == 1)} for {name}, which is busy {own:.0%} of its workers' time"
        )
        return Cause(job.name, name, held, text)
    text = f"{name} gets {own:.0%} of its workers' time, because {_named(other, other_job, job)} takes {taken:.0%}"
    return Cause(other_job, other, (name, *held), text)


def _causes_of_sources(job: JobObserved, load: Load, behind: set[str]) -> Iterator[Cause]:
    """Sources that fall behind on a full worker wait for their turn, not for credits."""
    seen = set()
    for name in sorted(behind):
        other_job, other, taken = load.greatest(_workers(job.functions[name]))
        if (other_job, other) not in seen:
            seen.add((other_job, other))
            held = () if (other_job, other) == (job.name, name) else (name,)
            what = _named(other, other_job, job)
            text = f"{name} falls behind: its workers are full, and {what} takes {taken:.0%} of their time"
            yield Cause(other_job, other, held, text)


def _is_behind(function: FunctionObserved, load: Load) -> bool:
    if function.shape.feeds or not function.actors:
        return False
    falls = function.input_rate < BEHIND_MIN * function.arrival_rate
    return falls and any(load.full(worker) for worker in _workers(function))


def _above(job: JobObserved, name: str, victims: set[str]) -> Iterator[str]:
    """Yields the victims from which rows come to a function, the nearest first."""
    seen, front = {name}, [name]
    while front:
        feeders = [feed.sender for each in front for feed in job.functions[each].shape.feeds]
        front = sorted({feeder for feeder in feeders if feeder in victims and feeder not in seen})
        seen.update(front)
        yield from front


def _workers(function: FunctionObserved) -> set[str]:
    return {actor.member for actor in function.actors}


def _named(function: str, owner: str, job: JobObserved) -> str:
    return function if owner == job.name else f"{function} of job {owner}"
