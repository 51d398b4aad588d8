"""Planted bugs in checkpoints and recovery, all of which random faults must catch."""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking.fault_mutations import MUTATIONS
from stretto.simulator.checking.faults import try_seed

CAUGHT_WITHIN = 1_000


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_recovery_is_caught(name: str) -> None:
    bug = MUTATIONS[name]
    assert_caught("fault_mutations", name, lambda seed: bool(try_seed(seed, 5, 7, bug).violations), CAUGHT_WITHIN)
