"""Observations and decisions of a made-up cluster of any size, second by second: the feed for measuring the page.

The figures are drawn at random (seeded), but they belong together: totals only grow, rows that are sent arrive, what
waits for credits waits for the slow function. Nothing here runs; the page cannot tell.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.actors.shape import Feed, FunctionShape
from stretto.api.slo import objective
from stretto.elasticity.decisions import Repartition
from stretto.elasticity.records import Candidate, DecisionRecord, Outcome, Trigger
from stretto.observation.model import (
    ActorObserved,
    CheckpointObserved,
    CheckpointsObserved,
    FunctionObserved,
    JobObserved,
    Observation,
    WorkerObserved,
    worker_loads,
)
from stretto.observation.transactions import EntitiesObserved, PlaceObserved
from stretto.protocol.membership import Member
from stretto.protocol.transactions import TransactionTotals

SECOND_NS = 1_000_000_000
FUNCTIONS = ("bids", "parse", "windows", "ranking", "out")
SLOW = "windows"
"""The function that is slow in the jobs that are congested."""
COSTS_US = {"bids": 2.0, "parse": 3.0, "windows": 6.0, "ranking": 4.0, "out": 1.0}
ROWS_PER_MESSAGE = 500
RESULTS_PER_S = 40
CHECKPOINT_EVERY_S = 10
PLACES = 2
"""Of the entities of a job."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """The size of the cluster, how many of its jobs are congested, and the seed of all figures."""

    jobs: int = 200
    workers: int = 100
    congested: int = 1
    banks: int = 0
    """Jobs with entities and no streams."""
    seed: int = 1
    begins_ns: int = SECOND_NS

    def names(self) -> list[str]:
        """Returns the names of the jobs; the congested ones come first."""
        return [f"job-{number:03}" for number in range(self.jobs)]


class MadeUpCluster:
    """A cluster that is never there."""

    def __init__(self, size: MadeUp) -> None:
        self._size = size
        self._random = random.Random(size.seed)
        self._seconds = 0
        self._totals: dict[tuple[str, str], FunctionMetrics] = {}
        self._sketches = {name: LatencySketch() for name in size.names()}
        self._banks = {f"bank-{number:03}": _Bank(number, size) for number in range(size.banks)}
        self._decided = 0
        self._checkpoints: dict[str, list[CheckpointObserved]] = {name: [] for name in size.names()}

    def observations(self, seconds: int) -> Iterator[Observation]:
        """Yields the observations of the next seconds."""
        for _ in range(seconds):
            yield self.observe()

    def observe(self) -> Observation:
        """Returns the observation of the next second."""
        self._seconds += 1
        now_ns = self._size.begins_ns + self._seconds * SECOND_NS
        jobs = {name: self._job(place, name, now_ns) for place, name in enumerate(self._size.names())}
        busy, queued = worker_loads(jobs.values())
        workers = {
            name: WorkerObserved(
                Member(name, "", "", f"host-{place // 4}", 4_000 + place),
                False,
                busy.get(name, 0),
                queued.get(name, 0),
                0,
                memory_bytes=300_000_000 + place,
            )
            for place, name in enumerate(self._worker(place) for place in range(self._size.workers))
        }
        banks = {name: bank.observed() for name, bank in self._banks.items()}
        return Observation(now_ns, jobs, workers, entities=banks)

    def decide(self) -> DecisionRecord:
        """Returns the record of a decision of this second."""
        self._decided += 1
        chance = self._random
        job = chance.choice(self._size.names())
        share = chance.uniform(0.86, 0.99)
        before, after = chance.randint(1, 3), chance.randint(4, 6)
        return DecisionRecord(
            self._size.begins_ns + self._seconds * SECOND_NS,
            "henge",
            job,
            SLOW,
            None,
            Trigger.OBJECTIVE,
            "its objective is missed and this function is the fullest",
            {"busy_share": share, "latency_ms": chance.uniform(600, 2_000), "instances": before},
            (
                Candidate(f"repartition into {after}", {"busy_share": share * before / after}),
                Candidate("one worker more", {"busy_share": share * 0.95}, "it brings less than 10 percent"),
            ),
            Repartition(job, SLOW, after),
            outcome=Outcome.DONE,
            effect={"busy_share": share * before / after, "latency_ms": chance.uniform(40, 200), "instances": after},
            number=self._decided,
        )

    def _worker(self, place: int) -> str:
        return f"w{place % self._size.workers}~1"

    def _job(self, place: int, name: str, now_ns: int) -> JobObserved:
        is_slow = place < self._size.congested
        rate = (4_000 + 500 * (place % 9)) * self._random.uniform(0.9, 1.1) * (0.4 if is_slow else 1.0)
        functions = {}
        for depth, function in enumerate(FUNCTIONS):
            member = self._worker(place * len(FUNCTIONS) + depth)
            functions[function] = self._function(name, function, depth, rate, member, is_slow)
        if self._seconds % CHECKPOINT_EVERY_S == 0:
            took_ns = int(self._random.uniform(20, 90) * 1e6)
            number, bytes_ = self._seconds // CHECKPOINT_EVERY_S, int(4e6 + 1e4 * self._seconds)
            self._checkpoints[name].append(CheckpointObserved(number, now_ns, bytes_, bytes_ // 10, took_ns))
        placement = {each: (actors.actors[0].member,) for each, actors in functions.items()}
        members = tuple(sorted({homes[0] for homes in placement.values()}))
        checkpoints = CheckpointsObserved(tuple(self._checkpoints[name][-8:]), CHECKPOINT_EVERY_S * SECOND_NS)
        slo = objective(latency="500 ms", priority=1 + place % 3)
        return JobObserved(name, "running", name, members, placement, functions, slo, checkpoints=checkpoints)

    def _function(self, job: str, name: str, depth: int, rate: float, member: str, is_slow: bool) -> FunctionObserved:
        before = self._totals.get((job, name), FunctionMetrics())
        rows = int(rate * 0.6**depth)
        above = FUNCTIONS[depth - 1] if depth else None
        below = FUNCTIONS[depth + 1] if depth + 1 < len(FUNCTIONS) else None
        holds = is_slow and name == SLOW
        held = is_slow and FUNCTIONS.index(SLOW) > depth
        busy_ns = int(0.98 * SECOND_NS) if holds else int(rows * COSTS_US[name] * 1e3)
        latency = None
        if below is None:
            sketch = self._sketches[job]
            for _ in range(RESULTS_PER_S):
                usual = self._random.lognormvariate(3.0, 0.5) + (1_500 if is_slow else 0)
                sketch.add(int(usual * 1e6), 1)
            latency = sketch.export()
        totals = FunctionMetrics(
            rows_in=before.rows_in + rows,
            rows_out=before.rows_out + int(rows * 0.6),
            rows_due=before.rows_due + (rows if not depth else 0),
            messages_in=before.messages_in + max(1, rows // ROWS_PER_MESSAGE),
            busy_ns=before.busy_ns + busy_ns,
            queued=28 + self._random.randint(0, 4) if holds or (held and depth) else self._random.randint(0, 2),
            executed_from={} if above is None else {above: before.executed_from.get(above, 0) + rows},
            sent_to={} if below is None else {below: before.sent_to.get(below, 0) + int(rows * 0.6)},
            counts={"late_rows": before.counts.get("late_rows", 0) + self._random.randint(0, 1)} if depth == 2 else {},
            latency=latency,
            waited_ns={below: before.waited_ns.get(below, 0) + int(0.8 * SECOND_NS)} if held and below else {},
            watermark_us=(self._size.begins_ns + self._seconds * SECOND_NS) // 1_000 - 100_000 * depth,
        )
        self._totals[job, name] = totals
        feeds = () if above is None else (Feed(above, "in", False),)
        keyed: dict[str, tuple[str, ...]] = {"in": ("auction",)} if depth in (2, 3) else {}
        shape = FunctionShape(name, 1, feeds=feeds, partitioned_by=keyed, is_sink=below is None)
        actor = ActorObserved(0, member, totals, before, SECOND_NS)
        return FunctionObserved(shape, (actor,), int(2e6 + 1e4 * self._seconds) if depth == 2 else None)


class _Bank:
    """The entities of a job, on two workers. Some transactions meet, some are aborted."""

    def __init__(self, number: int, size: MadeUp) -> None:
        self._random = random.Random(f"{size.seed}/{number}")
        self._members = [f"w{(number + place) % size.workers}~1" for place in range(PLACES)]
        self._totals = [TransactionTotals() for _ in self._members]
        self._sketches = [LatencySketch() for _ in self._members]

    def observed(self) -> EntitiesObserved:
        """Returns what is observed of the next second."""
        before, self._totals = self._totals, [self._counted(place) for place in range(PLACES)]
        triples = zip(self._members, self._totals, before, strict=True)
        places = tuple(PlaceObserved(number, *each, SECOND_NS) for number, each in enumerate(triples, 1))
        return EntitiesObserved("running", 1, places, snapshot=3)

    def _counted(self, place: int) -> TransactionTotals:
        chance, known = self._random, self._totals[place]
        calls = chance.randint(800, 1_200)
        poor, wrong = calls // 20, chance.randint(0, 2)
        for _ in range(20):
            self._sketches[place].add(int(chance.lognormvariate(1.5, 0.4) * 1e6), calls // 20)
        aborted = known.aborted
        return TransactionTotals(
            known.committed + calls - poor - wrong,
            {
                "NotEnough": aborted.get("NotEnough", 0) + poor,
                "ValueError": aborted.get("ValueError", 0) + wrong,
            },
            known.conflicts + calls // 10,
            known.again + chance.randint(0, 1),
            known.epochs + chance.randint(90, 110),
            known.looks + calls // 4,
            known.refused,
            entities=10_000,
            waiting=chance.randint(0, 30),
            latency=self._sketches[place].export(),
        )
