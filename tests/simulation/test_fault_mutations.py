"""Planted bugs in checkpoints and recovery, all of which random faults must catch."""

from __future__ import annotations

import pytest

from stretto.simulator.checking.fault_mutations import MUTATIONS
from stretto.simulator.checking.faults import try_seed

CAUGHT_WITHIN = 1_000
KNOWN = {"attempts-forgotten": 498, "failure-ignored": 73, "raw-clock": 722, "return-unrecorded": 156}
"""Seeds that catch rare bugs; they are tried first, because they come late in the order."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_recovery_is_caught(name: str) -> None:
    seeds = (KNOWN.get(name, 0), *range(CAUGHT_WITHIN))
    trials = (try_seed(seed, 5, 7, MUTATIONS[name]) for seed in seeds)
    assert any(trial.violations for trial in trials), f"{name} was not caught within {CAUGHT_WITHIN} seeds"
