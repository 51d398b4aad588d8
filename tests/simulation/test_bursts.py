"""Bursts on random scenarios: no violation in many seeds, and every planted bug is caught.

`stretto simulate bursts` runs the same with more seeds.
"""

from __future__ import annotations

import pytest
from tests.simulation.catching import assert_caught

from stretto.errors import InvariantError
from stretto.protocol.membership import Heartbeat
from stretto.simulator.checking import bursts, faults
from stretto.simulator.checking.burst_mutations import BURST_MUTATIONS
from stretto.simulator.checking.bursts import try_seed
from stretto.simulator.engine.cluster import SimulatedCluster

SEEDS = 40
CAUGHT_WITHIN = 100
RARE = {"given-back-too-soon"}
"""It needs more seeds than there is time for here: `stretto simulate bursts --mutate`."""


def test_no_seed_shows_a_violation() -> None:
    redirected = vanished = twins = steps = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=4, functions_max=6)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}\n{trial.log}"
        redirected += trial.redirected
        vanished += trial.vanished
        twins += trial.twins
        steps += trial.steps
    assert redirected > 5 * SEEDS
    assert vanished > SEEDS
    assert twins > SEEDS
    assert steps > SEEDS


@pytest.mark.parametrize("name", sorted(BURST_MUTATIONS.keys() - RARE))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bursts, faults):
        monkeypatch.setattr(module, "STEPS_MAX", 20_000)  # A run that does not end is caught sooner.
    bug = BURST_MUTATIONS[name]
    assert_caught("bursts", name, lambda seed: bool(try_seed(seed, 4, 6, bug).violations), CAUGHT_WITHIN)


def test_the_network_lets_no_two_transient_workers_talk_to_each_other() -> None:
    cluster = SimulatedCluster(1, seed=0, transient=2)
    with pytest.raises(InvariantError, match="two transient workers talk"):
        cluster._transmit("t0~1", "t1~1", Heartbeat())
