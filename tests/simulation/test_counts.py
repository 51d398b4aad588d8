"""Counters of a function are not lost when a lessee, or a task of an elastic executor, ends and the job resumes later.

A function counts its rows twice: in its state, which a checkpoint has whole, and by `ctx.count`. When it resumes, both
must be equal.
"""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.simulator.checking import faults
from stretto.simulator.checking.elastic import plan_moves
from stretto.simulator.checking.elastic_scenarios import ElasticScenario, Tally
from stretto.simulator.checking.scenarios import Scenario, rows_of
from stretto.state import MapState

RESUMED: list[tuple[int, int]] = []
"""The rows that actors had run when they resumed: by their state, and by their counter."""


class CountedTally(Tally):
    """Counts its rows by key, and by a counter. It sends every row on."""

    def open(self, ctx: Context) -> None:
        self._ctx = ctx

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.count("rows", batch.num_rows)
        super().process(batch, ctx)

    def recall(self, remembered: Any) -> None:
        RESUMED.append((sum(count for _, count in self.counts.items()), self._ctx.counts.get("rows", 0)))


class SpreadTally(CountedTally):
    """The same, with partial states that are merged at barriers, so that it has lessees."""

    def __init__(self) -> None:
        self.counts = MapState(combine=operator.add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.count("rows", batch.num_rows)
        for _, k, _ in rows_of(batch):
            self.counts[k] = self.counts.get(k, 0) + 1
        ctx.send(batch)


class CountedElastic(ElasticScenario):
    """Elastic functions that count, and whose tasks often lose their leases."""

    comes_home = 0.5
    rests_ns = (20_000_000,)

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        return CountedTally()


class CountedSpread(Scenario):
    """Functions that count and are spread; between them, order does not matter."""

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        return SpreadTally()


def disturb(cluster: Any, scenario: Any, chance: Any) -> None:
    if isinstance(scenario, ElasticScenario):
        plan_moves(cluster, scenario, chance)


@pytest.mark.parametrize("kind", [CountedElastic, CountedSpread])
def test_counters_are_as_complete_as_the_state(kind: type[Scenario]) -> None:
    RESUMED.clear()
    for seed in range(12):
        trial = faults.try_seed(seed, 5, 5, None, False, kind, disturb)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
    assert sum(by_state > 0 for by_state, _ in RESUMED) > 5
    assert [pair for pair in RESUMED if pair[0] != pair[1]] == []
