"""Elastic executors on random scenarios while shards move: no violation in many seeds, and every planted bug is caught.

`stretto simulate elastic` runs the same with more seeds.
"""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.elastic import try_seed, try_with_faults
from stretto.simulator.checking.elastic_mutations import ELASTIC_FAULT_MUTATIONS, ELASTIC_MUTATIONS
from stretto.simulator.engine.durable import Parts

SEEDS = 24
FAULT_SEEDS = 16
CAUGHT_WITHIN = 1_000


def test_no_seed_shows_a_violation() -> None:
    moved = barriers = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=6, functions_max=7)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
        moved += trial.moved
        barriers += trial.barriers
    assert moved > 20 * SEEDS
    assert barriers > 10 * SEEDS


def test_states_in_many_pieces_show_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.worker.elastic.owners.Owners.piece_bytes", 7)
    for seed in range(6):
        trial = try_seed(seed, workers_max=6, functions_max=7)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"


def test_no_fault_loses_or_repeats_a_row_while_shards_move() -> None:
    recoveries = 0
    for seed in range(FAULT_SEEDS):
        trial = try_with_faults(seed, workers_max=5, functions_max=7)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}, faults: {trial.faults}"
        recoveries += trial.recoveries
    assert recoveries > FAULT_SEEDS // 4


def test_nor_does_a_restart_with_other_partitions() -> None:
    for seed in range(FAULT_SEEDS // 2):
        trial = try_with_faults(seed, workers_max=5, functions_max=7, rescales=True)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}, faults: {trial.faults}"


def test_there_are_at_least_eight_mutations() -> None:
    assert len(ELASTIC_MUTATIONS) >= 8


@pytest.mark.parametrize("name", ELASTIC_MUTATIONS)
def test_a_broken_executor_is_caught(name: str) -> None:
    bug = ELASTIC_MUTATIONS[name]
    assert_caught("elastic", name, lambda seed: bool(try_seed(seed, 6, 7, bug).violations), CAUGHT_WITHIN)


@pytest.mark.parametrize("name", ELASTIC_FAULT_MUTATIONS)
def test_a_broken_checkpoint_is_caught(name: str) -> None:
    parts = Parts(worker=ELASTIC_FAULT_MUTATIONS[name])
    assert_caught("elastic", name, lambda seed: bool(try_with_faults(seed, 5, 7, parts).violations), CAUGHT_WITHIN)
