"""Entities that emit rows into a stream, on whole simulated workers under crashes, hangs, restarts and handovers."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking import emitted_rows
from stretto.simulator.checking.emitted_mutations import EMITTED_MUTATIONS
from stretto.simulator.checking.emitted_rows import try_seed

SEEDS = 40
CAUGHT_WITHIN = 60


def test_no_seed_shows_a_violation() -> None:
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=3)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
        for name in ("rows", "crashes", "restarts", "recoveries", "handovers", "moves", "snapshots", "stopped"):
            totals[name] += getattr(trial, name)
    # What the run is about has happened.
    assert totals["rows"] > 40 * SEEDS
    assert totals["snapshots"] > SEEDS
    assert min(totals["crashes"], totals["recoveries"], totals["handovers"], totals["moves"]) > SEEDS / 4
    assert totals["restarts"] > 3
    assert totals["stopped"] > SEEDS / 4


@pytest.mark.parametrize("name", sorted(EMITTED_MUTATIONS))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitted_rows, "STEPS_MAX", 30_000)  # A run that does not end is caught sooner.
    bug = EMITTED_MUTATIONS[name]
    assert_caught("emitted_rows", name, lambda seed: bool(try_seed(seed, 3, bug).violations), CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    assert try_seed(10, 3) == try_seed(10, 3)
