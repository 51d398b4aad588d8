"""Several controllers together, and by their names."""

from __future__ import annotations

import pytest

from stretto.actors.address import Address
from stretto.elasticity import (
    ActorView,
    Controller,
    DecisionRecord,
    ElasticView,
    Repartition,
    SetWorkers,
    Team,
    WorkerView,
    controllers_named,
)
from stretto.errors import UserError
from stretto.observation.shards import ShardsObserved

SECOND_NS = 1_000_000_000


class Eager(Controller):
    """Decides on every actor that it may change, and notes when and on which."""

    def __init__(self, every_s: float = 1.0, effect_s: float = 1.0, repartitions: bool = False) -> None:
        self.every_ns = round(every_s * SECOND_NS)
        self.effect_ns = round(effect_s * SECOND_NS)
        self.repartitions = repartitions
        self.calls: list[tuple[float, list[int]]] = []

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        free = [actor for actor in view.actors if actor.may_change]
        self.calls.append((now_ns / SECOND_NS, [actor.address.partition for actor in free]))
        if self.repartitions:
            return [self.record(actor, now_ns, "it may", Repartition("q8", "f", 2)) for actor in free[:1]]
        return [self.record(actor, now_ns, "it may", SetWorkers(*actor.address, ("a",))) for actor in free]


class Idle(Eager):
    """Looks on, and says why."""

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        super().decide(view, now_ns)
        return [self.record(actor, now_ns, "it rests") for actor in view.actors]


def view(partitions: int = 1) -> ElasticView:
    none = ShardsObserved((), (), (), ())
    actors = tuple(ActorView(Address("q8", "f", partition), "a", ("a",), none) for partition in range(partitions))
    return ElasticView(0, actors, {"a": WorkerView("a", "n")})


def run(team: Team, seconds: int, seen: ElasticView) -> list[DecisionRecord]:
    return [record for half in range(2 * seconds) for record in team.decide(seen, half * SECOND_NS // 2)]


def test_each_controller_is_called_by_its_period() -> None:
    fast, slow = Idle(0.5), Idle(2.0)
    team = Team([slow, fast])
    run(team, 4, view())
    assert [at for at, _ in fast.calls] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert [at for at, _ in slow.calls] == [0.0, 2.0]
    assert team.every_ns == SECOND_NS // 2
    assert team.next_ns() == 4 * SECOND_NS


def test_a_slower_one_leaves_an_actor_alone_until_the_effect_of_a_faster_one_is_seen() -> None:
    fast, slow = Eager(3.0, effect_s=2.0), Idle(3.5)
    team = Team([fast, slow])
    for second in (0, 1, 2, 3):
        team.decide(view(), second * SECOND_NS)
    # At 0 the faster one has decided in the same round.
    assert slow.calls == [(0.0, [])]
    team.decide(view(), 5 * SECOND_NS)
    assert slow.calls[-1] == (5.0, [0])


def test_a_faster_one_does_not_wait_for_a_slower_one() -> None:
    fast, slow = Idle(1.0), Eager(1.5, effect_s=30.0)
    run(Team([fast, slow]), 4, view())
    assert all(partitions == [0] for _, partitions in fast.calls)


@pytest.mark.parametrize("every_s", [0.5, 0.75])
def test_a_restless_faster_one_does_not_keep_a_slower_one_away_for_ever(every_s: float) -> None:
    fast, slow = Eager(every_s, effect_s=1.0), Idle(2.0)
    run(Team([fast, slow]), 60, view())
    free = [at for at, partitions in slow.calls if partitions == [0]]
    assert len(free) >= 4
    assert min(free) >= 10.0
    # It is then the slower one's turn, and the faster one waits for a round.
    assert all(partitions == [] for at, partitions in fast.calls if at in free)


class First(Eager):
    """Allots a worker to every actor that may be allotted one."""

    asked_first = True

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        free = [actor for actor in view.actors if actor.may_be_allotted]
        self.calls.append((now_ns / SECOND_NS, [actor.address.partition for actor in free]))
        return [self.record(actor, now_ns, "it may", SetWorkers(*actor.address, ("a", "b"))) for actor in free]


class Seeing(Eager):
    """Decides, and notes the workers that actors have."""

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        self.seen = [actor.workers for actor in view.actors]
        return super().decide(view, now_ns)


def test_who_is_asked_first_waits_for_nobody_and_the_others_see_what_it_has_allotted() -> None:
    fast, first, slow = Seeing(0.5), First(0.5), Idle(5.0)
    team = Team([slow, fast, first])
    records = run(team, 3, view())
    assert [partitions for _, partitions in first.calls] == [[0]] * 6
    assert [partitions for _, partitions in fast.calls] == [[0]] * 6
    assert fast.seen == [("a", "b")]
    assert [record.controller for record in records[:2]] == ["First", "Seeing"]
    # A slower one waits for both.
    assert [partitions for _, partitions in slow.calls] == [[]]


def test_a_repartition_concerns_all_partitions() -> None:
    fast, slow = Eager(1.0, effect_s=5.0, repartitions=True), Idle(1.5)
    Team([fast, slow]).decide(view(3), 0)
    assert slow.calls == [(0.0, [])]


def test_who_decides_nothing_is_heard_once_a_minute() -> None:
    records = run(Team([Idle(0.5)]), 61, view(4))
    assert [record.at_ns for record in records] == [0, 60 * SECOND_NS]


def test_auto_is_four_controllers_and_off_none() -> None:
    assert [controller.name for controller in controllers_named("auto").controllers] == [
        "shards",
        "workers",
        "neighbours",
        "homes",
    ]
    assert controllers_named("off").controllers == ()
    assert controllers_named("off").decide(view(), 0) == []
    assert controllers_named("off").next_ns() is None
    assert [controller.name for controller in controllers_named("shards, naive").controllers] == ["shards", "naive"]


def test_a_user_names_a_class() -> None:
    (own,) = controllers_named("examples.own_controller:Doubling").controllers
    assert own.name == "Doubling"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("automatic", "there is no controller 'automatic'"),
        ("examples.own_controller:Halving", "cannot be imported"),
        ("stretto.elasticity.view:ElasticView", "is not a controller"),
    ],
)
def test_another_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        controllers_named(name)


def test_the_refusal_says_what_to_subclass() -> None:
    with pytest.raises(UserError, match=r"stretto\.elasticity\.Controller"):
        controllers_named("stretto.elasticity.view:ElasticView")
