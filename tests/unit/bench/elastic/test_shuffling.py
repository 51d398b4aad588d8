"""The controller that has shards moving all the time: seeded, within bounds, and only actors that may be changed."""

from __future__ import annotations

from dataclasses import replace

from stretto.actors.address import Address
from stretto.bench.elastic.shuffling import PERIOD_MS, SHUFFLING, ShuffleShards
from stretto.elasticity import ActorView, ElasticView, MoveShards, WorkerView, controllers_named
from stretto.observation.shards import ShardsObserved

NUMBERS = tuple(range(256))
ACTOR = ActorView(
    Address("q8", "newcomers", 0), "w1", ("w1",), ShardsObserved(NUMBERS, ("w1",) * 256, (0,) * 256, (0,) * 256)
)
VIEW = ElasticView(0, (ACTOR,), {name: WorkerView(name, "node") for name in ("w1", "w2", "w3")})


def moves_of(controller: ShuffleShards, view: ElasticView) -> list[MoveShards]:
    return [record.decision for record in controller.decide(view, 0) if isinstance(record.decision, MoveShards)]


def test_shards_go_to_other_workers_again_and_again() -> None:
    controller = ShuffleShards()
    decided = [decision for _ in range(50) for decision in moves_of(controller, VIEW)]
    assert len(decided) >= 48
    targets = {move.target for decision in decided for move in decision.moves}
    assert targets == {"w2", "w3"}  # All are on w1.
    assert all(move.source == "w1" for decision in decided for move in decision.moves)
    assert len({move.shard for decision in decided for move in decision.moves}) > 200


def test_equal_seeds_decide_the_same() -> None:
    assert moves_of(ShuffleShards(3), VIEW) == moves_of(ShuffleShards(3), VIEW)
    assert moves_of(ShuffleShards(3), VIEW) != moves_of(ShuffleShards(4), VIEW)


def test_an_actor_that_may_not_change_is_left_alone() -> None:
    assert not ShuffleShards().decide(replace(VIEW, actors=(replace(ACTOR, may_change=False),)), 0)


def test_an_actor_keeps_to_its_greatest_number_of_workers() -> None:
    view = replace(VIEW, actors=(replace(ACTOR, workers_max=2),))
    controller = ShuffleShards()
    targets = {move.target for _ in range(20) for decision in moves_of(controller, view) for move in decision.moves}
    assert targets == {"w2"}


def test_it_is_due_after_a_random_time_and_has_a_name_for_clusters() -> None:
    controller = ShuffleShards()
    periods = set()
    for _ in range(100):
        controller.decide(VIEW, 0)
        periods.add(controller.every_ns // 1_000_000)
    assert len(periods) > 20
    assert min(periods) >= PERIOD_MS[0]
    assert max(periods) <= PERIOD_MS[1]
    assert [type(member) for member in controllers_named(SHUFFLING).controllers] == [ShuffleShards]
