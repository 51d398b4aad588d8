"""Functions over rows that change, under random faults; `stretto simulate faults --changes` runs more seeds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.catching import assert_caught

from stretto.operators.changes.join import ChangingJoin
from stretto.operators.changes.multiset import Multiset
from stretto.simulator.checking.changing import ChangingScenario
from stretto.simulator.checking.faults import try_seed
from stretto.state import Fragment

SEEDS = 8
CAUGHT_WITHIN = 20


@pytest.mark.parametrize("rescales", [False, True])
def test_no_seed_shows_a_violation(rescales: bool) -> None:
    checkpoints = recoveries = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=5, functions_max=6, rescales=rescales, kind=ChangingScenario)
        assert not trial.violations, f"seed {seed}: {trial.faults}: {trial.violations[0]}"
        checkpoints += trial.checkpoints
        recoveries += trial.recoveries
    assert checkpoints > SEEDS
    assert recoveries > SEEDS / 3


def test_the_dataflows_have_every_kind_of_function() -> None:
    specs = [spec for seed in range(100) for spec in ChangingScenario(seed, 6).deployment.functions.values()]
    names = {type(spec.function).__name__ for spec in specs}
    assert {"RunningAggregate", "RunningTop", "ChangingAggregate", "ChangingJoin"} <= names
    kinds = {spec.function._how for spec in specs if isinstance(spec.function, ChangingJoin)}
    assert len(kinds) == 6


def nothing_is_restored(state: Multiset, fragments: list[Fragment]) -> None:
    """A state is empty after a failure."""


def the_last_fragment_is_forgotten(state: Multiset, fragments: list[Fragment]) -> None:
    REBUILD(state, fragments[:-1])


REBUILD = Multiset.rebuild
MUTATIONS: list[tuple[str, Any]] = [
    ("rebuild", nothing_is_restored),
    ("rebuild", the_last_fragment_is_forgotten),
]


@pytest.mark.parametrize(("name", "mutation"), MUTATIONS, ids=[each[1].__name__ for each in MUTATIONS])
def test_a_broken_state_is_caught(name: str, mutation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Multiset, name, mutation)

    def catches(seed: int) -> bool:
        return bool(try_seed(seed, 5, 6, rescales=True, kind=ChangingScenario).violations)

    assert_caught("changing_faults", mutation.__name__, catches, CAUGHT_WITHIN)
