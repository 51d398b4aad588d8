"""How jobs stand to their objectives, from two observations: what controllers of whole jobs decide by, and what the
effects of their decisions are measured by."""

from __future__ import annotations

from collections.abc import Mapping

from stretto.actors.metrics import LatencySketch
from stretto.api.slo import SLO
from stretto.elasticity.capacity import Means, lessees_possible, means_of
from stretto.elasticity.intents import FunctionStanding, IntentView, JobStanding
from stretto.elasticity.measured_rates import operator_name, topology_of
from stretto.elasticity.view import RUNNING
from stretto.observation.longer import observed_since
from stretto.observation.model import FunctionObserved, JobObserved, Observation, WorkerObserved
from stretto.protocol.membership import MemberRole


def standings_since(observed: Observation, before: Observation) -> IntentView:
    """Returns how jobs stand since an earlier observation: those that run in the same attempt since then."""
    since = observed_since(observed, before)
    workers = {
        name: worker
        for name, worker in since.workers.items()
        if worker.member.role is MemberRole.WORKER and not worker.parked
    }
    standing = {
        name: standing_of(job, workers)
        for name, job in sorted(since.jobs.items())
        if job.status == RUNNING and name in before.jobs and before.jobs[name].attempt == job.attempt
    }
    idle = sum(max(0.0, worker.cores - worker.busy_share) for worker in workers.values())
    return IntentView(standing, int(idle))


def standing_of(job: JobObserved, workers: Mapping[str, WorkerObserved]) -> JobStanding:
    """Returns how a job stands in the interval in which it was observed."""
    sketch = LatencySketch()
    for observed in job.functions.values():
        if observed.actors and (counted := observed.interval.latency) is not None:
            sketch.merge(counted)
    slo = job.objective or SLO()
    operators = topology_of([job], workers)[0].operators
    functions = {}
    for name, observed in job.functions.items():
        operator = operators[operator_name(job.name, name)]
        means = means_of(observed.shape)
        units = _instances(observed, len(workers)) if means is Means.LESSEES else operator.instances
        functions[name] = FunctionStanding(name, units, operator.congestion, means is not Means.NONE)
    # What arrives is the load, not what is read of it: that also depends on what the job was given.
    rows = sum(observed.arrival_rate for observed in job.functions.values() if not observed.shape.feeds)
    latency_ms = sketch.quantile(slo.percentile / 100)
    return JobStanding(job.name, slo, latency_ms, job.juice, functions, rows, job.is_stuck)


def _instances(observed: FunctionObserved, workers: int) -> int:
    """Returns how many instances a spread function may have. How many it has now depends on what was sent where, and
    changes from barrier to barrier."""
    return observed.shape.parallelism * (1 + lessees_possible(observed.lessees, workers))
