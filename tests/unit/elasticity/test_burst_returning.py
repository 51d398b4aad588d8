"""When ordinary workers that came for a burst are given back: not before they are paid for, not without room elsewhere,
and not while anything is redirected."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from stretto.elasticity.burst_returning import ASK_AGAIN_NS, CALM_NS, SECOND_NS, Returning
from stretto.elasticity.decisions import DrainWorker, GiveCapacity, TakeCapacity
from stretto.elasticity.view import WorkerView

KEPT_NS = 100 * SECOND_NS
CALM_AT_NS = KEPT_NS + CALM_NS


def workers(*names: str, busy: float = 0.1) -> Mapping[str, WorkerView]:
    return {name: WorkerView(name, "node", 1.0, busy) for name in names}


def stepped(
    returning: Returning, there: Mapping[str, WorkerView], until_s: int, is_burst: bool = False
) -> dict[int, TakeCapacity | DrainWorker]:
    """Returns the decisions by the second in which they come, looking once a second."""
    found = {}
    for second in range(until_s):
        decision = returning.next(there, ["job"], is_burst, second * SECOND_NS)
        if decision is not None:
            found[second] = decision
    return found


def came(*names: str) -> Returning:
    returning = Returning(KEPT_NS, 0.75)
    returning.came(names, [GiveCapacity("job", "work", len(names))], 0)
    return returning


def test_capacity_first_and_then_the_workers_the_last_one_first() -> None:
    found = stepped(came("w1~1", "w2~1"), workers("w0~1", "w1~1", "w2~1"), CALM_AT_NS // SECOND_NS + 6)
    assert list(found.values()) == [TakeCapacity("job", "work", 2), DrainWorker("w2~1"), DrainWorker("w1~1")]
    assert min(found) == CALM_AT_NS // SECOND_NS


def test_they_stay_while_the_others_have_no_room_or_there_is_a_burst() -> None:
    there = workers("w0~1", "w1~1", busy=0.4)  # 0.8 for the one that would be left.
    assert not stepped(came("w1~1"), there, 500)
    assert not stepped(came("w1~1"), workers("w0~1", "w1~1"), 500, is_burst=True)


def test_one_wave_begins_the_calm_time_again() -> None:
    returning, there = came("w1~1"), workers("w0~1", "w1~1")
    almost = CALM_AT_NS - SECOND_NS
    for now_ns in range(KEPT_NS, almost, SECOND_NS):
        assert returning.next(there, ["job"], False, now_ns) is None
    assert returning.next(workers("w0~1", "w1~1", busy=0.9), ["job"], False, almost) is None
    assert returning.next(there, ["job"], False, CALM_AT_NS) is None
    assert returning.next(there, ["job"], False, CALM_AT_NS + CALM_NS) == TakeCapacity("job", "work", 1)


def test_some_leave_where_there_is_no_room_without_all_of_them() -> None:
    there = workers("w0~1", "w1~1", "w2~1", busy=0.4)  # Two take it, and one does not.
    found = stepped(came("w1~1", "w2~1"), there, CALM_AT_NS // SECOND_NS + 1)
    assert list(found.values()) == [DrainWorker("w2~1")]


def test_one_that_could_not_leave_is_asked_again_and_one_that_is_gone_is_forgotten() -> None:
    returning, there = came("w1~1"), workers("w0~1", "w1~2")  # It was lost and replaced meanwhile.
    found = stepped(returning, there, CALM_AT_NS // SECOND_NS + 1 + 80)
    drains = [second for second, decision in found.items() if decision == DrainWorker("w1~2")]
    assert len(drains) >= 2
    assert min(b - a for a, b in pairwise(drains)) >= ASK_AGAIN_NS // SECOND_NS
    assert returning.next(workers("w0~1"), ["job"], False, 10 * CALM_AT_NS) is None
    assert returning.is_empty
