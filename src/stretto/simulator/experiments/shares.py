"""Fair shares of the workers' time (thesis 5.5.4, figure 5.6): three jobs with 20, 40 and 40, in virtual time.

All of them always have more input than the workers can process. The cost of a message differs by job, so that shares of
time are not shares of messages. One job then has no input for a while, and later has input again.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, Edge, Forward, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.source import Reading
from stretto.actors.work import Outcome, Work
from stretto.scheduling.policies import FairShare
from stretto.simulator.checking.history import History
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import SimulatedSource, Swallow

SHARES = {"small": 20.0, "middle": 40.0, "large": 40.0}
COSTS_NS = {"small": 1_000_000, "middle": 2_000_000, "large": 500_000}
RESTING = "large"
"""The job that has no input for a while."""
POINTS_MAX = 3.0
"""Maximum deviation of a share from its expected value, in percentage points."""
START_NS = 1_100_000_000
SETTLE_NS = 50_000_000
"""Time at the edges of a phase that is not counted, while queues drain or fill."""
READ_NS = 20_000
TIMING = Timing(delay_ns=(20_000, 60_000), receive_ns=5_000)
SCHEMA = pa.schema([("n", pa.int64())])


class Eager(SimulatedSource):
    """A source that always has more input, except from `rests_ns` until `returns_ns`."""

    def __init__(self, rests_ns: int, returns_ns: int, end_ns: int) -> None:
        self._rests_ns = rests_ns
        self._returns_ns = returns_ns
        self._end_ns = end_ns

    def read(self, now_ns: int) -> Reading:
        if now_ns >= self._end_ns:
            return Reading(None, now_ns, done=True)
        if now_ns < START_NS:
            return Reading(None, now_ns, next_ns=START_NS)
        if self._rests_ns <= now_ns < self._returns_ns:
            return Reading(None, now_ns, next_ns=self._returns_ns)
        return Reading(pa.RecordBatch.from_arrays([pa.array([1])], schema=SCHEMA), now_ns)


class Pass(Function):
    """Forwards its input."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)


@dataclass(frozen=True)
class Phase:
    """A part of the run: the expected share of each job, and the share it got on each worker, in percent."""

    name: str
    begin_ns: int
    end_ns: int
    expected: dict[str, float]
    found: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def points_off(self) -> float:
        """The greatest deviation of a share from its expected value, on any worker."""
        return max(abs(shares[job] - self.expected[job]) for shares in self.found.values() for job in self.expected)


@dataclass(frozen=True)
class SharesReport:
    """The three phases: all jobs compete, one pauses, it resumes."""

    phases: list[Phase]

    @property
    def holds(self) -> bool:
        return all(phase.points_off <= POINTS_MAX for phase in self.phases)

    def as_dict(self) -> dict[str, Any]:
        phases = [{**asdict(phase), "points_off": round(phase.points_off, 3)} for phase in self.phases]
        return {"shares": SHARES, "phases": phases, "holds": self.holds}


class _Ledger(History):
    """Records the time of each job on each worker by phase, instead of the events."""

    def __init__(self, phases: list[Phase]) -> None:
        super().__init__()
        self._phases = phases
        self._began_ns: dict[str, int] = {}
        self.spent_ns: dict[tuple[str, str, str], int] = {}

    def began(self, time_ns: int, member: str, instance: Instance, work: Work) -> None:
        self._began_ns[member] = time_ns

    def ended(self, time_ns: int, member: str, instance: Instance, work: Work, outcome: Outcome) -> None:
        for phase in self._phases:
            ns = min(time_ns, phase.end_ns) - max(self._began_ns[member], phase.begin_ns)
            if ns > 0:
                key = (phase.name, member, instance.address.job)
                self.spent_ns[key] = self.spent_ns.get(key, 0) + ns


def simulated(workers: int = 3, seconds: float = 2.0, seed: int = 1) -> SharesReport:
    """Runs the three phases, each `seconds` of virtual time long."""
    length_ns = round(seconds * 1e9)
    rests_ns, returns_ns, end_ns = (START_NS + number * length_ns for number in (1, 2, 3))
    phases = [
        Phase("all compete", START_NS + SETTLE_NS, rests_ns, _percent(SHARES)),
        Phase(
            f"{RESTING} rests",
            rests_ns + 4 * SETTLE_NS,
            returns_ns,
            _percent({job: share for job, share in SHARES.items() if job != RESTING}),
        ),
        Phase(f"{RESTING} is back", returns_ns + SETTLE_NS, end_ns, _percent(SHARES)),
    ]
    ledger = _Ledger(phases)
    cluster = SimulatedCluster(workers, seed, TIMING, costs=_cost_ns, policy=FairShare, history=ledger)
    for job in SHARES:
        away = (rests_ns, returns_ns) if job == RESTING else (end_ns, end_ns)
        cluster.submit(_deployment(job, workers, Eager(*away, end_ns)))
    cluster.run()
    cluster.close()
    members = sorted({member for _, member, _ in ledger.spent_ns if not member.startswith("driver")})
    for phase in phases:
        for member in members:
            spent = {job: ledger.spent_ns.get((phase.name, member, job), 0) for job in SHARES}
            phase.found[member] = {job: round(percent, 2) for job, percent in _percent(spent).items()}
    return SharesReport(phases)


def _percent(weights: dict[str, float] | dict[str, int]) -> dict[str, float]:
    total = sum(weights.values())
    return {job: 100 * weight / total for job, weight in weights.items()}


def _deployment(job: str, workers: int, source: Eager) -> Deployment:
    """Returns a job with a source, a costly function and a sink on each worker; batches are routed round robin."""
    read = Stage("source", SCHEMA, edges=[Edge("work", "in", Rebalance())])
    done = Stage("work", SCHEMA, edges=[Edge("end", "in", Forward())])
    specs = [
        FunctionSpec("source", source, workers, {"out": read}),
        FunctionSpec("work", Pass(), workers, {"out": done}),
        FunctionSpec("end", Swallow(), workers),
    ]
    return Deployment(job, {spec.name: spec for spec in specs}, share=SHARES[job])


def _cost_ns(chance: random.Random, instance: Instance, work: Work) -> int:
    if instance.address.function != "work":
        return READ_NS
    return int(COSTS_NS[instance.address.job] * chance.uniform(0.8, 1.2))
