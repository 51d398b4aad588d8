"""Measures what strangers at the ports of a cluster cost a job: thousands of connections that never authenticate.

A job counts bids per auction at full speed with a checkpoint every second. In every round it runs for a while alone and
for a while beside the strangers, in alternating order; the result is the median of the ratios of its throughput. The
strangers are processes of their own (`half_open.py`), connect to the ports of the coordinator and of all members, and
make a connection again when it is cut. Their own use of the processor is reported, since it is taken from the job.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from stretto.api.app import App
from stretto.api.memory import NullSink
from stretto.bench.half_open import connections_allowed
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.errors import ClusterError, UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

PROGRAM = Path(__file__).with_name("half_open.py")
EVERY = "1 s"
SAMPLE_S = 0.25
SETTLE_S = 2.0
"""Time for the job to start, and for strangers to come and to go, before anything is measured."""
PROCESSES_MAX = 64
ENDS_WITHIN_S = 10.0


@dataclass(frozen=True)
class Setup:
    """What to measure: `seconds` alone and as many beside the strangers, in each round."""

    connections: int = 10_000
    seconds: float = 60.0
    rounds: int = 1


@dataclass(frozen=True)
class Phase:
    """A part of a round. `descriptors_max` is the largest number of open ones in one process of the cluster,
    `established_max` how many connections the strangers saw as open at once."""

    strangers: bool
    rows_per_s: float
    checkpoints: int
    descriptors_max: int
    established_max: int = 0
    cut: int = 0
    strangers_cpu_s: float = 0.0


@dataclass
class Report:
    """All phases, and what the job's checkpoints came to."""

    connections: int
    seconds: float
    phases: list[Phase] = field(default_factory=list)
    checkpoints_failed: dict[int, str] = field(default_factory=dict)
    recoveries: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def throughput_ratio(self) -> float:
        """The throughput beside strangers, divided by that of the same round without: the median."""
        pairs = zip(self.phases[::2], self.phases[1::2], strict=True)
        ratios = [a.rows_per_s / b.rows_per_s if a.strangers else b.rows_per_s / a.rows_per_s for a, b in pairs]
        return statistics.median(ratios) if ratios else math.nan

    @property
    def is_undisturbed(self) -> bool:
        """Whether no checkpoint was lost, and some were taken in each phase."""
        return not self.checkpoints_failed and not self.recoveries and all(each.checkpoints for each in self.phases)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "throughput_ratio": self.throughput_ratio, "undisturbed": self.is_undisturbed}


def measure(cluster: Cluster, setup: Setup, note: Callable[[str], None] = lambda text: None) -> Report:
    """Alternate phases with and without strangers while one job runs."""
    shares = shared(setup.connections, connections_allowed())
    report = Report(setup.connections, setup.seconds)
    with _job(cluster) as job:
        for number in range(setup.rounds):
            for strangers in (False, True) if number % 2 == 0 else (True, False):
                phase = _phase(cluster, job, setup, shares if strangers else [])
                report.phases.append(phase)
                note(f"round {number + 1}: {_described(phase, setup)}")
        report.checkpoints_failed, report.recoveries = dict(job.checkpoints.failed), job.checkpoints.recoveries
    report.refused = cluster.refused
    return report


def shared(connections: int, allowed: int) -> list[int]:
    """Returns how many connections each process of strangers holds, given how many one process may."""
    processes = -(-connections // max(1, allowed))
    if processes > PROCESSES_MAX:
        raise UserError(
            f"{connections:,} connections need {processes:,} processes here, and at most {PROCESSES_MAX} are used",
            f"the hard limit of descriptors allows {allowed:,} connections per process",
            "Raise the hard limit (ulimit -Hn), or use fewer connections.",
        )
    return [connections // processes + (index < connections % processes) for index in range(processes)]


def _described(phase: Phase, setup: Setup) -> str:
    beside = f"beside {setup.connections:,} strangers" if phase.strangers else "alone"
    seen = f", {phase.established_max:,} connections open at once, {phase.cut:,} cut" if phase.strangers else ""
    return f"{beside}: {phase.rows_per_s:,.0f} rows/s, {phase.checkpoints} checkpoints{seen}"


@contextmanager
def _job(cluster: Cluster) -> Iterator[Job]:
    app = App("besieged", parallelism=len(cluster.workers))
    bids = app.source("bids", NexmarkSource("bid", NexmarkConfig(events=None), columns=["auction"]))
    bids.key_by("auction").aggregate(n="count(*)", name="counts").sink(NullSink(), name="out")
    directory = scratch_directory("strangers")
    try:
        job = cluster.submit(app, engine="actors", checkpoint=directory, every=EVERY)
        try:
            yield job
        finally:
            job.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _phase(cluster: Cluster, job: Job, setup: Setup, shares: list[int]) -> Phase:
    with _besieged(cluster, shares, setup.seconds + 2 * SETTLE_S) as besiegers:
        time.sleep(SETTLE_S)
        known = len(job.checkpoints.complete)
        before, began = _rows(job)
        descriptors = _watch(cluster, setup.seconds)
        after, ended = _rows(job)
        taken = len(job.checkpoints.complete) - known
    said = [besieger.said for besieger in besiegers]
    return Phase(
        bool(shares),
        (after - before) / (ended - began),
        taken,
        descriptors,
        sum(each["established_most"] for each in said),
        sum(each["cut"] for each in said),
        sum(each["cpu_s"] for each in said),
    )


def _watch(cluster: Cluster, seconds: float) -> int:
    """Waits, and returns the largest number of open descriptors of a worker's process or this one meanwhile."""
    pids = [os.getpid(), *(worker.pid for worker in cluster.workers)]
    most, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        most = max(most, *(psutil.Process(pid).num_fds() for pid in pids))
        time.sleep(SAMPLE_S)
    return most


def _rows(job: Job) -> tuple[int, float]:
    """Returns the rows that were read so far, and when that was: as soon as the next reports change the number."""
    first = job.metrics().rows_in
    while True:
        rows = job.metrics().rows_in
        if rows != first:
            return rows, time.monotonic()
        if job.error is not None:
            raise job.error
        time.sleep(0.005)


# The strangers.


class _Besieger:
    """One process of strangers."""

    def __init__(self, targets: list[str], connections: int, seconds: float) -> None:
        command = [sys.executable, str(PROGRAM), "--connections", str(connections), "--seconds", str(seconds)]
        self._process = subprocess.Popen([*command, *targets], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said: dict[str, Any] = {}

    def end(self) -> None:
        """Ends it through its standard input, and reads its report."""
        try:
            said, _ = self._process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            raise
        if self._process.returncode:
            raise ClusterError("a process of strangers failed", f"exit code {self._process.returncode}")
        self.said = json.loads(said)


@contextmanager
def _besieged(cluster: Cluster, shares: list[int], seconds: float) -> Iterator[list[_Besieger]]:
    targets = [endpoint.removeprefix("tcp://") for endpoint in cluster.endpoints]
    besiegers = [_Besieger(targets, share, seconds) for share in shares]
    try:
        yield besiegers
    finally:
        for besieger in besiegers:
            besieger.end()
