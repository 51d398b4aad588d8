"""What entities keep between calls, under random trouble: no violation in many seeds, every planted bug is caught.

`stretto simulate transactions --kept` runs the same with more seeds.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking import kept_transactions
from stretto.simulator.checking.kept_mutations import KEPT_MUTATIONS
from stretto.simulator.checking.kept_transactions import try_kept_seed

SEEDS = 60
CAUGHT_WITHIN = 45
RARE = {"refused-too-soon"}
"""This one needs some thousand seeds. (What it does wrong, `tests/unit/transactions/test_idempotency.py` finds.)"""


def test_no_seed_shows_a_violation() -> None:
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = try_kept_seed(seed, workers_max=4)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
        for name in (
            "transactions",
            "aborted",
            "fallbacks",
            "crashes",
            "torn",
            "snapshots",
            "evidence",
            "rung",
            "expired",
        ):
            totals[name] += getattr(trial, name)
    # What the run is about has happened.
    assert totals["transactions"] > 30 * SEEDS
    assert totals["evidence"] > 10 * SEEDS
    assert min(totals["crashes"], totals["fallbacks"], totals["snapshots"], totals["aborted"]) > SEEDS
    assert min(totals["torn"], totals["expired"]) > SEEDS / 5
    assert totals["rung"] > 5 * SEEDS


@pytest.mark.parametrize("name", sorted(KEPT_MUTATIONS.keys() - RARE))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_transactions, "STEPS_MAX", 10_000)  # A run that does not end is caught sooner.
    bug = KEPT_MUTATIONS[name]

    def catches(seed: int) -> bool:
        """Without the bug, the run must be right: some need more steps than there are here."""
        return bool(try_kept_seed(seed, 4, bug).violations) and not try_kept_seed(seed, 4).violations

    assert_caught("kept_transactions", name, catches, CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    assert try_kept_seed(5, 4) == try_kept_seed(5, 4)
