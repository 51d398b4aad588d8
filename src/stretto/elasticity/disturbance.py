"""How much long runs disturb jobs: those of others that outlast a job's objective, and its own beside others."""

from __future__ import annotations

from stretto.elasticity.view import ElasticView
from stretto.observation.model import LongRunsObserved


def outlasting(view: ElasticView, job: str) -> list[LongRunsObserved]:
    """Returns the runs of other jobs, on any worker, that are longer than the objective of a job."""
    objective_ns = view.jobs[job].objective_ns if job in view.jobs else None
    if objective_ns is None:
        return []
    return [each for each in view.observed.long_runs if each.job != job and each.run_ns > objective_ns]


def disturbing(view: ElasticView, job: str) -> list[LongRunsObserved]:
    """Returns those of them that are on the workers that the job is at home on."""
    runs = outlasting(view, job)
    homes = homes_of(view, job) if runs else set()
    return [each for each in runs if each.member in homes]


def disturbance_of(view: ElasticView, job: str) -> dict[str, float] | None:
    """Returns on how many workers a job is disturbed, or disturbs others, and by how long a run; None if the job does
    not run."""
    if job not in view.jobs:
        return None
    runs = [each for name in view.jobs for each in disturbing(view, name) if job in (name, each.job)]
    longest_ns = max((each.run_ns for each in runs), default=0)
    return {"workers": float(len({each.member for each in runs})), "run_ms": longest_ns / 1e6}


def homes_of(view: ElasticView, job: str) -> set[str]:
    """Returns the workers that a job is at home on."""
    return {member for members in view.observed.jobs[job].placement.values() for member in members}
