"""Henge's experiment (thesis 3.5): many jobs with objectives, diurnal loads, and a cluster that the peak overloads.

Five jobs follow one trace and five another, for 48 hours of 10 minutes each. The cluster has units: a worker that runs
one instance. How a job stands with so many units of each function under so much load is measured by a run of the
production machines (`dataflows.py`), once for each such case: runs are deterministic, and jobs share no worker. So a
decision takes effect by starting again with its units (`restarting.py`), and costs its job `ACTION_S` without results.
The controller is the production one, and sees the juice and the loads that production code finds in the observations of
these runs.

The traces of the thesis (SDSC-HTTP, EPA-HTTP) are not here: two diurnal curves with a peak each and noise stand in for
them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stretto.api.slo import SLO, objective
from stretto.elasticity.decisions import GiveCapacity, TakeCapacity
from stretto.elasticity.intents import FunctionStanding, IntentView, JobStanding
from stretto.elasticity.measured_rates import operator_name, topology_of
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.transfers import Goal
from stretto.elasticity.utility_controller import IntentMachine
from stretto.simulator.experiments.dataflows import BEGINS_NS, JOB, ROWS, SECOND_NS, OperatorModel, dataflow, run_phase

FLOW = dataflow(
    OperatorModel("spout", 0.1, ("parse",)),
    OperatorModel("parse", 4.0, ("join",)),
    OperatorModel("join", 8.0, ("output",)),
    OperatorModel("output", 2.0),
)
FUNCTIONS = ("parse", "join", "output")
LEAST = (1, 1, 1)
BATCHES_MAX = 300.0
"""Batches per second of each job at the peak of a day."""
LEVELS = 20
"""Loads are rounded up to one of so many."""
PHASE_S, WARM_S = 4.0, 1.0
STEP_S = 10
HOUR_S = 600
HOURS = 48
ACTION_S = 0.5
"""What a change costs its job: the longest gap that a handover may have."""
UNITS_PER_JOB = 5.0
"""At the peak a job needs 6 to meet its objective."""
TARGET = 0.75

Done = Callable[[], None]
Config = tuple[int, ...]
"""The units of each function."""


@dataclass(frozen=True)
class Tenant:
    """A job: its objective, and which of the two traces it follows."""

    name: str
    slo: SLO
    trace: int


def tenants(count: int) -> list[Tenant]:
    """Returns jobs with mixed objectives: latency as in the thesis (60 ms, 35), throughput, hybrids, other shapes."""
    kinds = (
        objective(latency="60 ms", priority=35),
        objective(latency="60 ms", priority=35),
        objective(throughput=0.95, priority=35),
        objective(latency="120 ms", throughput=0.9, priority=70),
        objective(latency="60 ms", priority=15, utility="linear"),
    )
    return [Tenant(f"job{place:02}", kinds[place % len(kinds)], place // len(kinds) % 2) for place in range(count)]


def levels(hours: int, seed: int) -> list[list[int]]:
    """Returns the level of each trace in each step: a low night, a peak in the day, and noise from hour to hour."""
    found = []
    for trace, (peak_hour, width) in enumerate(((13.3, 4.5), (15.0, 3.0))):
        chance = random.Random(1_000 * seed + trace)
        noise = [chance.uniform(-0.08, 0.08) for _ in range(hours + 2)]
        steps = []
        for step in range(hours * HOUR_S // STEP_S):
            hour = step * STEP_S / HOUR_S
            away = min(abs(hour % 24 - peak_hour), 24 - abs(hour % 24 - peak_hour))
            part = hour - int(hour)
            wobble = noise[int(hour)] * (1 - part) + noise[int(hour) + 1] * part
            share = 0.2 + 0.75 * math.exp(-((away / width) ** 2) / 2) + wobble
            steps.append(max(1, min(LEVELS, math.ceil(share * LEVELS))))
        found.append(steps)
    return found


@dataclass(frozen=True)
class Case:
    """How a job stands with some units under some load: latency by percentile, juice, and the loads of functions."""

    latency_ms: float
    juice: float
    loads: tuple[float, ...]
    rows_per_s: float

    def standing(self, tenant: Tenant, config: Config) -> JobStanding:
        """Returns it as the controller sees it."""
        functions = {
            name: FunctionStanding(name, units, load)
            for name, units, load in zip(FUNCTIONS, config, self.loads, strict=True)
        }
        return JobStanding(tenant.name, tenant.slo, self.latency_ms, self.juice, functions, self.rows_per_s)

    def utility(self, slo: SLO) -> float:
        return slo.utility(self.latency_ms, self.juice)


class Cases:
    """All cases that were needed, each measured once."""

    def __init__(self, seed: int, done: Done) -> None:
        self._seed = seed
        self._done = done
        self.known: dict[tuple[int, Config], Case] = {}

    def at(self, level: int, config: Config) -> Case:
        """Returns a case; runs it if it is not known yet."""
        found = self.known.get((level, config))
        if found is None:
            found = self.known[level, config] = self._measured(level, config)
            self._done()
        return found

    def _measured(self, level: int, config: Config) -> Case:
        rate = BATCHES_MAX * level / LEVELS

        def pace(partition: int, instances: int) -> list[int]:
            chance = random.Random(10_000 * self._seed + level)
            times, now = [], 0.0
            while now < PHASE_S:
                now += chance.expovariate(rate / instances)
                times.append(BEGINS_NS + int(now * SECOND_NS))
            return times

        homes: dict[str, tuple[str, ...]] = {"spout": ("w0~1",)}
        free = 1
        for name, units in zip(FUNCTIONS, config, strict=True):
            homes[name] = tuple(f"w{free + place}~1" for place in range(units))
            free += units
        phase = run_phase(FLOW, homes, free, PHASE_S, self._seed, pace, WARM_S)
        observed = phase.observation.jobs[JOB]
        operators = topology_of([observed], phase.observation.workers)[0].operators
        late = float(np.percentile(phase.latencies_ms, 99)) if phase.latencies_ms else PHASE_S * 1e3
        loads = tuple(operators[operator_name(JOB, name)].congestion for name in FUNCTIONS)
        return Case(late, observed.juice or 0.0, loads, rate * ROWS)


def split(units: int) -> Config:
    """Returns the best way to divide units among the functions of a job: each to the fullest."""
    found = list(LEAST)
    costs = [FLOW[name].cost_ms for name in FUNCTIONS]
    for _ in range(units - sum(LEAST)):
        fullest = max(range(len(found)), key=lambda place: costs[place] / found[place])
        found[fullest] += 1
    return tuple(found)


def needed(level: int) -> int:
    """Returns the least number of units with which no function is fuller than the target."""
    rate = BATCHES_MAX * level / LEVELS
    return sum(max(1, math.ceil(rate * FLOW[name].cost_ms / 1e3 / TARGET)) for name in FUNCTIONS)


@dataclass
class Run:
    """One way to give units to jobs: the utility by the greatest possible in each step, objectives that were met, and
    what was done."""

    shares: list[float] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    """The least utility of any job, by the greatest that it can have."""
    met: int = 0
    looked: int = 0
    decisions: int = 0
    steps: dict[str, int] = field(default_factory=dict)
    action_s: float = 0.0
    records: list[DecisionRecord] = field(default_factory=list)

    def summary(self, jobs: int) -> dict[str, Any]:
        """Returns the figures that are compared, in percent."""
        percentiles = {f"p{q}": round(100 * float(np.percentile(self.shares, q)), 1) for q in (15, 50, 90)}
        return {
            "utility": round(100 * float(np.mean(self.shares)), 2),
            **percentiles,
            "least": round(100 * float(np.mean(self.least)), 2) if self.least else None,
            "objectives_met": round(100 * self.met / max(1, self.looked), 2),
            "decisions": self.decisions,
            "steps": dict(self.steps),
            "time_in_actions": round(100 * self.action_s / (jobs * len(self.shares) * STEP_S), 3),
        }


class Experiment:
    """All ways on the same loads."""

    def __init__(self, jobs: int, units_per_job: float, hours: int, seed: int, done: Done) -> None:
        self.jobs = tenants(jobs)
        self.levels = levels(hours, seed)
        self.units = int(units_per_job * jobs)
        self.cases = Cases(seed, done)
        self.total_max = sum(job.slo.priority for job in self.jobs)

    @property
    def steps(self) -> int:
        return len(self.levels[0])

    def level(self, job: Tenant, step: int) -> int:
        return self.levels[job.trace][step]

    def fixed(self, configs: Mapping[str, Config]) -> Run:
        """Runs jobs with units that never change."""
        run = Run()
        for step in range(self.steps):
            self._note(run, step, configs, {})
        return run

    def equal(self) -> dict[str, Config]:
        """Returns the same number of units for all."""
        return {job.name: split(self.units // len(self.jobs)) for job in self.jobs}

    def first_come(self) -> dict[str, Config]:
        """Returns what each job needs at its peak, in the order in which they came, while there are units."""
        left = self.units - sum(LEAST) * len(self.jobs)
        found = {}
        for job in self.jobs:
            more = min(left, needed(max(self.levels[job.trace])) - sum(LEAST))
            found[job.name] = split(sum(LEAST) + more)
            left -= more
        return found

    def manual(self) -> dict[str, Config]:
        """Returns what each job needs at the median of its load, as somebody who knows it would configure it."""
        return {job.name: split(needed(int(np.median(self.levels[job.trace])))) for job in self.jobs}

    def controlled(self, goal: Goal) -> Run:
        """Runs jobs that begin with the least, and the controller."""
        machine, run = IntentMachine(goal=goal), Run()
        configs: dict[str, Config] = {job.name: LEAST for job in self.jobs}
        changed: dict[str, float] = {}
        for step in range(self.steps):
            view = self._note(run, step, configs, changed)
            records = machine.decide(view, (step + 1) * STEP_S * SECOND_NS)
            changed = self._carry_out(configs, records)
            run.records += records
            run.decisions += len(records)
            if records:
                kind = machine.last.value
                run.steps[kind] = run.steps.get(kind, 0) + 1
        return run

    def _carry_out(self, configs: dict[str, Config], records: Sequence[DecisionRecord]) -> dict[str, float]:
        """Changes units as decided; returns how long each job that changes has no results."""
        for record in records:
            units = list(configs[record.job])
            decision = record.decision
            assert isinstance(decision, GiveCapacity | TakeCapacity)
            sign = 1 if isinstance(decision, GiveCapacity) else -1
            units[FUNCTIONS.index(record.function)] += sign * decision.units
            configs[record.job] = tuple(units)
        return {record.job: ACTION_S for record in records}

    def _note(self, run: Run, step: int, configs: Mapping[str, Config], pauses: Mapping[str, float]) -> IntentView:
        """Notes one step, and returns it as the controller sees it."""
        total = 0.0
        standing = {}
        for job in self.jobs:
            case = self.cases.at(self.level(job, step), configs[job.name])
            stands = standing[job.name] = case.standing(job, configs[job.name])
            pause = pauses.get(job.name, 0.0)
            total += stands.utility * (1 - pause / STEP_S)
            run.action_s += pause
            run.met += (stands.attained or 1.0) >= 1
            run.looked += 1
        run.shares.append(total / self.total_max)
        run.least.append(min(stands.ratio for stands in standing.values()))
        return IntentView(standing, self.units - sum(sum(config) for config in configs.values()))

    def clairvoyant(self) -> Run:
        """Returns the best that could be had in each step by whoever knows all loads and the outcome of all cases, and
        for whom changes are free: a bound. Units are divided among jobs by dynamic programming."""
        run, known = Run(), {}
        for step in range(self.steps):
            key = tuple(trace[step] for trace in self.levels)
            if key not in known:
                known[key] = self._best(step)
            share, met = known[key]
            run.shares.append(share)
            run.met += met
            run.looked += len(self.jobs)
        return run

    def _best(self, step: int) -> tuple[float, int]:
        least = sum(LEAST)
        most = self.units - least * (len(self.jobs) - 1)
        best = {0: (0.0, 0)}
        for job in self.jobs:
            values = self._values(job, self.level(job, step), most)
            then: dict[int, tuple[float, int]] = {}
            for used, (value, met) in best.items():
                for units, (worth, is_met) in values.items():
                    if used + units <= self.units:
                        here = (value + worth, met + is_met)
                        if here > then.get(used + units, (-1.0, 0)):
                            then[used + units] = here
            best = then
        value, met = max(best.values())
        return value / self.total_max, met

    def _values(self, job: Tenant, level: int, most: int) -> dict[int, tuple[float, int]]:
        """Returns the utility of a job by its units, as long as more of them help: of the best division, or of another
        one that was tried."""
        found: dict[int, tuple[float, int]] = {}
        for units in range(sum(LEAST), most + 1):
            self.cases.at(level, split(units))
            tried = [case for (at, config), case in self.cases.known.items() if at == level and sum(config) == units]
            worth = max((case.utility(job.slo), int((case.standing(job, LEAST).attained or 1) >= 1)) for case in tried)
            found[units] = worth
            if worth[1]:
                break
        return found


THESIS: dict[str, Any] = {
    "henge": {"utility": 88.12, "p15": 74.9, "p50": 99.1, "p90": 100.0, "time_in_actions": 0.49},
    "manual": {"utility": 87.77, "p15": 66.5, "p50": 99.8, "p90": 100.0},
    "default_storm": {"utility": 4.56, "p50": 0.0006, "p90": 30.9},
}


@dataclass
class HengeFigures:
    """All ways side by side, the thesis' figures, what does not hold, and some records of the controller."""

    jobs: int
    units: int
    hours: int
    measured_cases: int
    ours: dict[str, dict[str, Any]]
    points_below_bound: float
    thesis: dict[str, Any]
    violations: list[str]
    failed_seeds: list[int]
    records: list[dict[str, Any]]


def henge_figures(
    jobs: int, units_per_job: float, hours: int, seed: int, records_shown: int, done: Done
) -> HengeFigures:
    """Returns the figures of all ways. The bound is computed last, since it may use what others have tried."""
    experiment = Experiment(jobs, units_per_job, hours, seed, done)
    runs = {
        "henge": experiment.controlled(Goal.TOTAL),
        "henge_fair": experiment.controlled(Goal.FAIR),
        "untouched": experiment.fixed({job.name: LEAST for job in experiment.jobs}),
        "first_come": experiment.fixed(experiment.first_come()),
        "equal_shares": experiment.fixed(experiment.equal()),
        "manual": experiment.fixed(experiment.manual()),
        "clairvoyant": experiment.clairvoyant(),
    }
    ours = {name: run.summary(jobs) for name, run in runs.items()}
    below = round(ours["clairvoyant"]["utility"] - ours["henge"]["utility"], 2)
    violations = []
    if below > 5:
        violations.append(f"total utility is {below} points below the clairvoyant bound, not within 5")
    if ours["henge"]["time_in_actions"] >= 0.5:
        violations.append(f"{ours['henge']['time_in_actions']} percent of the time went into actions, not under 0.5")
    shown = [record.plain() for record in runs["henge"].records[:records_shown]]
    return HengeFigures(
        jobs, experiment.units, hours, len(experiment.cases.known), ours, below, THESIS, violations,
        [seed] if violations else [], shown,
    )  # fmt: skip
