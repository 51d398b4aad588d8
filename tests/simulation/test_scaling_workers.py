"""Workers come and go on random scenarios: no violation in many seeds, and every planted bug is caught.

`stretto simulate workers` runs the same with more seeds.
"""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.scaling_workers import try_seed
from stretto.simulator.checking.scaling_workers_mutations import SCALING_MUTATIONS

SEEDS = 12
CAUGHT_WITHIN = 40
RARE = {
    "snapshot-cut-off",
    "newcomer-not-told",
    "lost-part-awaited",
    "leaver-forgotten",
    "queued-moves-kept",
}
"""These need rarer faults, and more seeds than there is time for here: `stretto simulate workers --mutate`."""


def test_no_seed_shows_a_violation() -> None:
    added = drained = lessees_set = leases_ended = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=5, functions_max=7)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
        added += trial.added
        drained += trial.drained
        lessees_set += trial.lessees_set
        leases_ended += trial.leases_ended
    assert added > SEEDS // 2
    assert drained > SEEDS // 3
    assert lessees_set > SEEDS
    assert leases_ended > 0


@pytest.mark.parametrize("name", sorted(SCALING_MUTATIONS.keys() - RARE))
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = SCALING_MUTATIONS[name]
    assert_caught("scaling_workers", name, lambda seed: bool(try_seed(seed, 5, 7, bug).violations), CAUGHT_WITHIN)
