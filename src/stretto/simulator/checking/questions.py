"""Questions while a table is published, copied and recovered, by seed: no answer is wrong, and none fails.

Rows of a partition are numbered, and come again after a failure. So an answer is right if, for each partition, it is
that of some prefix of its rows: at least those that were there when it was asked (or were durable, if the job has
failed since), and at most those that were there when it was answered. Each question is about random times, and its
answer is computed here from the log, without the code under test.

In some runs a partition gets no more rows after a while. A question that wants more of it than it has is answered when
its time is over, and says that it is this partition, and how far it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from random import Random

import pyarrow as pa

from stretto.queries.answers import Gathered, Question, TableName
from stretto.queries.moments import time_of
from stretto.queries.select import Compiled, TableShape, compiled, read_question
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.engine.asking import MS, SCHEMA, SEGMENT_US, STEP_US, TABLE, AskedCluster, AskingParts

ENDS_NS = 20_000 * MS
WITHIN_NS = 8_000 * MS
"""Time enough for any recovery, so that nothing may be missing."""
GRID_US = 5_000_000
"""Questions are about few different times, so that most are compiled once."""
_KINDS = (
    "SELECT p, count(*) AS c, sum(v) AS s FROM results{} GROUP BY p",
    "SELECT p, count(DISTINCT n) AS c, sum(v) AS s FROM results{} GROUP BY p ORDER BY p",
    "SELECT p, n, v FROM results{}",
)


@cache
def _compiled(text: str) -> Compiled:
    return compiled(read_question(text, 0, "UTC"), TableShape(SCHEMA, "at"), "UTC")


@dataclass(frozen=True)
class _Asked:
    """A question, and what was there when it was asked."""

    question: Compiled
    kind: int
    first_us: int | None
    last_us: int | None
    at_least_us: int | None
    committed: tuple[int, ...]
    there: dict[int, tuple[str, int]]
    """How many rows each partition had, and in which run of the job."""


@dataclass
class Trial:
    """One run, with its violations."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    questions: int = 0
    crashes: int = 0
    recoveries: int = 0
    loads: int = 0
    changes: int = 0
    idle: int = 0
    """Answers that wanted more than a partition had."""


class _Run:
    def __init__(self, seed: int, workers: int, parts: AskingParts) -> None:
        self.chance = chance = Random(f"questions {seed}")
        self.trial = Trial(seed)
        partitions = chance.randint(1, 4)
        memory_bytes = chance.choice((2_000, 20_000, 1 << 20))
        self.cluster = AskedCluster(seed, chance.randint(1, workers), partitions, None, parts, memory_bytes)
        self.cluster.gathered = self._gathered
        self._open: dict[int, _Asked] = {}
        self._left = chance.randint(10, 40)
        self._made = 0
        self._most = [0] * partitions
        self._idle = chance.randrange(partitions) if chance.random() < 0.3 else None
        self._idle_from_ns = chance.randint(0, 2_000 * MS)

    def run(self) -> Trial:
        cluster, chance = self.cluster, self.chance
        for partition in range(len(cluster.log)):
            self._rows_come(partition)
        self._ask()
        for _ in range(chance.choice((0, 0, 1, 2))):
            cluster.later(chance.randint(0, 3_000 * MS), cluster.crash)
        for _ in range(chance.choice((0, 2, 6))):
            cluster.later(chance.randint(0, 2_000 * MS), cluster.pause)
        cluster.run_until(ENDS_NS, lambda: not self._left and not self._open)
        trial = self.trial
        if self._open:
            trial.violations.append(Violation("unanswered", f"{len(self._open)} questions have no answer"))
        trial.crashes, trial.recoveries = cluster.crashes, cluster.recoveries
        trial.loads, trial.changes = cluster.loads, cluster.changes
        return trial

    def _rows_come(self, partition: int) -> None:
        if partition == self._idle and self.cluster.now_ns >= self._idle_from_ns:
            return
        self.cluster.publish_rows(partition)
        if partition in self.cluster.here:
            written = self.cluster.here[partition][1].written
            self._most[partition] = max(self._most[partition], written)
        self.cluster.later(self.chance.randint(1 * MS, 60 * MS), lambda: self._rows_come(partition))

    def _ask(self) -> None:
        if not self._left:
            return
        self._left -= 1
        self.cluster.later(self.chance.randint(1 * MS, 200 * MS), self._ask)
        chance, cluster = self.chance, self.cluster
        first_us = last_us = None
        where = ""
        latest = max(map(len, cluster.log)) * STEP_US
        if chance.random() < 0.6:
            first_us = chance.randint(0, latest // GRID_US) * GRID_US + chance.choice((0, 1))
            where = f" WHERE at >= timestamp_micros({first_us})"
            if chance.random() < 0.5:
                last_us = first_us + chance.randint(0, 6) * GRID_US
                where += f" AND at <= timestamp_micros({last_us})"
        kind = chance.randrange(len(_KINDS))
        question = _compiled(_KINDS[kind].format(where))
        at_least_us = latest + chance.randint(0, 5) * STEP_US if chance.random() < 0.2 else None
        self._made += 1
        there = {number: (part.job, part.written) for number, (_, part) in cluster.here.items()}
        self._open[self._made] = _Asked(question, kind, first_us, last_us, at_least_us, tuple(cluster.committed), there)
        self.trial.questions += 1
        cluster.ask(
            Question(
                self._made,
                TableName(TABLE, "app", SEGMENT_US, "at"),
                question.select.text,
                "UTC",
                SCHEMA.serialize().to_pybytes(),
                None,
                question.span.first_us,
                question.span.last_us,
                WITHIN_NS,
                at_least_us,
            )
        )

    # Checks.

    def _gathered(self, found: Gathered) -> None:
        asked = self._open.pop(found.ticket)
        if found.failure is None and found.missing and self._wants_too_much(asked):
            self._check_told(found)
            return
        if found.failure is not None or found.missing:
            why = found.failure.fact if found.failure is not None else "; ".join(map(str, found.missing))
            self.trial.violations.append(Violation("failed", f"question {found.ticket}: {why}"))
            return
        evaluation = asked.question.evaluation
        answer = evaluation.finished([evaluation.unpacked(part) for part in found.parts])
        for partition in range(len(self.cluster.log)):
            complaint = self._wrong(asked, partition, _of(answer, partition, asked.kind))
            if complaint is not None:
                self.trial.violations.append(Violation("wrong", f"question {found.ticket}: {complaint}"))

    def _wants_too_much(self, asked: _Asked) -> bool:
        """Whether a question waits for a partition that gets no more rows."""
        if self._idle is None or asked.at_least_us is None or self._idle not in self.cluster.here:
            return False
        return self.cluster.here[self._idle][1].watermark_us < asked.at_least_us

    def _check_told(self, found: Gathered) -> None:
        """The partition without rows is named, with how far it is, and no other."""
        assert self._idle is not None
        self.trial.idle += 1
        reached = time_of(self.cluster.here[self._idle][1].watermark_us).isoformat()
        told = [each.what for each in found.missing if f"event time is {reached}" in each.reason]
        if told != [f"partition {self._idle}"]:
            why = "; ".join(map(str, found.missing))
            self.trial.violations.append(
                Violation("not told", f"question {found.ticket}: partition {self._idle} is at {reached}, but {why}")
            )

    def _wrong(self, asked: _Asked, partition: int, mine: tuple[int, int]) -> str | None:
        log = self.cluster.log[partition]
        least = asked.committed[partition]
        job, count = asked.there.get(partition, ("", 0))
        here = self.cluster.here.get(partition)
        if here is not None and here[1].job == job:
            least = max(least, count)
        if asked.at_least_us is not None:
            least = max(least, asked.at_least_us // STEP_US)
        most = max(self._most[partition], here[1].written if here is not None else 0)
        wanted = [
            (number, log[number])
            for number in range(min(most, len(log)))
            if (asked.first_us is None or number * STEP_US >= asked.first_us)
            and (asked.last_us is None or number * STEP_US <= asked.last_us)
        ]
        possible = set()
        for prefix in range(least, most + 1):
            within = [value for number, value in wanted if number < prefix]
            possible.add((len(within), sum(within)))
        if mine in possible:
            return None
        return f"partition {partition} is {mine}, and should be that of {least} to {most} rows"


def _of(answer: pa.Table, partition: int, kind: int) -> tuple[int, int]:
    """Returns how many rows of a partition an answer has, and their sum."""
    rows = [row for row in answer.to_pylist() if row["p"] == partition]
    if kind == 2:
        return len(rows), sum(row["v"] for row in rows)
    assert len(rows) <= 1
    return (rows[0]["c"], rows[0]["s"]) if rows else (0, 0)


def try_seed(seed: int, workers: int, parts: AskingParts | None = None) -> Trial:
    """Runs one random scenario, and returns what was wrong."""
    return _Run(seed, workers, parts or AskingParts()).run()


def totals(trials: list[Trial]) -> Counter[str]:
    """Returns the sums of the figures of several runs."""
    found: Counter[str] = Counter()
    for trial in trials:
        for name in ("questions", "crashes", "recoveries", "loads", "changes", "idle"):
            found[name] += getattr(trial, name)
    return found
