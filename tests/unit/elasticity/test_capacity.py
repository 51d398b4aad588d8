"""What an ask for capacity becomes: lessees, workers for shards, another parallelism, or nothing."""

from __future__ import annotations

import pytest

from stretto.actors.address import Address
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import ShardMap
from stretto.elasticity import ActorView, WorkerView
from stretto.elasticity.capacity import Holding, Means, levers_for, means_of
from stretto.elasticity.decisions import GiveCapacity, Repartition, SetLessees, SetWorkers, TakeCapacity
from stretto.observation.shards import ShardsObserved

FED = (Feed("source", "in", False),)
EVEN = ShardMap.even(2)
WORKERS = {name: WorkerView(name, "node", busy_share=busy) for name, busy in (("a~1", 0.9), ("b~1", 0.1), ("c~1", 0.4))}


@pytest.mark.parametrize(
    ("shape", "home_is_full", "expected"),
    [
        (FunctionShape("f", 2, feeds=FED, lessees_max=3), False, Means.LESSEES),
        (FunctionShape("f", 2, feeds=FED), False, Means.PARALLELISM),
        (FunctionShape("f", 2, feeds=FED, shards=EVEN, workers_max=8), False, Means.SHARDS),
        (FunctionShape("f", 2, feeds=FED, shards=EVEN, workers_max=8), True, Means.PARALLELISM),
        (
            FunctionShape("f", 2, feeds=FED, shards=EVEN, states={"s": "map"}),
            False,
            Means.PARALLELISM,
        ),
        (FunctionShape("f", 1, feeds=FED, states={"s": "value"}), False, Means.NONE),
        (FunctionShape("f", 2, on_driver=True, feeds=FED, lessees_max=3), False, Means.NONE),
        (FunctionShape("source", 2), False, Means.NONE),
    ],
)
def test_the_discipline_says_what_capacity_means(shape: FunctionShape, home_is_full: bool, expected: Means) -> None:
    assert means_of(shape, home_is_full) is expected


def test_lessees_and_parallelism() -> None:
    give, take = GiveCapacity("job", "f", 2), TakeCapacity("job", "f", 3)
    lessees = Holding(Means.LESSEES, 4, lessees=1, lessees_max=9)
    assert levers_for(give, lessees, WORKERS) == [SetLessees("job", "f", 2)]  # Three workers, one of which is home.
    assert levers_for(take, lessees, WORKERS) == [SetLessees("job", "f", 0)]
    all_of_them = Holding(Means.LESSEES, 1, lessees=9, lessees_max=9)  # There is room for two.
    assert levers_for(give, all_of_them, WORKERS) == []
    assert levers_for(TakeCapacity("job", "f", 1), all_of_them, WORKERS) == [SetLessees("job", "f", 1)]
    assert levers_for(give, Holding(Means.LESSEES, 1, lessees=1, lessees_max=1), WORKERS) == []
    assert levers_for(give, Holding(Means.PARALLELISM, 4), WORKERS) == [Repartition("job", "f", 6)]
    assert levers_for(take, Holding(Means.PARALLELISM, 2), WORKERS) == [Repartition("job", "f", 1)]
    assert levers_for(take, Holding(Means.PARALLELISM, 1), WORKERS) == []
    assert levers_for(give, Holding(Means.NONE, 1), WORKERS) == []


def actor(partition: int, workers: tuple[str, ...], load: float) -> ActorView:
    shards = ShardsObserved((1,), (workers[0],), (int(load * 1e9),), (0,))
    return ActorView(Address("job", "f", partition), workers[0], workers, shards)


def test_the_fullest_partition_gets_the_idlest_worker_and_the_least_full_gives_one_back() -> None:
    actors = [actor(0, ("a~1",), 0.9), actor(1, ("a~1", "c~1"), 0.4)]
    holding = Holding(Means.SHARDS, 2, actors=actors)
    assert levers_for(GiveCapacity("job", "f", 1), holding, WORKERS) == [SetWorkers("job", "f", 0, ("a~1", "b~1"))]
    assert levers_for(GiveCapacity("job", "f", 2), holding, WORKERS) == [
        SetWorkers("job", "f", 0, ("a~1", "b~1", "c~1")),
    ]
    assert levers_for(TakeCapacity("job", "f", 5), holding, WORKERS) == [SetWorkers("job", "f", 1, ("a~1",))]
