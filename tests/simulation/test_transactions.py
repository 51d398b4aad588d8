"""Transactions of entities under random trouble: no violation in many seeds, and every planted bug is caught.

`stretto simulate transactions` runs the same with more seeds.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking import transactions
from stretto.simulator.checking.transaction_mutations import TRANSACTION_MUTATIONS
from stretto.simulator.checking.transactions import try_seed

SEEDS = 60
CAUGHT_WITHIN = 45
RARE = {"earlier-attempts-heard", "upgrades-among-readers", "waves-run-ahead"}
"""These need more seeds than there is time for here: `stretto simulate transactions --mutate`. (What the second
one does wrong, `tests/unit/transactions/test_deciding.py` finds.)"""


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


@pytest.mark.parametrize("name", sorted(TRANSACTION_MUTATIONS.keys() - RARE))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "STEPS_MAX", 10_000)  # A run that does not end is caught sooner.
    bug = TRANSACTION_MUTATIONS[name]

    def catches(seed: int) -> bool:
        """Without the bug, the run must be right: some need more steps than there are here."""
        return bool(try_seed(seed, 4, bug).violations) and not try_seed(seed, 4).violations

    assert_caught("transactions", name, catches, CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    assert try_seed(5, 4) == try_seed(5, 4)
