"""Workers come and go on random scenarios: no violation in many seeds, and every planted bug is caught.

`stretto simulate workers` runs the same with more seeds.
"""

from __future__ import annotations

from itertools import chain

import pytest

from stretto.simulator.checking.scaling_workers import try_seed
from stretto.simulator.checking.scaling_workers_mutations import SCALING_MUTATIONS

SEEDS = 12
CAUGHT_WITHIN = 40
CAUGHT_AT = {
    "snapshot-cut-off": 233,
    "newcomer-not-told": 413,
    "lost-part-awaited": 2675,
    "leaver-forgotten": 149,
    "queued-moves-kept": 51,
    "left-at-once": 1,
    "drained-replaced": 26,
    "host-before-code": 3,
}
"""Where to look first for bugs that few runs show."""


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


@pytest.mark.parametrize("name", SCALING_MUTATIONS)
def test_a_planted_bug_is_caught(name: str) -> None:
    seeds = chain((CAUGHT_AT[name],) if name in CAUGHT_AT else (), range(CAUGHT_WITHIN))
    trials = (try_seed(seed, 5, 7, SCALING_MUTATIONS[name]) for seed in seeds)
    assert any(trial.violations for trial in trials), f"{name} was not caught within {CAUGHT_WITHIN} seeds"


@pytest.mark.parametrize("seed", CAUGHT_AT.values())
def test_without_the_bug_the_same_seed_shows_nothing(seed: int) -> None:
    trial = try_seed(seed, 5, 7)
    assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
