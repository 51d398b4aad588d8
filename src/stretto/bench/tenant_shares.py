"""Measures fair shares of the workers' time on Spark: three jobs with 20, 40 and 40, one of which pauses for a while.

The same as `stretto.simulator.experiments.shares`, with real computation: all three always have more input than the
workers can process. The time of their computation is counted by worker; a batch costs the same in each job. A phase
begins when all jobs run, and ends when they have computed for long enough, however fast the machine is.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stretto.api.slo import SLO
from stretto.bench.tenant_jobs import Phase, Stream, Tenant, ns_by_process, rounds_for
from stretto.bench.tenants import BULK_ROWS, BULK_WINDOW_US, TIMEOUT_S
from stretto.errors import ClusterError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory
from stretto.sinks import null

SHARES = {"small": 20.0, "middle": 40.0, "large": 40.0}
RESTING = "large"
SETTLE_S = 1.0
"""Computation at the start of a phase that is not counted, while queues drain or fill."""
POLL_S = 0.05
TIMES_MAX = 16
"""How many times as long a phase may take, if its shares are to be close to what is expected."""
ALWAYS = Phase("always", 0, 1 << 62)

Spent = dict[str, dict[str, int]]
"""The nanoseconds of each job, by worker process."""


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
    cluster: Cluster,
    workers: int,
    seconds: float,
    cost_ms: float,
    say: Callable[[str], None],
    points_max: float | None = None,
) -> list[PhaseShares]:
    """Runs three phases on a cluster with fair shares: all jobs compete, one pauses, it resumes. Each lasts until the
    jobs have computed for `seconds` per worker, and up to 16 times as long while shares are `points_max` off or more.

    A run that the machine interrupts counts with all that time, and what runs later makes up for it: how far a short
    phase is off says how long one interruption was. Over a long one fair shares come close, and others never do."""
    say("shares of 20, 40 and 40: all compete, one pauses, it resumes ...")
    directory = scratch_directory("shares")
    rests = directory / "rests"
    rounds = rounds_for(cost_ms)
    jobs = {name: cluster.submit(_tenant(name, workers, rounds, rests).app(null)) for name in SHARES}
    try:
        observer = _Observer(cluster, jobs, round(seconds * workers * 1e9), points_max)
        observer.wait_for_all()
        competing = observer.phase("all compete", SHARES)
        rests.touch()
        observer.wait_until_idle(RESTING)
        others = {name: share for name, share in SHARES.items() if name != RESTING}
        resting = observer.phase(f"{RESTING} rests", others)
        rests.unlink()
        back = observer.phase(f"{RESTING} is back", SHARES)
    finally:
        for job in jobs.values():
            job.stop(timeout=TIMEOUT_S)
        shutil.rmtree(directory, ignore_errors=True)
    return [competing, resting, back]


def _tenant(name: str, workers: int, rounds: int, rests: Path) -> Tenant:
    stream = Stream(BULK_ROWS, 10_000, 0, 1 << 62, workers, paced=False, rests=rests if name == RESTING else None)
    return Tenant(name, stream, rounds, BULK_WINDOW_US, (ALWAYS,), SLO(share=SHARES[name]))


class _Observer:
    """Reads how much the jobs have computed, all at one moment, and waits until it is enough."""

    def __init__(self, cluster: Cluster, jobs: dict[str, Job], length_ns: int, points_max: float | None) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._length_ns = length_ns
        self._points_max = points_max

    def wait_for_all(self) -> None:
        self._wait_until(lambda spent: all(spent.values()))

    def wait_until_idle(self, job: str) -> None:
        """Waits until a job has run what it had read: it computes nothing more while the others go on."""
        before = self._spent()
        while True:
            after = self._computed(before, round(SETTLE_S * 1e9))
            if after[job] == before[job]:
                return
            before = after

    def phase(self, name: str, weights: dict[str, float]) -> PhaseShares:
        settled = self._computed(self._spent(), round(SETTLE_S * 1e9))
        times = 1
        found = self._shares(name, weights, settled, times)
        while self._points_max is not None and found.points_off >= self._points_max and times < TIMES_MAX:
            times *= 2
            found = self._shares(name, weights, settled, times)
        return found

    def _shares(self, name: str, weights: dict[str, float], settled: Spent, times: int) -> PhaseShares:
        """Returns the shares since the phase had settled, when it is so many lengths long."""
        ended = self._computed(settled, times * self._length_ns)
        processes = sorted({process for by_process in ended.values() for process in by_process})
        found = {
            process: percent_of({job: ended[job].get(process, 0) - settled[job].get(process, 0) for job in self._jobs})
            for process in processes
        }
        return PhaseShares(name, percent_of(weights), found)

    def _computed(self, since: Spent, length_ns: int) -> Spent:
        """Returns the figures when the jobs have computed for this long since then."""
        return self._wait_until(lambda spent: _sum(spent) - _sum(since) >= length_ns)

    def _spent(self) -> Spent:
        observed = self._cluster.observation.jobs
        totals = {name: observed[job.name].totals if job.name in observed else {} for name, job in self._jobs.items()}
        return {
            name: ns_by_process(each["work"].counts, ALWAYS) if "work" in each else {} for name, each in totals.items()
        }

    def _wait_until(self, condition: Callable[[Spent], bool]) -> Spent:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition(spent := self._spent()):
            for job in self._jobs.values():
                if job.error is not None:
                    raise job.error
            if time.monotonic() >= deadline:
                raise ClusterError("the jobs do not compute", f"{spent} ns")
            time.sleep(POLL_S)
        return spent


def _sum(spent: Spent) -> int:
    return sum(ns for by_process in spent.values() for ns in by_process.values())


def percent_of(weights: dict[str, float] | dict[str, int]) -> dict[str, float]:
    total = sum(weights.values()) or 1
    return {name: round(100 * weight / total, 2) for name, weight in weights.items()}
