"""Runs that are restarted with other numbers of workers and partitions, under random faults.

`stretto simulate faults --rescale` runs the same with more seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.simulation.catching import assert_caught

from stretto.actors.dividing import PartitionKeys
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.checkpoints.manifest import ActorRecord
from stretto.checkpoints.resuming import Resumption
from stretto.simulator.checking.faults import try_seed

SEEDS = 60
CAUGHT_WITHIN = 400


def test_other_workers_and_partitions_change_nothing() -> None:
    checkpoints = 0
    for seed in range(SEEDS):
        trial = try_seed(seed, workers_max=5, functions_max=7, rescales=True)
        assert not trial.violations, f"seed {seed}: {trial.faults}: {trial.violations[0]}"
        checkpoints += trial.checkpoints
    assert checkpoints > SEEDS


def everything_is_mine(keys: PartitionKeys, columns: Mapping[str, Any]) -> Any:
    """Each partition keeps all entries of the partitions that it follows."""
    return np.ones(len(next(iter(columns.values()))), np.bool_)


FOLLOWS, SENT = Resumption.follows, Resumption.sent_downstream


def only_one_is_followed(resumption: Resumption, function: str, partition: int) -> dict[int, ActorRecord]:
    """An actor reads the state of only the first of its predecessors."""
    return dict(list(FOLLOWS(resumption, function, partition).items())[:1])


def splits_by_partitions(resumption: Resumption, function: str) -> int:
    """Positions are applied to the wrong parts of the input."""
    return resumption._shapes[function].splits


def time_is_ahead(resumption: Resumption, function: str, partition: int) -> tuple[int, bool]:
    """Channels are assumed to be ahead of their senders."""
    watermark_us, ended = SENT(resumption, function, partition)
    return (watermark_us, ended) if ended else (min(watermark_us + 10_000, EVENT_TIME_MAX_US - 1), ended)


def nobody_has_finished(resumption: Resumption, function: str, partition: int) -> bool:
    """Finished actors count as not finished."""
    return False


MUTATIONS: list[tuple[type, str, Any]] = [
    (PartitionKeys, "mine", everything_is_mine),
    (Resumption, "follows", only_one_is_followed),
    (Resumption, "splits", splits_by_partitions),
    (Resumption, "sent_downstream", time_is_ahead),
    (Resumption, "finished", nobody_has_finished),
]


@pytest.mark.parametrize(("owner", "name", "mutation"), MUTATIONS, ids=[each[2].__name__ for each in MUTATIONS])
def test_a_broken_way_of_going_on_is_caught(
    owner: type, name: str, mutation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, mutation)

    def catches(seed: int) -> bool:
        return bool(try_seed(seed, 5, 7, rescales=True).violations)

    assert_caught("rescaling", mutation.__name__, catches, CAUGHT_WITHIN)
