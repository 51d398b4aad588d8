"""Runs a query with a burst once on Spark: on transient workers, on more workers that start cold, or as it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import pyarrow as pa

from stretto.bench.burst.load import SECOND_NS, BurstLoad
from stretto.bench.burst.phases import Phase, Phases
from stretto.bench.burst.queries import build, query_of
from stretto.elasticity.decisions import EndBurst, RedirectBurst
from stretto.elasticity.records import Outcome
from stretto.errors import ClusterError
from stretto.observation.model import JobObserved
from stretto.protocol.membership import MemberRole
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT = "out"
LEAD_NS = 8 * SECOND_NS
"""The first event comes so long after the query was submitted."""
POLL_S = 0.02
WAIT_S = 600.0
"""Ends a run that hangs."""
NOTICED_NS = SECOND_NS
"""Cold workers are asked for so long after the burst began, as in sponge.txt (figure 10)."""
FIRST_BATCH_NS = 5 * SECOND_NS
"""A batch that was sent away later than this after a decision is not the first that follows from it."""


class Approach(Enum):
    """What is done about the burst. Bursts of the first go to transient workers; for the second, as many ordinary
    workers as it takes are added, and the functions that wait get partitions there."""

    REDIRECT = "redirect"
    COLD_WORKERS = "cold_workers"
    NO_SCALING = "no_scaling"


@dataclass
class Measured:
    """One run: `busy` is how busy the ordinary workers were before the burst, `ended_s` when the burst was brought
    back, in seconds from its end."""

    p99_ms: dict[str, float | None] = field(default_factory=dict)
    results: pa.Table | None = None
    busy: float = 0.0
    first_transient_row_s: float | None = None
    decision_to_redirect_ms: float | None = None
    ended_s: float | None = None
    transient_most: int = 0
    added_s: float | None = None
    """From the start of the burst until cold workers had taken over."""
    notes: list[str] = field(default_factory=list)


def measure(spark: SparkSession, load: BurstLoad, approach: Approach, note: Callable[[str], None]) -> Measured:
    """Runs the query to its end."""
    redirects = approach is Approach.REDIRECT
    found = Measured()
    transient = load.transient if redirects else 0
    elasticity = "bursts" if redirects else "off"
    with Cluster.on_spark(spark, load.workers, transient=transient, elasticity=elasticity) as cluster:
        begins_ns = time.time_ns() + LEAD_NS
        job = cluster.submit(build(load.query, load.workload(begins_ns), load.row_us))
        watch = _Watch(cluster, job, load, Phases(load, begins_ns), found)
        adding = _Adding(cluster, job, load, watch.phases.burst_ns, found)
        if approach is Approach.COLD_WORKERS:
            adding.start()
        watch.until_it_ends()
        adding.join()
        job.wait(WAIT_S)
        found.results = job.results(OUT)
    found.p99_ms = watch.phases.p99_ms()
    note(f"{approach.value}: p99 {found.p99_ms} ms" + "".join(f"; {each}" for each in found.notes))
    return found


class _Watch:
    """Looks at a job while it runs."""

    def __init__(self, cluster: Cluster, job: Job, load: BurstLoad, phases: Phases, found: Measured) -> None:
        self._cluster = cluster
        self._job = job
        self._load = load
        self.phases = phases
        self._found = found
        self._away_before = 0
        self._away_ns: set[int] = set()
        self._busy: list[float] = []

    def until_it_ends(self) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not self._job.status.ended and time.monotonic() < deadline_s:
            self._look(time.time_ns())
            time.sleep(POLL_S)
        self._look(time.time_ns())
        self._found.busy = round(sum(self._busy) / max(1, len(self._busy)), 3)
        self._judge_decisions()

    def _look(self, now_ns: int) -> None:
        totals = self._job.metrics().totals.get(OUT)
        if totals is not None:
            self.phases.take(now_ns, totals)
        observation = self._cluster.observation
        observed = observation.jobs.get(self._job.name)
        if observed is None:
            return
        phase = self.phases.at(now_ns)
        if phase is Phase.BEFORE:
            ordinary = [each for each in observation.workers.values() if each.member.role is MemberRole.WORKER]
            self._busy.append(sum(each.busy_share for each in ordinary) / max(1, len(ordinary)))
        self._look_away(now_ns, observed, phase)

    def _look_away(self, now_ns: int, observed: JobObserved, phase: Phase | None) -> None:
        actors = [actor for function in observed.functions.values() for actor in function.actors]
        rows = sum(actor.totals.rows_away for actor in actors)
        used = {member for each in observed.functions.values() if each.away is not None for member in each.away.members}
        self._found.transient_most = max(self._found.transient_most, len(used))
        self._away_ns |= {actor.totals.away_ns for actor in actors if actor.totals.away_ns}
        if phase in (None, Phase.BEFORE):
            self._away_before = rows
        elif rows > self._away_before and self._found.first_transient_row_s is None:
            self._found.first_transient_row_s = round((now_ns - self.phases.burst_ns) / 1e9, 3)

    def _judge_decisions(self) -> None:
        done = [record for record in self._job.decisions() if record.outcome is Outcome.DONE]
        for record in done:
            followed = [at for at in self._away_ns if 0 <= at - record.at_ns < FIRST_BATCH_NS]
            if isinstance(record.decision, RedirectBurst) and followed:
                self._found.decision_to_redirect_ms = round((min(followed) - record.at_ns) / 1e6, 3)
        ends = [record.at_ns for record in done if isinstance(record.decision, EndBurst)]
        if ends:
            over_ns = self.phases.burst_ns + int(self._load.burst_s * SECOND_NS)
            self._found.ended_s = round((ends[-1] - over_ns) / 1e9, 2)


class _Adding(threading.Thread):
    """Adds cold workers when a burst is noticed, and has the functions that wait use them."""

    def __init__(self, cluster: Cluster, job: Job, load: BurstLoad, burst_ns: int, found: Measured) -> None:
        super().__init__(name="stretto-adding", daemon=True)
        self._cluster = cluster
        self._job = job
        self._load = load
        self._burst_ns = burst_ns
        self._found = found

    def join(self, timeout: float | None = None) -> None:
        if self.ident is not None:
            super().join(timeout)

    def run(self) -> None:
        time.sleep(max(0.0, (self._burst_ns + NOTICED_NS - time.time_ns()) / 1e9))
        try:
            self._cluster.scale_out(self._load.cores - self._load.workers)
            self._job.rescale(dict.fromkeys(query_of(self._load.query).functions, self._load.cores))
            self._found.added_s = round((time.time_ns() - self._burst_ns) / 1e9, 2)
        except ClusterError as error:
            self._found.notes.append(f"the workers that were added did not take over: {error}")
