"""Questions about a published table while copies move, workers are slow or lost, and the job resumes."""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.question_mutations import QUESTION_MUTATIONS
from stretto.simulator.checking.questions import totals, try_seed

SEEDS = 24
CAUGHT_WITHIN = 60


def test_no_answer_is_wrong_and_none_fails() -> None:
    trials = [try_seed(seed, 4) for seed in range(SEEDS)]
    for trial in trials:
        assert not trial.violations, f"seed {trial.seed}: {trial.violations[0]}"
    found = totals(trials)
    # What the run is about has happened.
    assert found["questions"] > 15 * SEEDS
    assert min(found["loads"], found["changes"]) > SEEDS
    assert found["idle"] > SEEDS / 4
    assert min(found["crashes"], found["recoveries"]) > SEEDS / 4


@pytest.mark.parametrize("name", sorted(QUESTION_MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = QUESTION_MUTATIONS[name]
    assert_caught("questions", name, lambda seed: bool(try_seed(seed, 4, bug).violations), CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    assert try_seed(7, 4) == try_seed(7, 4)
