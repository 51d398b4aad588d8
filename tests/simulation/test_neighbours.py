"""Good jobs beside one with a deadly function; `stretto simulate neighbours` runs the same with more seeds."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.neighbour_mutations import MUTATIONS
from stretto.simulator.checking.neighbours import try_seed
from stretto.simulator.engine.durable import DeadlyKind

SEEDS = 24
CAUGHT_WITHIN = 30


def test_a_deadly_function_ends_its_own_job_and_no_other() -> None:
    kinds: Counter[DeadlyKind] = Counter()
    deaths = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=4, functions_max=6)
        assert not trial.violations, f"seed {seed}: {trial.kind.value}: {trial.violations[0]}"
        kinds[trial.kind] += 1
        deaths += trial.deaths
    assert kinds.keys() == set(DeadlyKind)
    assert deaths > SEEDS


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_of_blame_is_caught(name: str) -> None:
    bug = MUTATIONS[name]
    assert_caught("neighbours", name, lambda seed: bool(try_seed(seed, 4, 6, bug).violations), CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    one, other = (try_seed(5, 4, 6) for _ in range(2))
    assert one == other
