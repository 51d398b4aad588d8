"""Objectives that change while jobs run, with crashes and handovers between."""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.promise_mutations import PROMISE_MUTATIONS
from stretto.simulator.checking.promises import try_promises

SEEDS = 12
CAUGHT_WITHIN = 12


def test_no_seed_shows_a_violation() -> None:
    trials = [try_promises(seed) for seed in range(SEEDS)]
    for trial in trials:
        assert not trial.violations, f"seed {trial.seed}: {trial.violations[0]}"
    # What the run is about has happened.
    assert sum(trial.kept for trial in trials) > 2 * SEEDS
    assert min(sum(trial.crashes for trial in trials), sum(trial.handovers for trial in trials)) > SEEDS


@pytest.mark.parametrize("name", sorted(PROMISE_MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = PROMISE_MUTATIONS[name]
    assert_caught("promises", name, lambda seed: bool(try_promises(seed, bug).violations), CAUGHT_WITHIN)
