"""Handovers of running jobs on random scenarios: no violation in many seeds, and every planted bug is caught.

`stretto simulate scaling` runs the same with more seeds.
"""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught, known_seed

from stretto.simulator.checking.scaling import try_plain, try_seed, try_with_faults
from stretto.simulator.checking.scaling_mutations import SCALING_MUTATIONS

PLAIN_SEEDS = 12
FAULT_SEEDS = 8
CAUGHT_WITHIN = 1_000


def test_no_handover_loses_repeats_or_reorders_a_row() -> None:
    handovers = 0
    for seed in range(PLAIN_SEEDS):
        trial = try_plain(seed, workers_max=4, functions_max=6)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
        handovers += trial.handovers
    assert handovers > PLAIN_SEEDS // 2


def test_what_is_given_in_many_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.worker.handover.givers.PIECE_BYTES", 50)
    for seed in range(3):
        trial = try_plain(seed, workers_max=4, functions_max=6)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"


def test_nor_with_checkpoints_and_faults() -> None:
    handovers = recoveries = 0
    for seed in range(FAULT_SEEDS):
        trial = try_with_faults(seed, workers_max=4, functions_max=6)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}, faults: {trial.log}"
        handovers += trial.handovers
        recoveries += trial.recoveries
    assert handovers
    assert recoveries


def test_time_is_that_of_the_slowest_of_several_sources() -> None:
    """Where `time-ahead` would be noticed."""
    trials = list(try_seed(known_seed("scaling", "time-ahead"), 4, 6))
    assert any(trial.handovers for trial in trials)
    for trial in trials:
        assert not trial.violations, f"{trial.violations[0]}\n{trial.log}"


@pytest.mark.parametrize("name", SCALING_MUTATIONS)
def test_a_broken_handover_is_caught(name: str) -> None:
    def catches(seed: int) -> bool:
        return any(trial.violations for trial in try_seed(seed, 4, 6, SCALING_MUTATIONS[name]))

    assert_caught("scaling", name, catches, CAUGHT_WITHIN)
