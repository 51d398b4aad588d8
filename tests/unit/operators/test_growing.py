"""Splits that appear while a source is read: each row is read once, whoever resumes with whatever parallelism."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.actors.shape import shapes_of
from stretto.actors.source import SPLITS_MAX, GrowingSource, Lookout, Reading, SourceReader
from stretto.api.app import App
from stretto.api.lowering import lowered
from stretto.api.memory import CollectSink
from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.checkpoints.resuming import Resumption
from stretto.errors import PlanError, SourceError
from stretto.operators.growing import GrowingSourceFunction

SCHEMA = pa.schema([("split", pa.int64()), ("row", pa.int64())])


class Log:
    """What a system outside has: rows in numbered splits, which grow in number and in length."""

    def __init__(self, splits: int) -> None:
        self.rows = [0] * splits


class LogReader(SourceReader):
    def __init__(self, log: Log, number: int, first: int, end: int | None) -> None:
        self._log, self._number, self.position, self._end = log, number, first, end

    def read(self, now_ns: int, max_rows: int) -> Reading:
        if self._end is not None and self.position >= self._end:
            return Reading(None, now_ns, done=True)
        present = self._log.rows[self._number] if self._end is None else self._end
        end = min(present, self.position + max_rows)
        rows = [{"split": self._number, "row": row} for row in range(self.position, end)]
        self.position = end
        return Reading(pa.RecordBatch.from_pylist(rows, SCHEMA) if rows else None, now_ns, next_ns=now_ns + 1)

    def seek(self, position: int) -> None:
        self.position = position


class Present(Lookout):
    closed = False

    def __init__(self, log: Log) -> None:
        self._log = log

    def splits(self) -> int:
        return len(self._log.rows)

    def close(self) -> None:
        self.closed = True


class LogSource(GrowingSource):
    """Begins at the end that each split had when it was made, as a topic with start='latest' does."""

    schema = SCHEMA

    def __init__(self, log: Log, ends: bool = False) -> None:
        self.log, self.is_endless, self.firsts = log, not ends, list(log.rows)

    def splits(self) -> int:
        return len(self.firsts)

    def reader(self, partition: int, partitions: int) -> LogReader:
        first, end = (self.firsts[partition], None) if self.is_endless else (0, self.firsts[partition])
        return LogReader(self.log, partition, first, end)

    def newcomer(self, number: int) -> LogReader:
        return LogReader(self.log, number, 0, None)

    def lookout(self) -> Present:
        return Present(self.log)


def opened(source: LogSource, parallelism: int) -> list[GrowingSourceFunction]:
    functions = []
    for partition in range(parallelism):
        ctx = Context("job", "f", partition, parallelism, {"out": SCHEMA})
        ctx.attempt = Attempt("0123abcd", 1, 1)
        function = GrowingSourceFunction(source, None, 0, None, None, 3, 0, SCHEMA)
        function.open(ctx)
        functions.append(function)
    return functions


def rows_of(reading: Reading) -> list[tuple[int, int]]:
    return [] if reading.batch is None else [(row["split"], row["row"]) for row in reading.batch.to_pylist()]


def resumption(source: LogSource, before: int, after: int) -> Resumption:
    """How a dataflow with this source resumes with another parallelism, as the coordinator works it out."""

    def shapes(parallelism: int) -> Any:
        app = App("app")
        app.source("s", source, parallelism=parallelism).sink(CollectSink(), name="out")
        return shapes_of(lowered(app.plan(), "app", parallelism, 100))

    had = {"s": [ActorRecord()] * before, "out": [ActorRecord()]}
    return Resumption(Manifest("app", 1, had, shapes=shapes(before)), shapes(after))


@pytest.mark.parametrize("seed", range(8))
def test_each_row_is_read_once_whatever_appears_and_whoever_resumes(seed: int) -> None:
    chance = random.Random(seed)
    log = Log(chance.randint(2, 4))
    log.rows = [chance.randint(0, 9) for _ in log.rows]
    source = LogSource(log)
    began = list(log.rows)
    functions = opened(source, chance.randint(1, 2))
    found: list[tuple[int, int]] = []
    kept: tuple[int, dict[int, Any]] = (0, {})
    for step in range(400):
        event = chance.random()
        if event < 0.02:
            log.rows.append(0)
        elif event < 0.4:
            log.rows[chance.randrange(len(log.rows))] += chance.randint(1, 5)
        elif event < 0.94:
            reading = chance.choice(functions).read(step)
            assert not reading.done
            found += rows_of(reading)
        elif event < 0.97:
            kept = len(found), {p: each.remember() for p, each in enumerate(functions)}
        elif kept[1]:
            # A failure: a new driver looks at the log, and goes on from the last checkpoint.
            found, had = found[: kept[0]], len(kept[1])
            source = LogSource(log)
            functions = opened(source, chance.randint(1, min(4, len(log.rows))))
            who = resumption(source, had, len(functions))
            for partition, function in enumerate(functions):
                mine = {former: kept[1][former] for former in who.follows("s", partition)}
                function.recall(function.regroup(mine, 1))
    for _ in range(100 * len(log.rows)):
        for function in functions:
            found += rows_of(function.read(0))
    first = dict(enumerate(began))
    assert sorted(found) == [(n, row) for n, rows in enumerate(log.rows) for row in range(first.get(n, 0), rows)]


def test_a_source_with_an_end_reads_the_splits_that_were_there_and_ends() -> None:
    log = Log(2)
    log.rows = [2, 1]
    (function,) = opened(LogSource(log, ends=True), 1)
    log.rows += [5]
    log.rows[0] = 7
    found: list[tuple[int, int]] = []
    while not (reading := function.read(0)).done:
        found += rows_of(reading)
    assert sorted(found) == [(0, 0), (0, 1), (1, 0)]


def test_a_partition_without_a_split_is_refused() -> None:
    source = LogSource(Log(2))
    with pytest.raises(SourceError, match="cannot be read by 3 partitions"):
        opened(source, 3)
    app = App("app")
    app.source("s", source, parallelism=3).sink(CollectSink(), name="out")
    with pytest.raises(PlanError, match="source 's' cannot have a parallelism of 3"):
        lowered(app.plan(), "app", 1, 100)


def test_without_a_wish_there_are_not_more_partitions_than_splits() -> None:
    app = App("app")
    app.source("s", LogSource(Log(2))).sink(CollectSink(), name="out")
    deployment = lowered(app.plan(), "app", 8, 100)
    assert deployment.functions["s"].parallelism == 2
    assert shapes_of(deployment)["s"].splits == SPLITS_MAX


def test_the_lookout_is_closed_with_the_function() -> None:
    (function,) = opened(LogSource(Log(1)), 1)
    lookout = function._lookout
    function.close()
    assert isinstance(lookout, Present)
    assert lookout.closed
