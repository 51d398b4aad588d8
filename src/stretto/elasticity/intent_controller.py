"""Henge as a controller among others: what it sees of an observation, every ten seconds.

How a job stands is measured over the whole time since the last look, from the difference of totals: the interval of one
observation is a fraction of a second, too short for a percentile.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.actors.juice import juice
from stretto.actors.metrics import FunctionMetrics, LatencySketch, difference
from stretto.api.slo import SLO
from stretto.elasticity.capacity import Means, means_of
from stretto.elasticity.controller import Controller
from stretto.elasticity.intents import FunctionStanding, IntentView, JobStanding
from stretto.elasticity.measured_rates import operator_name, topology_of
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.transfers import Goal
from stretto.elasticity.utility_controller import IntentMachine
from stretto.elasticity.view import RUNNING, ElasticView
from stretto.observation.model import JobObserved, Observation, WorkerObserved
from stretto.protocol.membership import MemberRole

EVERY_NS = 10_000_000_000

Totals = Mapping[str, FunctionMetrics]


class IntentController(Controller):
    """Moves capacity between jobs so that the total of their utilities rises (thesis 3.2)."""

    name = "henge"
    every_ns = EVERY_NS
    effect_ns = 2 * EVERY_NS
    goal = Goal.TOTAL

    def __init__(self) -> None:
        self._machine = IntentMachine(self.name, self.goal)
        self._before: dict[str, tuple[str, Totals]] = {}

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        seen = self._seen(view.observed)
        return self._machine.decide(seen, now_ns) if seen is not None else []

    def _seen(self, observed: Observation) -> IntentView | None:
        """Returns how jobs stand since the last look; None at the first one."""
        jobs = {name: job for name, job in sorted(observed.jobs.items()) if job.status == RUNNING}
        workers = {
            name: worker
            for name, worker in observed.workers.items()
            if worker.member.role is MemberRole.WORKER and not worker.parked
        }
        before = self._before
        self._before = {name: (job.attempt, job.totals) for name, job in jobs.items()}
        standing = {
            name: standing_of(job, before[name][1], workers)
            for name, job in jobs.items()
            if name in before and before[name][0] == job.attempt
        }
        idle = sum(max(0.0, worker.cores - worker.busy_share) for worker in workers.values())
        return IntentView(standing, int(idle)) if standing else None


class FairIntentController(IntentController):
    """Likewise, so that the least utility of any job rises."""

    name = "henge-fair"
    goal = Goal.FAIR


def standing_of(job: JobObserved, before: Totals, workers: Mapping[str, WorkerObserved]) -> JobStanding:
    """Returns how a job stands by what was counted since an earlier reading of its totals."""
    since = {name: difference(total, before[name]) if name in before else total for name, total in job.totals.items()}
    sketch = LatencySketch()
    for counted in since.values():
        if counted.latency is not None:
            sketch.merge(counted.latency)
    slo = job.objective or SLO()
    sources = {name for name, function in job.functions.items() if not function.shape.feeds}
    operators = topology_of([job], workers)[0].operators
    functions = {}
    for name, function in job.functions.items():
        operator = operators[operator_name(job.name, name)]
        changes = means_of(function.shape) is not Means.NONE
        functions[name] = FunctionStanding(name, operator.instances, operator.congestion, changes)
    rows = sum(job.functions[name].output_rate for name in sources)
    return JobStanding(job.name, slo, sketch.quantile(slo.percentile / 100), juice(since, sources), functions, rows)
