"""Transactions in the machines that host them on Spark, under crashes, hangs and lost connections."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking import transactions
from stretto.simulator.checking.hosted_mutations import HOSTED_MUTATIONS
from stretto.simulator.checking.hosted_transactions import try_hosted_seed

SEEDS = 50
CAUGHT_WITHIN = 45


def test_no_seed_shows_a_violation() -> None:
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = try_hosted_seed(seed, workers_max=4)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
        for name in ("transactions", "aborted", "crashes", "torn", "snapshots", "moves", "evidence"):
            totals[name] += getattr(trial, name)
    # What the run is about has happened.
    assert totals["transactions"] > 25 * SEEDS
    assert min(totals["crashes"], totals["aborted"], totals["snapshots"], totals["moves"]) > SEEDS
    assert totals["torn"] > SEEDS / 10


@pytest.mark.parametrize("name", sorted(HOSTED_MUTATIONS))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "STEPS_MAX", 10_000)  # A run that does not end is caught sooner.
    bug = HOSTED_MUTATIONS[name]
    assert_caught(
        "hosted_transactions", name, lambda seed: bool(try_hosted_seed(seed, 4, bug).violations), CAUGHT_WITHIN
    )


def test_equal_seeds_give_equal_runs() -> None:
    assert try_hosted_seed(5, 4) == try_hosted_seed(5, 4)
