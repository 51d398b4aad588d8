"""Injects faults into a NEXMark query that runs with checkpoints: workers are killed, hang and lose connections.

In the end every row is compared with Spark SQL's answer. A recovery lasts from the fault to the first row that is read
after it: it includes detection, the return to the last checkpoint, and redeployment. The stream has a stretch
before each fault and one after the last; a gate holds it back at the end of a stretch until its fault has happened.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import psutil

from stretto.bench.gates import Gate
from stretto.bench.nexmark.queries import Workload, build
from stretto.bench.nexmark.run import OUT, SparkAnswers, shards_moved, verify
from stretto.bench.standalone import kill_tree, spark_worker_of
from stretto.bench.verify import Match
from stretto.coordinator.records import JobStatus
from stretto.errors import UserError
from stretto.protocol.membership import Member
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.005
WAIT_S = 300.0
"""The longest wait for a checkpoint, a detection or a recovery; it only ends a run that hangs."""
SECONDS_PER_KILL = 5.0
"""Length of the stream per fault: longer than what happens between two on an idle machine."""
PAUSE_S = (0.2, 1.0)
"""Bounds of the random pause between a recovery and the next fault."""


class Fault(Enum):
    """The kinds of faults."""

    KILL = "killed"
    STOP = "hangs"
    CUT = "cut off"
    JVM = "executor killed"
    NODE = "Spark worker killed"


@dataclass(frozen=True)
class Chaos:
    """What to run: the query, the number and kinds of faults, and the checkpoint interval."""

    query: str
    kills: int
    rate: float = 20_000.0
    every: str = "500 ms"
    faults: tuple[Fault, ...] = (Fault.KILL, Fault.STOP, Fault.CUT)
    once: tuple[Fault, ...] = ()
    """Faults that are injected once each, such as killing an executor's JVM with all its workers."""
    seed: int = 1
    elastic: bool = False
    """Whether keyed functions are elastic; the cluster's controllers decide when their shards move."""


@dataclass
class ChaosReport:
    """`recovery_s` is the duration of each recovery; `match` is whether all rows equal Spark SQL's."""

    query: str
    kills: int = 0
    blows: Counter[str] = field(default_factory=Counter)
    match: bool = False
    rows: int = 0
    recoveries: int = 0
    checkpoints: int = 0
    checkpoints_failed: int = 0
    elapsed_s: float = 0.0
    recovery_s: list[float] = field(default_factory=list)
    complaint: str | None = None
    shards_moved: int | None = None
    """How many shards have moved, of the last decisions; None if no function is elastic."""

    def as_dict(self) -> dict[str, Any]:
        times = sorted(self.recovery_s)
        return {
            "query": self.query,
            "match": self.match,
            "kills": self.kills,
            "blows": dict(self.blows),
            "recovery_s": {
                "p50": round(times[len(times) // 2], 3) if times else None,
                "max": round(times[-1], 3) if times else None,
                "all": [round(each, 3) for each in self.recovery_s],
            },
            "rows": self.rows,
            "recoveries": self.recoveries,
            "checkpoints": {"complete": self.checkpoints, "failed": self.checkpoints_failed},
            "elapsed_s": round(self.elapsed_s, 1),
            **({} if self.shards_moved is None else {"shards_moved": self.shards_moved}),
            **({"complaint": self.complaint} if self.complaint else {}),
        }


def workload_of(chaos: Chaos) -> Workload:
    """Returns a stream with rows for all faults."""
    base = Workload()
    events = int(chaos.rate * (SECONDS_PER_KILL * chaos.kills + 5))
    return replace(
        base, config=replace(base.config, events=events), rate=chaos.rate, engine="actors", elastic=chaos.elastic
    )


def run(
    spark: SparkSession, cluster: Cluster, chaos: Chaos, note: Callable[[str], None] = lambda text: None
) -> ChaosReport:
    """Run the query with all faults to its end, and check its answer."""
    report = ChaosReport(chaos.query)
    workload = workload_of(chaos)
    directory = scratch_directory("chaos")
    gate = Gate(directory / "gate")
    began = time.monotonic()
    try:
        with SparkAnswers(spark, workload.config) as answers:
            app = build(chaos.query, replace(workload, gate=gate))
            job = cluster.submit(app, checkpoint=directory / "checkpoints", every=chaos.every)
            _Injector(cluster, job, chaos, gate, report, note).inject_all()
            gate.open()
            job.wait()
            results = {sink.name: job.results(sink.name) for sink in job.plan.sinks if sink.sink.collects}
            verdicts = verify(chaos.query, results, answers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.elapsed_s = time.monotonic() - began
    report.match = all(verdict.match is Match.MATCH for verdict in verdicts.values())
    report.complaint = None if report.match else "; ".join(each.describe() for each in verdicts.values())
    report.rows = results[OUT].num_rows
    report.shards_moved = shards_moved(job) if chaos.elastic else None
    report.recoveries = job.checkpoints.recoveries
    report.checkpoints, report.checkpoints_failed = len(job.checkpoints.complete), len(job.checkpoints.failed)
    return report


@dataclass
class _Injector:
    """Injects all faults into one job, each after a stretch of the stream, and records the recoveries."""

    cluster: Cluster
    job: Job
    chaos: Chaos
    gate: Gate
    report: ChaosReport
    note: Callable[[str], None]

    def inject_all(self) -> None:
        chaos, job, chance = self.chaos, self.job, random.Random(self.chaos.seed)
        # Spread evenly, and never first, so that the query has made progress before them.
        once = {(place + 1) * chaos.kills // (len(chaos.once) + 1): fault for place, fault in enumerate(chaos.once)}
        for number in range(chaos.kills):
            self._allow(number + 1)
            if not wait_until(lambda: job.status is JobStatus.RUNNING or job.status.ended):
                raise UserError(f"{chaos.query} did not recover", f"it is {job.status.value}")
            _wait_for_checkpoint(job)
            time.sleep(chance.uniform(*PAUSE_S))
            if job.status.ended:
                return
            fault = once.get(number) or chance.choice(chaos.faults)
            recoveries, began = job.checkpoints.recoveries, time.monotonic()
            victim = inject(self.cluster, fault, chance)
            # So that there are rows to read after it, even if the last checkpoint has all of this stretch.
            self._allow(number + 1.5)
            self._see_recovery(fault, victim, recoveries, began)

    def _allow(self, stretches: float) -> None:
        self.gate.allow(stretches / (self.chaos.kills + 1))

    def _see_recovery(self, fault: Fault, victim: Member, recoveries: int, began: float) -> None:
        job, report = self.job, self.report
        if not wait_until(lambda: job.checkpoints.recoveries > recoveries or job.status.ended):
            raise UserError(f"the fault '{fault.value}' was not detected", victim.name)
        if fault is Fault.STOP:
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGCONT)  # It has been replaced, so its actions must have no effect.
        if job.status.ended:
            return
        wait_until(lambda: _reads_again(job))
        took_s = time.monotonic() - began
        report.kills += 1
        report.blows[fault.value] += 1
        report.recovery_s.append(took_s)
        self.note(f"{victim.name} {fault.value}: recovered after {took_s:.2f} s")


def _reads_again(job: Job) -> bool:
    """Whether the new attempt has read rows; its counts start at zero."""
    return job.status.ended or (job.status is JobStatus.RUNNING and job.metrics().rows_in > 0)


def _wait_for_checkpoint(job: Job) -> None:
    """Wait for the next checkpoint, so that the query makes progress between faults."""
    known = len(job.checkpoints.complete)
    wait_until(lambda: len(job.checkpoints.complete) > known or job.status.ended)


def wait_until(condition: Callable[[], bool]) -> bool:
    """Returns whether a condition came true in time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


# Faults.


def inject(cluster: Cluster, fault: Fault, chance: random.Random) -> Member:
    """Inject a fault into a random busy worker (seeded)."""
    busy = cluster.busy_workers
    victim = chance.choice([member for member in cluster.workers if member.name in busy])
    if fault is Fault.KILL:
        os.kill(victim.pid, signal.SIGKILL)
    elif fault is Fault.STOP:
        os.kill(victim.pid, signal.SIGSTOP)
    elif fault is Fault.CUT:
        others = {member.pid for member in cluster.workers} - {victim.pid}
        _cut(victim.pid, others, chance)
    elif fault is Fault.JVM:
        os.kill(_jvm_of(victim.pid), signal.SIGKILL)
    else:
        node = spark_worker_of(victim.pid)
        if node is None:
            raise UserError(f"{victim.name} does not belong to a standalone Spark worker")
        kill_tree(node)
    return victim


def _cut(pid: int, others: set[int], chance: random.Random) -> None:
    """Break one connection between two workers."""
    ports = {c.laddr.port: other for other in others for c in psutil.Process(other).net_connections("tcp") if c.laddr}
    links = [
        c
        for c in psutil.Process(pid).net_connections("tcp")
        if c.status == psutil.CONN_ESTABLISHED and c.raddr and c.raddr.port in ports
    ]
    if not links:
        raise UserError("there is no connection between two workers to cut", None, "Use two workers or more.")
    link = chance.choice(links)
    command = [
        "ss",
        "-K",
        "src",
        link.laddr.ip,
        "sport",
        "=",
        f":{link.laddr.port}",
        "dport",
        "=",
        f":{link.raddr.port}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError("cannot cut a connection here", done.stderr.strip(), "Permit `ss -K` (CAP_NET_ADMIN).")


def _jvm_of(pid: int) -> int:
    """Returns the process id of the executor that a worker's process belongs to."""
    for parent in psutil.Process(pid).parents():
        if "java" in parent.name():
            return int(parent.pid)
    raise UserError(f"process {pid} has no JVM among its parents")
