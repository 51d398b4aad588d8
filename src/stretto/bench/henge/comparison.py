"""Runs jobs whose objectives conflict on Spark, once with nobody who decides and once with a controller.

The load is the same, and every row of every job is compared with a model: a loop over the same events. When a run is
over its sources end, so that all that was read has been processed when rows are compared.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from stretto import sinks
from stretto.bench.elastic.arrivals import Arrivals
from stretto.bench.gates import Gate
from stretto.bench.henge.conflict import FUNCTION, Conflict, Intent
from stretto.bench.henge.worth import Slice, arrivals_by_number, slices, totals
from stretto.bench.verify import Match
from stretto.coordinator.records import JobStatus
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.errors import UserError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOBODY, CONTROLLER = "nobody", "henge"
"""Who decides: the names of the two runs."""
POLL_S = 0.05
WAIT_S = 300.0
"""Ends a run that hangs."""


@dataclass
class RunReport:
    """One run: each job slice by slice, its partitions in the end, the decisions, and rows that were not right."""

    jobs: dict[str, list[Slice]] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    decisions: list[DecisionRecord] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def utility(self, judged: int) -> float:
        """Returns the mean of the total utility in the last slices."""
        return mean(totals(list(self.jobs.values()))[-judged:])

    def job(self, name: str, judged: int) -> dict[str, Any]:
        """Returns how a job stood in the last slices."""
        last = self.jobs[name][-judged:]
        found: dict[str, Any] = {"utility": round(mean(each.utility for each in last), 2)}
        for what in ("latency_ms", "juice"):
            values = [value for each in last if (value := getattr(each, what)) is not None]
            found[what] = round(mean(values), 3) if values else None
        return {**found, "partitions": self.partitions[name], "rows": self.rows[name]}

    def over_time(self) -> list[dict[str, Any]]:
        """Returns all slices: the total, and each job."""
        found = []
        for place, total in enumerate(totals(list(self.jobs.values()))):
            at_once = {name: each[place] for name, each in self.jobs.items()}
            until_s = next(iter(at_once.values())).until_s
            jobs = {name: each.as_dict() for name, each in at_once.items()}
            found.append({"until_s": until_s, "total": round(total, 2), "jobs": jobs})
        return found


@dataclass
class Comparison:
    """Both runs."""

    asked: Conflict
    runs: dict[str, RunReport] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        return [f"{way}: {what}" for way, run in self.runs.items() for what in run.wrong]

    @property
    def utility(self) -> dict[str, float]:
        return {way: run.utility(self.asked.judged) for way, run in self.runs.items()}

    @property
    def decisions(self) -> list[DecisionRecord]:
        return self.runs[CONTROLLER].decisions

    @property
    def raised(self) -> bool:
        """Whether the total utility is greater with the controller."""
        return self.utility[CONTROLLER] > self.utility[NOBODY]

    def jobs(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Returns how each job stood in the judged part of each run."""
        judged = self.asked.judged
        return {way: {name: run.job(name, judged) for name in run.jobs} for way, run in self.runs.items()}

    def as_dict(self) -> dict[str, Any]:
        utility, asked = self.utility, self.asked
        return {
            "match": not self.wrong,
            "utility": {way: round(total, 2) for way, total in utility.items()},
            "most": asked.most,
            "ratio": round(utility[CONTROLLER] / utility[NOBODY], 3) if utility[NOBODY] else None,
            "raised": self.raised,
            "objectives": {each.name: f"{each.slo.describe()}; load {each.load:g}" for each in asked.intents},
            "jobs": self.jobs(),
            "over_time": {way: run.over_time() for way, run in self.runs.items()},
            "decisions": [record.plain() for record in self.decisions],
            "workers": asked.workers,
            "seconds": asked.seconds,
            "judged_s": asked.judged * asked.slice_s,
            **({"wrong": self.wrong} if self.wrong else {}),
        }


def compare(
    spark: SparkSession,
    asked: Conflict,
    note: Callable[[str], None] = lambda text: None,
    slice_done: Callable[[], None] = lambda: None,
) -> Comparison:
    """Runs the jobs with nobody who decides, then with the controller. `slice_done` is called after each slice."""
    found = Comparison(asked)
    for way, elasticity in ((NOBODY, "off"), (CONTROLLER, asked.controller)):
        directory = scratch_directory("henge")
        try:
            with Cluster.on_spark(spark, workers=asked.workers, elasticity=elasticity) as cluster:
                decisions_min = asked.decisions_min if way == CONTROLLER else 0
                found.runs[way] = _Run(cluster, asked, directory, slice_done).measured(decisions_min)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        note(f"{way}: a total utility of {found.utility[way]:.1f} of {asked.most:g}")
    return found


class _Run:
    """All jobs on one cluster."""

    def __init__(self, cluster: Cluster, asked: Conflict, directory: Path, slice_done: Callable[[], None]) -> None:
        self._cluster = cluster
        self._asked = asked
        self._slice_done = slice_done
        self._gates = {intent.name: Gate(directory / intent.name) for intent in asked.intents}
        self._arrived = {intent.name: Arrivals() for intent in asked.intents}
        self._jobs: dict[str, Job] = {}

    def measured(self, decisions_min: int) -> RunReport:
        """Returns what the run has shown."""
        with ExitStack() as stack:
            for intent in self._asked.intents:
                sink = sinks.callback(self._arrived[intent.name].take)
                job = self._cluster.submit(self._asked.app(intent, self._gates[intent.name], sink))
                self._jobs[intent.name] = job
                stack.callback(job.stop)
            self._wait_until(lambda: all(job.status is JobStatus.RUNNING for job in self._jobs.values()))
            began_s = self._begin()
            for place in range(self._asked.slices):
                until_s = began_s + (place + 1) * self._asked.slice_s
                self._wait_until(lambda until_s=until_s: time.monotonic() >= until_s)  # type: ignore[misc]
                self._slice_done()
            self._wait_until(lambda: self._carried_out() >= decisions_min)
            return self._ended(began_s)

    def _begin(self) -> float:
        """Opens the streams of all jobs, and returns when."""
        began_s = time.monotonic()
        for gate in self._gates.values():
            gate.open()
        return began_s

    def _carried_out(self) -> int:
        return sum(record.outcome is Outcome.DONE for record in self._decisions())

    def _decisions(self) -> list[DecisionRecord]:
        records = [record for job in self._jobs.values() for record in job.decisions()]
        return sorted(records, key=lambda record: (record.at_ns, record.number))

    def _ended(self, began_s: float) -> RunReport:
        """Ends all jobs, and returns their figures and whether their rows are right."""
        found = RunReport()
        observed = self._cluster.observation.jobs
        found.partitions = {name: observed[name].functions[FUNCTION].shape.parallelism for name in self._jobs}
        for job in self._jobs.values():
            job.stop(drain=True, timeout=WAIT_S)
        found.decisions = self._decisions()
        for intent in self._asked.intents:
            found.jobs[intent.name] = self._slices(intent, began_s)
            found.rows[intent.name] = self._arrived[intent.name].table().num_rows
            found.wrong += self._wrong(intent)
        return found

    def _slices(self, intent: Intent, began_s: float) -> list[Slice]:
        asked = self._asked
        rows = self._arrived[intent.name].rows()
        period_s = asked.workload(intent).tuples.period_ns / 1e9
        due_s = np.arange(int(asked.slices * asked.slice_s / period_s)) * period_s
        arrived_s = arrivals_by_number(rows.numbers, rows.arrived_ns / 1e9 - began_s, len(due_s))
        return slices(intent.slo, due_s, arrived_s, asked.slice_s, asked.slices)

    def _wrong(self, intent: Intent) -> list[str]:
        """Returns what is wrong with the rows of a job: all that its source has read must be there."""
        job, rows = self._jobs[intent.name], self._arrived[intent.name].table()
        read = job.metrics().rows_in
        if job.status is not JobStatus.FINISHED:
            return [f"{intent.name} is {job.status.value}, and has not finished"]
        (verdict,) = self._asked.workload(intent, events=read).check({"results": rows}).values()
        return [] if verdict.match is Match.MATCH else [f"{intent.name}: {verdict.describe()}"]

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition; raises the error of a job that fails before."""
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            for job in self._jobs.values():
                if job.error is not None:
                    raise job.error
            if time.monotonic() >= deadline_s:
                now = ", ".join(f"{name} is {job.progress}" for name, job in self._jobs.items())
                raise UserError(f"the jobs do not advance for {WAIT_S:g} s", now)
            time.sleep(POLL_S)
