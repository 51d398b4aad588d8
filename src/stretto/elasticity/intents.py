"""How jobs stand to their objectives, and how they would stand with more or less capacity (thesis 3.2 and 3.3).

The prediction knows little, as Henge does: what a function is sent by what it can process, its load, is in inverse
proportion to its units. Juice is what the fullest function lets pass. The latency of a job is that of its functions by
the work that each does, stretched as in M/M/1 by the load; what was measured now is scaled by how that changes. It
need only order what could be done: after each step the effect is measured, and a bad one reverted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from stretto.api.slo import SLO

FULL = 0.95
"""Above this load, the stretch of M/M/1 grows in a straight line, so that an overloaded function has one too."""

Units = Mapping[tuple[str, str], int]
"""The units of functions, by job and name."""


@dataclass(frozen=True, slots=True)
class FunctionStanding:
    """A function: its units, its load (what it is sent by what it can process with them), and whether it can have
    more or less."""

    name: str
    units: int
    load: float
    changes: bool = True

    def with_units(self, units: int) -> FunctionStanding:
        """Returns it with other units: the same work for others."""
        return replace(self, units=units, load=self.load * self.units / units)

    @property
    def stretch(self) -> float:
        """Its time by its time on its own, weighted with its work."""
        work = self.load * self.units
        if self.load < FULL:
            return work / (1 - self.load)
        return work / (1 - FULL) * (1 + (self.load - FULL) / (1 - FULL))


@dataclass(frozen=True)
class JobStanding:
    """A job: its objective, its latency at the objective's percentile, its juice, its functions, the rows per second
    that arrive for it, and whether input waits at some function that processes none of it."""

    name: str
    slo: SLO
    latency_ms: float | None
    juice: float | None
    functions: Mapping[str, FunctionStanding] = field(default_factory=dict)
    rows_per_s: float = 0.0
    is_stuck: bool = False

    @cached_property
    def attained(self) -> float | None:
        """How much of its objective is attained; None where nothing is promised or known. One that is stuck and
        has no results attains nothing, though nothing can be measured."""
        return self.slo.attained(self.latency_ms, self.juice, self.is_stuck)

    @cached_property
    def utility(self) -> float:
        return self.slo.worth(self.attained)

    @property
    def ratio(self) -> float:
        """Its utility by the greatest that it can have."""
        return self.utility / self.slo.priority

    def with_units(self, changes: Mapping[str, int]) -> JobStanding:
        """Returns how it would stand with other units of some functions."""
        functions = {
            name: each.with_units(changes[name]) if name in changes else each for name, each in self.functions.items()
        }
        latency_ms, juice = self.latency_ms, self.juice
        if latency_ms is not None:
            now, then = (sum(each.stretch for each in some.values()) for some in (self.functions, functions))
            latency_ms *= then / now if now > 0 else 1.0
        if juice is not None:
            now, then = (_passes(some) for some in (self.functions, functions))
            juice = min(1.0, juice * then / now)
        return replace(self, latency_ms=latency_ms, juice=juice, functions=functions)


def _passes(functions: Mapping[str, FunctionStanding]) -> float:
    """Returns the share of the input that the fullest function lets pass."""
    return 1 / max(1.0, max((each.load for each in functions.values()), default=1.0))


@dataclass(frozen=True)
class IntentView:
    """All jobs, and how many units nobody has."""

    jobs: Mapping[str, JobStanding] = field(default_factory=dict)
    spare: int = 0

    @property
    def units(self) -> dict[tuple[str, str], int]:
        """The units of all functions that can change."""
        return {
            (job.name, name): each.units
            for job in self.jobs.values()
            for name, each in job.functions.items()
            if each.changes
        }

    @property
    def total(self) -> float:
        """The utility of all jobs."""
        return sum(job.utility for job in self.jobs.values())

    @property
    def total_max(self) -> float:
        return sum(job.slo.priority for job in self.jobs.values())

    @property
    def least(self) -> float:
        """The least utility of any job, by the greatest that it can have."""
        return min((job.ratio for job in self.jobs.values()), default=1.0)

    @property
    def rows_per_s(self) -> float:
        return sum(job.rows_per_s for job in self.jobs.values())

    def values_of(self, name: str, function: str) -> dict[str, float]:
        """Returns what is seen of a function: how its job stands and all jobs together, and what it has."""
        job = self.jobs[name]
        found = {
            "utility": job.utility,
            "utility_max": job.slo.priority,
            "total": self.total / self.total_max if self.total_max else 1.0,
            "least": self.least,
            "load": job.functions[function].load,
            "units": float(job.functions[function].units),
            "spare": float(self.spare),
        }
        return found if job.attained is None else {**found, "attained": job.attained}

    def with_units(self, changes: Units) -> IntentView:
        """Returns how all would stand with other units; those that are freed or used are spare or not."""
        jobs = dict(self.jobs)
        spare = self.spare
        for name, job in self.jobs.items():
            own = {function: units for (of, function), units in changes.items() if of == name}
            if own:
                jobs[name] = job.with_units(own)
                spare -= sum(units - job.functions[function].units for function, units in own.items())
        return IntentView(jobs, spare)
