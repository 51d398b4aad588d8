"""Checkpoints and recovery under random faults; `stretto simulate faults` runs the same with more seeds."""

from __future__ import annotations

import gc

import pytest

from stretto.actors.instance import Instance
from stretto.coordinator.records import JobStatus
from stretto.simulator.checking.faults import try_every_step, try_seed
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import SimulatedCluster

SEEDS = 100


def test_no_seed_shows_a_violation() -> None:
    checkpoints = recoveries = takeovers = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=5, functions_max=7)
        assert not trial.violations, f"seed {seed}: {trial.faults}: {trial.violations[0]}"
        checkpoints += trial.checkpoints
        recoveries += trial.recoveries
        takeovers += trial.takeovers
    assert checkpoints > SEEDS
    assert recoveries > SEEDS / 2
    assert takeovers > SEEDS / 10


def test_a_crash_at_any_step_changes_nothing() -> None:
    runs = 0
    for trial in try_every_step(0, 3):
        assert not trial.violations, f"{trial.faults}: {trial.violations[0]}"
        runs += 1
    assert runs > 200


def _instances() -> int:
    """Returns the number of live actor instances. Messages cannot be counted: the collector does not track them."""
    gc.collect()
    return sum(isinstance(found, Instance) for found in gc.get_objects())


@pytest.mark.parametrize("rescales", [False, True])
def test_a_run_that_is_over_leaves_nothing_behind(rescales: bool) -> None:
    before = _instances()
    for seed in range(10):
        try_seed(seed, 5, 7, rescales=rescales)
    assert _instances() == before


def test_a_job_that_is_stopped_leaves_nothing_behind() -> None:
    """Also when it is stopped during a barrier. The cluster is not closed, because a real one would keep running."""
    before = _instances()
    for seed in range(40):
        cluster, scenario = SimulatedCluster(4, seed), Scenario(seed, 8)
        cluster.submit(scenario.deployment)
        cluster.stop(scenario.deployment.job, 3_000_000 + seed * 300_000)
        cluster.run()
        assert cluster.jobs[scenario.deployment.job].status is JobStatus.STOPPED
        del cluster, scenario
    assert _instances() == before


def test_equal_seeds_give_equal_runs() -> None:
    one, other = (try_seed(11, 5, 7) for _ in range(2))
    assert (one.faults, one.checkpoints, one.recoveries) == (other.faults, other.checkpoints, other.recoveries)
