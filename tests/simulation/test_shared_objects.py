"""Shared objects on whole simulated workers, under crashes, lost and repeated messages, restarts and handovers."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.simulation.catching import assert_caught

from stretto.simulator.checking import shared_objects
from stretto.simulator.checking.shared_object_mutations import SHARED_OBJECT_MUTATIONS
from stretto.simulator.checking.shared_objects import try_seed

SEEDS = 20
CAUGHT_WITHIN = 40


def test_no_seed_shows_a_violation() -> None:
    totals: Counter[str] = Counter()
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=3)
        assert not trial.violations, f"seed {seed}: {trial.violations[0]}"
        for name in ("rows", "reads", "checked", "recoveries", "restarts", "handovers", "server_failures", "server"):
            totals[name] += getattr(trial, name)
    # What the run is about has happened.
    assert totals["rows"] > 40 * SEEDS
    assert totals["checked"] > 0.95 * totals["reads"] > 0
    assert totals["recoveries"] > SEEDS / 2
    assert min(totals["server"], totals["server_failures"], totals["handovers"], totals["restarts"]) > 0


@pytest.mark.parametrize("name", sorted(SHARED_OBJECT_MUTATIONS))
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_objects, "STEPS_MAX", 60_000)  # A run that does not end is caught sooner.
    bug = SHARED_OBJECT_MUTATIONS[name]
    assert_caught("shared_objects", name, lambda seed: bool(try_seed(seed, 3, bug).violations), CAUGHT_WITHIN)


def test_equal_seeds_give_equal_runs() -> None:
    one, other = (try_seed(3, 3) for _ in range(2))
    assert one == other
