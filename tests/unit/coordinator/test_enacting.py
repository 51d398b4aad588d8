"""The enactor, event by event: decisions become orders, and what comes of them becomes their record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stretto.actors.address import Address
from stretto.actors.metrics import FunctionMetrics, ShardTotals
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import SHARDS, ShardMap
from stretto.api.slo import SLO
from stretto.coordinator.events import (
    AnnounceDecision,
    AnnounceMisbehaviour,
    CodeRefused,
    Effect,
    MakeCode,
    MoveShardsRequested,
    SubmitRequested,
    WorkerExpected,
)
from stretto.coordinator.machine import Coordinator
from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import (
    GiveCapacity,
    MoveShards,
    Repartition,
    SetWorkers,
    ShardMove,
    TakeCapacity,
)
from stretto.elasticity.records import DecisionRecord, Outcome, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.team import Team
from stretto.elasticity.view import ElasticView
from stretto.protocol import elastic
from stretto.protocol.jobs import Hosts, Ready
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.membership import Join, Member
from stretto.protocol.reports import Report

SHAPES = {
    "source": FunctionShape("source", 1),
    "keyed": FunctionShape("keyed", 1, shards=ShardMap.even(1), workers_max=2),
    "sink": FunctionShape("sink", 1, is_sink=True),
}
SECOND_NS = 1_000_000_000


class Scripted(Controller):
    """Decides what it is told to, once, and keeps the views that it saw."""

    def __init__(self, *decisions: Any) -> None:
        self._decisions = list(decisions)
        self.views: list[ElasticView] = []

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        self.views.append(view)
        if not view.actors or not self._decisions:
            return []
        return [self.record(view.actors[0], now_ns, "it is in the script", self._decisions.pop(0))]


def cluster(controller: Controller) -> tuple[Coordinator, str]:
    """Returns a coordinator with a running job on two workers, and the home of its keyed actor."""
    coordinator = Coordinator(controllers=Team([controller]))
    for name in ("w0~1", "w1~1"):
        coordinator.handle(WorkerExpected(name, name), 0)
        coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), 0)
    coordinator.handle(SubmitRequested("job", "digest", SHAPES, spreads=True), 0)
    for name in ("w0~1", "w1~1"):
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    home = coordinator.jobs["job"].placement["keyed"][0]
    return coordinator, home


def report(coordinator: Coordinator, home: str, rows: int, now_ns: int, queued: int = 0, sizes: bytes = b"") -> None:
    totals = ShardTotals([rows] * SHARDS, bytes(SHARDS), [home], 8.0)
    metrics = FunctionMetrics(
        rows_in=rows * SHARDS,
        messages_in=rows,
        busy_ns=rows * 1_000_000,
        queued=queued,
        shards=totals,
        shard_bytes=sizes,
    )
    coordinator.handle(FrameArrived(home, Report("job", {"keyed": {0: metrics}}, 0, now_ns)), now_ns)


def ticked(coordinator: Coordinator, now_ns: int) -> list[Effect]:
    return coordinator.handle(Ticked(), now_ns)


def records(effects: list[Effect]) -> list[DecisionRecord]:
    return [effect.record for effect in effects if isinstance(effect, AnnounceDecision)]


def orders(effects: list[Effect]) -> list[elastic.MoveShards]:
    return [e.frame for e in effects if isinstance(e, Send) and isinstance(e.frame, elastic.MoveShards)]


def other_of(home: str) -> str:
    return "w1~1" if home == "w0~1" else "w0~1"


def moves(home: str, *shards: int) -> MoveShards:
    return MoveShards("job", "keyed", 0, tuple(ShardMove(shard, home, other_of(home)) for shard in shards))


def begun(*decisions: Any) -> tuple[Coordinator, str, Scripted, list[Effect]]:
    """Lets a controller with these decisions (made with the name of the home) decide for the first time."""
    controller = Scripted()
    coordinator, home = cluster(controller)
    controller._decisions = [decision(home) for decision in decisions]
    report(coordinator, home, 100, SECOND_NS)
    report(coordinator, home, 300, 2 * SECOND_NS)
    effects = ticked(coordinator, 2 * SECOND_NS)
    return coordinator, home, controller, effects + ticked(coordinator, 3 * SECOND_NS)


def test_a_controller_sees_rates_costs_and_owners() -> None:
    _, home, controller, _ = begun()
    (actor,) = controller.views[-1].actors
    assert actor.home == home
    assert actor.workers == (home,)
    assert actor.workers_max == 2
    assert actor.rows_per_s == 200 * SHARDS
    assert actor.load == 0.2
    assert set(actor.shards.owners) == {home}


def test_the_state_of_a_shard_is_what_its_owner_measured_or_whoever_had_it_before() -> None:
    coordinator, home, controller, _ = begun()
    (actor,) = controller.views[-1].actors
    assert set(actor.shards.state_bytes) == {0}, "nobody has measured, and there is no checkpoint"
    own, former = np.arange(SHARDS, dtype=np.float32), np.full(SHARDS, 7, np.float32)
    task = {"keyed": {0: FunctionMetrics(shard_bytes=former.tobytes())}}
    coordinator.handle(FrameArrived(other_of(home), Report("job", task, 0, 4 * SECOND_NS)), 4 * SECOND_NS)
    report(coordinator, home, 400, 4 * SECOND_NS, sizes=own.tobytes())
    ticked(coordinator, 4 * SECOND_NS)
    ticked(coordinator, 5 * SECOND_NS)
    (actor,) = controller.views[-1].actors
    # Its home owns all shards; shard 0 has come since it measured.
    assert actor.shards.state_bytes == (7, *range(1, SHARDS))
    assert actor.state_bytes == 7 + sum(range(SHARDS))


def test_a_decision_becomes_an_order_and_its_report_the_outcome() -> None:
    coordinator, home, controller, effects = begun(lambda home: moves(home, 1, 2))
    (order,) = orders(effects)
    assert order.actor == Address("job", "keyed", 0)
    assert order.moves == ((1, other_of(home)), (2, other_of(home)))
    assert [record.outcome for record in records(effects) if record.effect is None] == [Outcome.PENDING]
    report(coordinator, home, 400, 3 * SECOND_NS + 300_000_000)
    ticked(coordinator, 3 * SECOND_NS + 300_000_000)
    ticked(coordinator, 3 * SECOND_NS + 600_000_000)
    assert not controller.views[-1].actors[0].may_change, "while it is carried out"
    moved = elastic.ShardsMoved(order.actor, order.order, 2, 3_000_000, 500)
    (done,) = records(coordinator.handle(FrameArrived(home, moved), 4 * SECOND_NS))
    assert done.outcome is Outcome.DONE
    assert done.spent == {"shards": 2.0, "bytes": 500.0, "wait_ms": 1.5}
    assert done.effect is not None, "it was measured a second after it was decided"
    assert done.effect["workers"] == 1.0


def test_workers_are_allotted_while_shards_move_and_no_further_shards_are_moved() -> None:
    coordinator, home, controller, _ = begun(lambda home: moves(home, 1))
    controller._decisions = [SetWorkers("job", "keyed", 0, (home, other_of(home))), moves(home, 2)]
    report(coordinator, home, 500, 4 * SECOND_NS)
    effects = ticked(coordinator, 4 * SECOND_NS) + ticked(coordinator, 5 * SECOND_NS)
    assert not orders(effects)
    decided = {type(each.decision): each.outcome for each in records(effects) if each.effect is None}
    assert decided == {SetWorkers: Outcome.DONE, MoveShards: Outcome.REFUSED}


def test_what_a_home_refuses_has_failed_for_its_reason() -> None:
    coordinator, home, _, effects = begun(lambda home: moves(home, 1))
    (order,) = orders(effects)
    refused = elastic.ShardsMoved(order.actor, order.order, 0, refused="the actor is opening")
    (record,) = records(coordinator.handle(FrameArrived(home, refused), 4 * SECOND_NS))
    assert (record.outcome, record.outcome_reason) == (Outcome.FAILED, "the actor is opening")


def test_workers_that_are_allotted_are_what_the_next_view_shows() -> None:
    coordinator, home, controller, effects = begun(lambda home: SetWorkers("job", "keyed", 0, (home, other_of(home))))
    assert {record.outcome for record in records(effects)} == {Outcome.DONE}
    report(coordinator, home, 400, 4 * SECOND_NS)
    ticked(coordinator, 4 * SECOND_NS)
    ticked(coordinator, 5 * SECOND_NS)
    assert controller.views[-1].actors[0].workers == (home, other_of(home))


def test_capacity_for_a_keyed_function_is_a_worker_more_for_its_shards() -> None:
    coordinator, home, controller, effects = begun(lambda home: GiveCapacity("job", "keyed", 1))
    record = records(effects)[0]
    assert record.outcome is Outcome.DONE
    assert record.decision == GiveCapacity("job", "keyed", 1)
    report(coordinator, home, 900, 4 * SECOND_NS)
    ticked(coordinator, 4 * SECOND_NS)
    ticked(coordinator, 5 * SECOND_NS)
    assert controller.views[-1].actors[0].workers == (home, other_of(home))


def test_capacity_that_a_function_cannot_have_is_refused() -> None:
    _, _, _, effects = begun(lambda home: GiveCapacity("job", "source", 1))
    (record,) = records(effects)
    assert (record.outcome, record.outcome_reason) == (Outcome.REFUSED, "it cannot have more or fewer instances")


def test_repartitioning_has_code_made_for_the_next_attempt() -> None:
    coordinator, _, _, effects = begun(lambda home: Repartition("job", "keyed", 2))
    (wanted,) = [effect for effect in effects if isinstance(effect, MakeCode)]
    assert (wanted.job, wanted.parallelism) == ("job", {"keyed": 2})
    assert {record.outcome for record in records(effects)} == {Outcome.PENDING}
    refused = CodeRefused("job", wanted.order, "its rows would get out of order")
    (record,) = records(coordinator.handle(refused, 4 * SECOND_NS))
    assert (record.outcome, record.outcome_reason) == (Outcome.FAILED, "its rows would get out of order")


def test_what_cannot_be_repartitioned_is_refused_with_the_reason() -> None:
    *_, effects = begun(lambda home: Repartition("job", "other", 2))
    (record,) = records(effects)
    assert (record.outcome, record.outcome_reason) == (
        Outcome.REFUSED,
        "the job has no function 'other', but keyed, sink, source",
    )


class Watching(Controller):
    """Counts how often it is asked."""

    def __init__(self, looks_at: Subject) -> None:
        self.looks_at = looks_at
        self.asked = 0

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        self.asked += 1
        return []


def running(controllers: list[Watching], objective: SLO | None) -> Coordinator:
    """Returns a coordinator with a running job of which no function is elastic."""
    coordinator = Coordinator(controllers=Team(controllers))
    coordinator.handle(WorkerExpected("w0~1", "w0"), 0)
    coordinator.handle(FrameArrived("w0~1", Join(Member("w0~1", "tcp://w0", "w0", "host", 1))), 0)
    shapes = {"source": FunctionShape("source", 1), "sink": FunctionShape("sink", 1, is_sink=True)}
    coordinator.handle(SubmitRequested("job", "digest", shapes, objective=objective), 0)
    coordinator.handle(FrameArrived("w0~1", Ready("job")), 0)
    return coordinator


@pytest.mark.parametrize(
    ("objective", "asked"),
    [
        (None, {Subject.JOBS: 3}),
        (SLO(latency_ms=10), {Subject.JOBS: 3, Subject.OBJECTIVES: 3}),
    ],
)
def test_a_controller_is_asked_while_a_job_has_what_it_looks_at(
    objective: SLO | None, asked: dict[Subject, int]
) -> None:
    controllers = [Watching(subject) for subject in Subject]
    coordinator = running(controllers, objective)
    for second in (1, 2, 3):
        ticked(coordinator, second * SECOND_NS)
    assert {each.looks_at: each.asked for each in controllers} == {**dict.fromkeys(Subject, 0), **asked}


@pytest.mark.parametrize(("looks_at", "is_due"), [(Subject.OBJECTIVES, False), (Subject.JOBS, True)])
def test_without_anything_to_look_at_nothing_is_due(looks_at: Subject, is_due: bool) -> None:
    coordinator = running([Watching(looks_at)], None)
    ticked(coordinator, SECOND_NS)
    without = running([], None)
    ticked(without, SECOND_NS)
    due_ns, otherwise_ns = coordinator.next_deadline_ns(), without.next_deadline_ns()
    assert (due_ns != otherwise_ns) is is_due


class Asking(Controller):
    """Asks for capacity of a spread function, one ask after the other."""

    looks_at = Subject.JOBS

    def __init__(self, *asks: GiveCapacity | TakeCapacity) -> None:
        self._asks = list(asks)

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        about = ("job", "spread", None)
        asks, self._asks = self._asks[:1], self._asks[1:]
        return [DecisionRecord(now_ns, self.name, *about, Trigger.OWN, "it may", decision=each) for each in asks]


def test_capacity_of_a_spread_function_is_lessees() -> None:
    give, take = GiveCapacity("job", "spread", 1), TakeCapacity("job", "spread", 1)
    coordinator = Coordinator(controllers=Team([Asking(give, take, take, take, give)]))
    for name in ("w0~1", "w1~1", "w2~1"):
        coordinator.handle(WorkerExpected(name, name), 0)
        coordinator.handle(FrameArrived(name, Join(Member(name, f"tcp://{name}", name, "host", 1))), 0)
    spread = FunctionShape("spread", 1, feeds=(Feed("source", "in", False),), lessees_max=8)
    shapes = {"source": FunctionShape("source", 1), "spread": spread}
    coordinator.handle(SubmitRequested("job", "digest", shapes, spreads=True), 0)
    for name in ("w0~1", "w1~1", "w2~1"):
        coordinator.handle(FrameArrived(name, Ready("job")), 0)
    found = []
    for second in range(1, 6):
        effects = ticked(coordinator, second * SECOND_NS)
        sent = [each.frame.lessees for each in effects if isinstance(each, Send) and isinstance(each.frame, Hosts)]
        found += [(record.outcome, sent[:1]) for record in records(effects)]
    nothing: tuple[Outcome, list[dict[str, int]]] = (Outcome.REFUSED, [])
    # There is room for two lessees beside its home, which it may have from the start.
    one, none = (Outcome.DONE, [{"spread": 1}]), (Outcome.DONE, [{"spread": 0}])
    assert found == [nothing, one, none, nothing, one]


class AskingAtOnce(Asking):
    """Asks for everything at once, when something was observed."""

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        asks, self._asks = self._asks if view.jobs else [], self._asks if not view.jobs else []
        return [
            DecisionRecord(now_ns, self.name, each.job, each.function, None, Trigger.OWN, "it may", decision=each)
            for each in asks
        ]


def reshapable(*asks: GiveCapacity | TakeCapacity) -> tuple[Coordinator, list[Effect]]:
    """Returns a running job with two functions that have keys and are not elastic, after these asks."""
    coordinator = Coordinator(controllers=Team([AskingAtOnce(*asks)]))
    coordinator.handle(WorkerExpected("w0~1", "w0~1"), 0)
    coordinator.handle(FrameArrived("w0~1", Join(Member("w0~1", "tcp://w0~1", "w0~1", "host", 1))), 0)
    shapes = {"source": FunctionShape("source", 1)}
    for name, before in (("one", "source"), ("two", "one")):
        shapes[name] = FunctionShape(name, 1, feeds=(Feed(before, "in", False),), shards=ShardMap.even(1))
    coordinator.handle(SubmitRequested("job", "digest", shapes), 0)
    coordinator.handle(FrameArrived("w0~1", Ready("job")), 0)
    for second in (1, 2):
        coordinator.handle(FrameArrived("w0~1", Report("job", {}, 0, second * SECOND_NS)), second * SECOND_NS)
    return coordinator, ticked(coordinator, 2 * SECOND_NS)


def test_asks_for_functions_of_one_job_are_carried_out_by_one_handover() -> None:
    coordinator, effects = reshapable(
        GiveCapacity("job", "one", 1), GiveCapacity("job", "source", 1), GiveCapacity("job", "two", 2)
    )
    (wanted,) = [effect for effect in effects if isinstance(effect, MakeCode)]
    assert wanted.parallelism == {"one": 2, "two": 3}
    found = {record.function: record.outcome for record in records(effects)}
    assert found == {"one": Outcome.PENDING, "two": Outcome.PENDING, "source": Outcome.REFUSED}
    ended = records(coordinator.handle(CodeRefused("job", wanted.order, "it cannot be"), 3 * SECOND_NS))
    assert [(record.function, record.outcome) for record in ended] == [
        ("one", Outcome.FAILED),
        ("two", Outcome.FAILED),
    ]


def test_an_ask_that_cannot_be_met_does_not_keep_others_of_its_job_back() -> None:
    _, effects = reshapable(TakeCapacity("job", "one", 1), GiveCapacity("job", "two", 1))
    # The first cannot have less than one instance, which does not concern the second.
    (wanted,) = [effect for effect in effects if isinstance(effect, MakeCode)]
    assert wanted.parallelism == {"two": 2}
    assert {record.function: record.outcome for record in records(effects)} == {
        "one": Outcome.REFUSED,
        "two": Outcome.PENDING,
    }


class Broken(Controller):
    """A controller of a user's that cannot cope with what it sees."""

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        raise KeyError("w9~1")


def test_a_controller_that_raises_is_given_up_and_the_job_is_told_once() -> None:
    coordinator, home = cluster(Broken())
    report(coordinator, home, 100, SECOND_NS)
    effects = (
        ticked(coordinator, 2 * SECOND_NS) + ticked(coordinator, 4 * SECOND_NS) + ticked(coordinator, 6 * SECOND_NS)
    )
    (told,) = [effect for effect in effects if isinstance(effect, AnnounceMisbehaviour)]
    assert told.job == "job"
    assert "controller 'Broken' raised" in told.said.what
    assert "w9~1" in told.said.what


def test_a_user_asks_and_gets_the_answer_by_a_token() -> None:
    coordinator, home, _, _ = begun()
    asked = MoveShardsRequested("job", "keyed", 0, ((7, other_of(home)),), "token")
    effects = coordinator.handle(asked, 4 * SECOND_NS)
    (order,) = orders(effects)
    moved = elastic.ShardsMoved(order.actor, order.order, 1, 1_000_000, 10)
    (announced,) = [
        effect
        for effect in coordinator.handle(FrameArrived(home, moved), 4 * SECOND_NS)
        if isinstance(effect, AnnounceDecision)
    ]
    assert announced.token == "token"
    assert announced.record.outcome is Outcome.DONE
    nobody = MoveShardsRequested("job", "keyed", 9, ((7, home),), "other")
    (record,) = records(coordinator.handle(nobody, 5 * SECOND_NS))
    assert (record.outcome, record.outcome_reason) == (Outcome.REFUSED, "there is no such actor")


def test_a_decision_that_made_it_worse_is_taken_back_and_both_records_say_so() -> None:
    controller = Scripted()
    coordinator, home = cluster(controller)
    more = SetWorkers("job", "keyed", 0, (home, other_of(home)))
    seen: list[DecisionRecord] = []
    rows = 0
    for half in range(2, 16):
        # Once it is decided, less is done and messages wait.
        now_ns = half * SECOND_NS // 2
        if half == 6:
            controller._decisions = [more]
        rows += 50 if seen else 100
        report(coordinator, home, rows, now_ns, queued=50 if seen else 0)
        seen += records(ticked(coordinator, now_ns))
    first = seen[0].number
    (back,) = [record for record in seen if record.reverts is not None and record.effect is None]
    assert back.reverts == first
    assert back.decision == SetWorkers("job", "keyed", 0, (home,))
    assert back.outcome is Outcome.DONE
    assert [record.number for record in seen if record.reverted_ns is not None] == [first]
    controller._decisions = [more]
    (refused,) = [r for r in records(ticked(coordinator, 9 * SECOND_NS)) if r.decision == more]
    assert refused.outcome is Outcome.REFUSED
    assert "taken back" in str(refused.outcome_reason)


class Silent(Controller):
    """Decides nothing, and says why each time."""

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        return [self.record(actor, now_ns, "there is nothing to do") for actor in view.actors]


def test_nothing_for_a_reason_is_announced_once_a_minute() -> None:
    coordinator, home = cluster(Silent())
    announced = []
    for half in range(4, 2 * 125):
        now_ns = half * SECOND_NS // 2
        report(coordinator, home, 100 * half, now_ns)
        coordinator.handle(FrameArrived(other_of(home), Report("job", {}, 0, now_ns)), now_ns)  # It lives.
        announced += records(ticked(coordinator, now_ns))
    assert [(record.because, record.outcome) for record in announced] == [
        ("there is nothing to do", Outcome.NOTHING)
    ] * 3
    first, second, third = (record.at_ns for record in announced)
    assert second - first >= 60 * SECOND_NS <= third - second
