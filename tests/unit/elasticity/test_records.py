"""Decisions and their records: plain data, one line for people, and the ration of those that decide nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf

import pytest

from stretto.actors.address import Address
from stretto.actors.shards import ShardMap
from stretto.elasticity import (
    Candidate,
    DecisionRecord,
    MoveShards,
    Outcome,
    Repartition,
    SetWorkers,
    ShardMove,
    Trigger,
)
from stretto.elasticity.rationing import Rationing

SECOND_NS = 1_000_000_000


def nothing(because: str, job: str = "q8", controller: str = "workers") -> DecisionRecord:
    return DecisionRecord(0, controller, job, "Jumps", 3, Trigger.LOAD, because)


RECORD = DecisionRecord(
    5 * SECOND_NS,
    "shards",
    "q8",
    "Jumps",
    3,
    Trigger.IMBALANCE,
    "the most loaded worker has too many shards",
    {"imbalance": 2.5, "load": 1.75},
    (Candidate("stay", {"imbalance": inf}, "it is above theta"), Candidate("move 2 shards", {"imbalance": 1.1})),
    MoveShards("q8", "Jumps", 3, (ShardMove(7, "w1", "w2"), ShardMove(9, "w1", "w3"))),
    7 * SECOND_NS,
)


def test_a_record_is_plain_data() -> None:
    plain = json.loads(json.dumps(RECORD.plain(), allow_nan=False))
    assert plain["decision"] == {"kind": "move shards", "moves": [[7, "w1", "w2"], [9, "w1", "w3"]]}
    assert plain["trigger"] == "imbalance"
    assert plain["seen"] == {"imbalance": 2.5, "load": 1.75}
    assert plain["candidates"][0] == {
        "what": "stay",
        "predicted": {"imbalance": None},
        "lost_because": "it is above theta",
    }
    assert (plain["outcome"], plain["effect"], plain["reverted_ns"]) == ("pending", None, None)


def test_a_record_is_one_line_through_its_life() -> None:
    line = (
        "[shards] q8/Jumps/3: move 2 shards: 7 w1 -> w2, 9 w1 -> w3, "
        "because the most loaded worker has too many shards (imbalance 2.5, load 1.75)"
    )
    assert str(RECORD) == line
    done = RECORD.finished(Outcome.DONE).measured({"imbalance": 1.125})
    assert str(done) == f"{line}; done; then imbalance 1.125"
    assert str(replace(done, reverted_ns=9 * SECOND_NS)) == f"{line}; done; then imbalance 1.125; reverted"
    assert str(RECORD.finished(Outcome.REFUSED, "a checkpoint is under way")).endswith(
        "; refused (a checkpoint is under way)"
    )
    assert RECORD.outcome is Outcome.PENDING


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_a_refusal_and_a_failure_need_a_reason(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match="say why"):
        RECORD.finished(outcome)


def test_the_other_decisions_in_words() -> None:
    many = SetWorkers("q8", "Jumps", 3, ("w0", "w1", "w2", "w3", "w4", "w5"))
    assert str(many) == "use 6 workers: w0, w1, w2, w3 and 2 more"
    assert many.address == Address("q8", "Jumps", 3)
    assert many.plain() == {"kind": "set workers", "workers": ["w0", "w1", "w2", "w3", "w4", "w5"]}
    assert str(Repartition("q8", "Jumps", 8)) == "repartition into 8"
    assert Repartition("q8", "Jumps", 8).plain() == {"kind": "repartition", "parallelism": 8}
    dealt = Repartition("q8", "Jumps", 2, shards=ShardMap.even(2))
    assert str(dealt) == "repartition into 2, its keys dealt by load"
    assert dealt.plain()["owners"] == [0] * 128 + [1] * 128


def test_deciding_nothing_is_a_record_with_no_outcome_to_wait_for() -> None:
    record = nothing("none are spare")
    assert record.outcome is Outcome.NOTHING
    assert str(record) == "[workers] q8/Jumps/3: nothing, because none are spare ()"
    assert record.plain()["decision"] is None


def test_nothing_is_recorded_once_per_reason_and_minute() -> None:
    rationing = Rationing()
    first, other = nothing("none are spare"), nothing("no move helps")
    assert rationing.admitted([first, first, other], 0) == [first, other]
    assert rationing.admitted([first], 59 * SECOND_NS) == []
    assert rationing.admitted([nothing("none are spare", job="q4")], 59 * SECOND_NS) != []
    assert rationing.admitted([nothing("none are spare", controller="shards")], 59 * SECOND_NS) != []
    assert rationing.admitted([first], 60 * SECOND_NS) == [first]


def test_decisions_are_never_rationed() -> None:
    assert Rationing().admitted([RECORD, RECORD], 0) == [RECORD, RECORD]
