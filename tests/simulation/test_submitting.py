"""Jobs that are submitted while workers are lost and replaced."""

from __future__ import annotations

import pytest

from stretto.simulator.checking.submitting import MUTATIONS, try_seed

SEEDS = 150


def test_a_job_runs_whenever_it_is_submitted() -> None:
    for seed in range(SEEDS):
        violations = try_seed(seed)
        assert not violations, f"seed {seed}: {violations[0]}"


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_caught(name: str) -> None:
    assert any(try_seed(seed, MUTATIONS[name]) for seed in range(SEEDS)), f"{name} was not caught"
