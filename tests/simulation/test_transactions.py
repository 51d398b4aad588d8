"""Transactions of entities under random trouble: no violation in many seeds.

`stretto simulate transactions` runs the same with more seeds.
"""

from __future__ import annotations

from collections import Counter

from stretto.simulator.checking.transactions import try_seed

SEEDS = 60


def test_no_seed_shows_a_violation() -> None:
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=4)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
        for name in ("transactions", "aborted", "fallbacks", "crashes", "torn", "snapshots", "evidence"):
            totals[name] += getattr(trial, name)
    # What the run is about has happened.
    assert totals["transactions"] > 30 * SEEDS
    assert min(totals["crashes"], totals["fallbacks"], totals["snapshots"]) > SEEDS
    assert min(totals["aborted"], totals["torn"]) > SEEDS / 5


def test_equal_seeds_give_equal_runs() -> None:
    assert try_seed(5, 4) == try_seed(5, 4)
