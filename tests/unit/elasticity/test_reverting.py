"""Decisions that made it worse are taken back: by hand for each part of the rule, and in a closed loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.elastic_model import ElasticModel, ModelActor

from stretto.actors.address import Address
from stretto.elasticity import (
    ActorView,
    Controller,
    DecisionRecord,
    ElasticView,
    MoveShards,
    Outcome,
    Repartition,
    SetWorkers,
    ShardMove,
    Team,
    Trigger,
    WorkerView,
    controllers_named,
)
from stretto.elasticity.effects import actual_imbalance
from stretto.elasticity.reverting import QUEUE, REST_NS, UNEVENNESS, Reverting
from stretto.observation.shards import ShardsObserved

SECOND_NS = 1_000_000_000
ABOUT = Address("q8", "Jumps", 0)
BEGIN_NS = 5 * SECOND_NS
"""Bad controllers begin when the rates have been measured."""


def view(
    owners: str = "aabb",
    costs: tuple[float, ...] = (0.2, 0.2, 0.2, 0.2),
    waiting: int = 0,
    rows: float = 100.0,
    workers: tuple[str, ...] = ("a", "b"),
    **busy: float,
) -> ElasticView:
    """One actor at home on `a`, with four shards; `busy` are shares of the workers' time."""
    costs_ns = tuple(int(cost * 1e9) for cost in costs)
    shards = ShardsObserved((0, 1, 2, 3), tuple(owners), costs_ns, (10,) * 4)
    actor = ActorView(ABOUT, "a", workers, shards, rows_per_s=rows, waiting=waiting)
    named = {name: WorkerView(name, "node", 1.0, busy.get(name, 0.5)) for name in "abc"}
    return ElasticView(0, (actor,), named)


class Some(Controller):
    """Makes records of decisions."""

    def made(self, before: ElasticView, decision: Any, trigger: Trigger = Trigger.OWN) -> DecisionRecord:
        return self.record(before.actors[0], SECOND_NS, "it is in the script", decision, trigger)


MOVE = MoveShards(*ABOUT, (ShardMove(2, "b", "a"), ShardMove(3, "b", "a")))
FEWER = SetWorkers(*ABOUT, ("a",))


def judged(decision: Any, before: ElasticView, *after: ElasticView, trigger: Trigger = Trigger.OWN) -> Any:
    """Returns what is decided after a decision and two looks at what it brought."""
    reverting, record = Reverting(), Some().made(before, decision, trigger)
    reverting.began(7, record, before)
    reverting.measured(7, after[0], 2 * SECOND_NS)
    assert reverting.due(after[-1], 2 * SECOND_NS) == [], "it is looked at twice"
    return reverting.due(after[-1], 3 * SECOND_NS)


def test_moves_after_which_a_full_worker_has_more_than_its_part_are_taken_back() -> None:
    after = view("aaaa", a=1.0)
    (record,) = judged(MOVE, view(), after, after)
    assert record.decision == MoveShards(*ABOUT, (ShardMove(2, "a", "b"), ShardMove(3, "a", "b")))
    assert (record.reverts, record.controller, record.trigger) == (7, "reverting", Trigger.REVERTED)
    assert UNEVENNESS in record.because
    assert "Some" in record.because


def test_uneven_load_on_workers_that_have_time_left_is_no_harm() -> None:
    after = view("aaaa", a=0.8)
    assert judged(MOVE, view(), after, after) == []


def test_a_queue_that_grows_with_fewer_workers_is_a_reason() -> None:
    after = view("aaaa", waiting=40, workers=("a",))
    (record,) = judged(FEWER, view(), after, after)
    assert record.decision == SetWorkers(*ABOUT, ("a", "b"))
    assert QUEUE in record.because


@pytest.mark.parametrize(
    "after",
    [
        view("aaaa", waiting=15, workers=("a",)),
        view("aaaa", waiting=40, rows=120.0, workers=("a",)),
        view("aaaa", (0.3, 0.3, 0.3, 0.3), waiting=40, workers=("a",)),
    ],
    ids=["noise", "more input", "more load"],
)
def test_noise_and_what_more_input_explains_is_none(after: ElasticView) -> None:
    assert judged(FEWER, view(), after, after) == []


@pytest.mark.parametrize(("rows", "is_taken_back"), [(100.0, False), (80.0, True)])
def test_more_workers_with_longer_queues_are_worse_only_if_less_is_done(rows: float, is_taken_back: bool) -> None:
    more = SetWorkers(*ABOUT, ("a", "b", "c"))
    after = view(waiting=60, rows=rows, workers=("a", "b", "c"))
    assert bool(judged(more, view(), after, after)) == is_taken_back


def test_one_look_is_not_enough() -> None:
    worse = view("aaaa", waiting=40, workers=("a",))
    assert judged(FEWER, view(), worse, view("aaaa", workers=("a",))) == []


def test_keys_that_became_hot_since_are_not_the_fault_of_a_move() -> None:
    """Shard 2 has moved to `a`, which was empty; then a shard of `a` became hot. Back on `b` it would be as bad."""
    move = MoveShards(*ABOUT, (ShardMove(2, "b", "a"),))
    before = view("abbb", (0.0, 0.3, 0.2, 0.2))
    after = view("abab", (0.0, 0.7, 0.0, 0.0), waiting=60, b=1.0)
    assert judged(move, before, after, after) == []


@pytest.mark.parametrize("trigger", [Trigger.ASKED, Trigger.LEAVING, Trigger.REVERTED])
def test_users_emptied_workers_and_reversions_are_not_judged(trigger: Trigger) -> None:
    after = view("aaaa", waiting=40, a=1.0)
    assert judged(MOVE, view(), after, after, trigger=trigger) == []


def test_only_what_is_still_so_is_taken_back() -> None:
    worse, moved_on = view("aaaa", waiting=40, a=1.0), view("aaba", waiting=40, a=1.0)
    (record,) = judged(MOVE, view(), worse, moved_on)
    assert record.decision == MoveShards(*ABOUT, (ShardMove(3, "a", "b"),))
    others = view("aaaa", waiting=40, workers=("a", "c"))
    assert judged(FEWER, view(), view("aaaa", waiting=40, workers=("a",)), others) == []


def test_it_is_not_repeated_for_a_while() -> None:
    reverting, some, after = Reverting(), Some(), view("aaaa", waiting=40, workers=("a",))
    reverting.began(7, some.made(view(), FEWER), view())
    reverting.measured(7, after, 2 * SECOND_NS)
    assert reverting.due(after, 3 * SECOND_NS)
    again = some.made(view(), SetWorkers(*ABOUT, ("a",)))
    assert "taken back 5 s ago" in str(reverting.refused(again, 8 * SECOND_NS))
    assert reverting.refused(some.made(view(), SetWorkers(*ABOUT, ("a", "b", "c"))), 8 * SECOND_NS) is None
    assert reverting.refused(some.made(view(), FEWER, Trigger.ASKED), 8 * SECOND_NS) is None
    assert reverting.refused(again, 3 * SECOND_NS + REST_NS) is None


def test_a_repartition_is_taken_back_too() -> None:
    after = view(waiting=40)
    (record,) = judged(Repartition("q8", "Jumps", 4), view(), after, after)
    assert record.decision == Repartition("q8", "Jumps", 1)


class Stingy(Controller):
    """A planted bad controller: every ten seconds it takes an actor's workers away, whatever its load."""

    every_ns = 10 * SECOND_NS
    effect_ns = 2 * SECOND_NS

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        many = [actor for actor in view.actors if len(actor.workers) > 1 and now_ns > BEGIN_NS]
        return [self.record(a, now_ns, "less is more", SetWorkers(*a.address, (a.home,))) for a in many]


class Piling(Controller):
    """A planted bad controller: every ten seconds it has all shards of an actor on one of its workers."""

    every_ns = 10 * SECOND_NS
    effect_ns = SECOND_NS

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        found = []
        for actor in view.actors if now_ns > BEGIN_NS else ():
            shards, target = actor.shards, actor.workers[-1]
            pairs = zip(shards.numbers, shards.owners, strict=True)
            moves = tuple(ShardMove(number, owner, target) for number, owner in pairs if owner != target)
            found.append(self.record(actor, now_ns, "together is better", MoveShards(*actor.address, moves)))
        return found


def hot(workers: int) -> ModelActor:
    """An actor with a load of 3 on so many workers, balanced."""
    names = tuple(f"w{number:03}" for number in range(workers))
    owners = [names[shard % workers] for shard in range(64)]
    return ModelActor(ABOUT, "w000", np.full(64, 3.0 / 64), workers=names, owners=owners)


@pytest.mark.parametrize("bad", [Stingy, Piling])
def test_a_bad_controller_is_reverted_in_a_closed_loop(bad: type[Controller]) -> None:
    actor = hot(4)
    shards = controllers_named("shards").controllers if bad is Stingy else ()
    model = ElasticModel(6, [actor], Team([bad(), *shards]))
    model.run(59.0)
    made = [record for record in model.decisions if record.controller == bad.__name__]
    done = [record for record in made if record.outcome is not Outcome.REFUSED]
    assert len(done) == 1, "it is not repeated within a minute"
    (back,) = [record for record in model.decisions if record.controller == "reverting"]
    assert back.reverts == done[0].number
    assert done[0].reverted_ns == back.at_ns
    assert all("taken back" in str(record.outcome_reason) for record in made[1:])
    assert len(made) > 1, "it has tried again"
    assert actor.workers == hot(4).workers
    assert actual_imbalance(model.view().actors[0]) <= 1.2
    assert sum(actor.received) == pytest.approx(3.0)


def test_without_the_rule_the_bad_controller_does_its_harm() -> None:
    actor = hot(4)
    model = ElasticModel(6, [actor], Team([Piling()]))
    model.reverting = Reverting(rest_ns=0)
    model.reverting.began = lambda number, record, view: None  # type: ignore[method-assign]
    model.run(59.0)
    assert sum(actor.received) < 1.5


def test_good_controllers_are_not_reverted_when_loads_shift() -> None:
    """Keys are shuffled every ten seconds, and the load rises and falls."""
    actor = hot(1)
    model = ElasticModel(8, [actor], controllers_named("auto"))
    rng = np.random.default_rng(3)
    for load in (0.3, 3.0, 5.0, 1.0, 0.3, 4.0):
        loads = rng.exponential(1.0, 64)
        actor.work = loads / loads.sum() * load
        model.run(10.0)
    assert [str(record) for record in model.records if record.reverts is not None] == []
    assert len(model.decisions) > 6
