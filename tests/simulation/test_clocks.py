"""Wall clocks that step, forward or back: the results and the checkpoints of a job do not suffer.

`stretto simulate faults --clocks` runs the same with more seeds.
"""

from __future__ import annotations

from stretto.simulator.checking.clocks import try_clocks
from stretto.simulator.checking.fault_mutations import MUTATIONS

SEEDS = 25


def test_steps_of_clocks_change_neither_results_nor_cadence() -> None:
    checkpoints = 0
    for seed in range(SEEDS):
        trial = try_clocks(seed, 3, 5)
        assert not trial.violations, f"seed {seed}: {trial.faults}: {trial.violations[0]}"
        checkpoints += trial.checkpoints
    assert checkpoints > SEEDS


def test_a_driver_with_the_raw_wall_clock_is_caught() -> None:
    trials = [try_clocks(seed, 3, 5, MUTATIONS["raw-clock"]) for seed in range(SEEDS)]
    assert {each.kind for trial in trials for each in trial.violations} >= {"cadence", "liveness"}
