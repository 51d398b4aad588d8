"""Measures fair shares of the workers' time on Spark: three jobs with 20, 40 and 40, one of which pauses for a while.

The same as `stretto.simulator.experiments.shares`, with real computation: all three always have more input than the
workers can process. The time of their computation is counted by worker; a batch costs the same in each job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from stretto.api.slo import SLO
from stretto.bench.tenant_jobs import Phase, Stream, Tenant, counted_ns, rounds_for
from stretto.bench.tenants import BULK_ROWS, BULK_WINDOW_US, TIMEOUT_S, begin_ns_of
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.sinks import null

SHARES = {"small": 20.0, "middle": 40.0, "large": 40.0}
RESTING = "large"
SETTLE_NS = 1_000_000_000
"""Time at the start of a phase that is not counted, while queues drain or fill."""


@dataclass(frozen=True)
class PhaseShares:
    """The expected share of each job in a phase, and its share on each worker, in percent."""

    name: str
    expected: dict[str, float]
    found: dict[str, dict[str, float]]

    @property
    def points_off(self) -> float:
        return max(abs(shares[job] - self.expected[job]) for shares in self.found.values() for job in self.expected)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "points_off": round(self.points_off, 2)}


def measure(
    cluster: Cluster, workers: int, seconds: float, cost_ms: float, say: Callable[[str], None]
) -> list[PhaseShares]:
    """Runs three phases of `seconds` each on a cluster with fair shares: all jobs compete, one pauses, it resumes."""
    say("shares of 20, 40 and 40: all compete, one pauses, it resumes ...")
    length_ns, begin_ns = round(seconds * 1e9), begin_ns_of(len(SHARES))
    bounds = [begin_ns + number * length_ns for number in range(4)]
    names = ("all compete", f"{RESTING} rests", f"{RESTING} is back")
    phases = tuple(Phase(name, bounds[n] + SETTLE_NS, bounds[n + 1]) for n, name in enumerate(names))
    rounds = rounds_for(cost_ms)
    jobs: dict[str, Job] = {}
    for name, share in SHARES.items():
        rests_ns = (bounds[1], bounds[2]) if name == RESTING else None
        stream = Stream(BULK_ROWS, 10_000, begin_ns, bounds[3], workers, paced=False, rests_ns=rests_ns)
        tenant = Tenant(name, stream, rounds, BULK_WINDOW_US, phases, SLO(share=share))
        jobs[name] = cluster.submit(tenant.app(null))
    for job in jobs.values():
        job.wait(TIMEOUT_S)
    return [_shares(phase, jobs, resting=number == 1) for number, phase in enumerate(phases)]


def _shares(phase: Phase, jobs: dict[str, Job], resting: bool) -> PhaseShares:
    weights = {name: share for name, share in SHARES.items() if not (resting and name == RESTING)}
    spent = {name: counted_ns(job, phase) for name, job in jobs.items()}
    processes = sorted({process for by_process in spent.values() for process in by_process})
    found = {
        process: percent_of({name: by_process.get(process, 0) for name, by_process in spent.items()})
        for process in processes
    }
    return PhaseShares(phase.name, percent_of(weights), found)


def percent_of(weights: dict[str, float] | dict[str, int]) -> dict[str, float]:
    total = sum(weights.values()) or 1
    return {name: round(100 * weight / total, 2) for name, weight in weights.items()}
