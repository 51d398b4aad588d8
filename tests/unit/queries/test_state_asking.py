"""Questions about state: all workers are asked, and again while there is a partition that nobody has."""

from __future__ import annotations

from typing import Any

from stretto.protocol.jobs import Failure
from stretto.protocol.queries import StatePart
from stretto.queries.broker import AGAIN_NS, AGAIN_NS_MAX
from stretto.queries.state_asking import StateBroker, StateGathered, StateQuestion

WITHIN_NS = 10_000_000_000
BOTH = ["w1", "w2"]


def asked(workers: list[str]) -> StateBroker:
    broker = StateBroker()
    broker.ask(StateQuestion("ticket", "Jumps", "counts", WITHIN_NS), workers, 0)
    return broker


def part(number: int, *answered: int, partitions: int = 2, missing: Any = (), failure: Any = None) -> StatePart:
    tables = [(each, "counts", b"%d/%d" % (number, each)) for each in answered]
    return StatePart(number, tables, partitions, list(answered), list(missing), failure)


def the_answer(broker: StateBroker) -> StateGathered:
    (found,) = broker.gathered
    return found


def test_it_is_gathered_when_all_partitions_have_answered() -> None:
    broker = asked(BOTH)
    assert [(member, frame.number) for member, frame in broker.sends] == [("w1", 1), ("w2", 1)]
    broker.answered("w1", part(1, 1), 5)
    broker.answered("w1", part(1, 1), 5)
    broker.answered("w3", part(1, 0), 5)
    assert not broker.gathered, "the other worker has not answered, and a third one was not asked"
    broker.answered("w2", part(1, 0), 5)
    assert [table[0] for table in the_answer(broker).tables] == [0, 1]
    assert not the_answer(broker).missing


def test_a_partition_that_nobody_has_yet_is_asked_again_and_earlier_answers_count_no_more() -> None:
    broker = asked(BOTH)
    broker.answered("w1", part(1, 0), 7)
    broker.answered("w2", part(1), 7)
    assert not broker.gathered
    assert broker.due_ns == 7 + AGAIN_NS
    broker.sends = []
    broker.tick(BOTH, 7 + AGAIN_NS - 1)
    assert not broker.sends
    broker.tick(BOTH, 7 + AGAIN_NS)
    assert [(member, frame.number) for member, frame in broker.sends] == [("w1", 2), ("w2", 2)]
    broker.answered("w1", part(1, 0, 1), 8)
    broker.answered("w2", part(2, 1), 8)
    broker.answered("w1", part(2, 0), 8)
    assert [table[2] for table in the_answer(broker).tables] == [b"2/0", b"2/1"]


def test_a_function_that_no_worker_has_yet_is_asked_for_again() -> None:
    broker = asked(["w1"])
    broker.answered("w1", part(1, partitions=0), 0)
    assert not broker.gathered
    broker.tick(["w1"], WITHIN_NS)
    assert [str(each) for each in the_answer(broker).missing] == ["function Jumps: no worker has it now"]


def test_a_lost_worker_is_not_waited_for_and_whoever_follows_it_is_asked() -> None:
    broker = asked(BOTH)
    broker.answered("w1", part(1, 0), 1)
    broker.members(["w1"], 2)
    assert not broker.gathered
    broker.sends = []
    broker.tick(["w1", "w3"], 2 + AGAIN_NS)
    assert [member for member, _ in broker.sends] == ["w1", "w3"]
    broker.answered("w1", part(2, 0), 3)
    broker.answered("w3", part(2, 1), 3)
    assert not the_answer(broker).missing


def test_what_has_not_answered_in_time_is_named_with_the_reason() -> None:
    broker = asked(BOTH)
    broker.answered("w1", part(1, 0, partitions=3, missing=[(2, "it is elsewhere")]), 1)
    broker.tick(BOTH, WITHIN_NS - 1)
    assert not broker.gathered
    broker.tick(BOTH, WITHIN_NS)
    assert [str(each) for each in the_answer(broker).missing] == [
        "partition 1: worker w2 has not answered in time",
        "partition 2: it is elsewhere",
    ]
    assert broker.due_ns > WITHIN_NS


def test_a_partition_that_says_why_it_cannot_answer_and_a_failure_are_not_asked_again() -> None:
    broker = asked(["w1"])
    broker.answered("w1", part(1, 0, missing=[(1, "it is elsewhere")]), 1)
    assert [str(each) for each in the_answer(broker).missing] == ["partition 1: it is elsewhere"]
    broker = asked(["w1"])
    failure = Failure("ValueError", "no", "", "")
    broker.answered("w1", part(1, 0, failure=failure), 1)
    assert the_answer(broker).failure == failure


def test_it_asks_ever_less_often_and_never_beyond_its_time() -> None:
    broker, now_ns, waits = asked(["w1"]), 0, []
    for number in range(1, 9):
        broker.answered("w1", part(number, 0), now_ns)
        waits.append(broker.due_ns - now_ns)
        now_ns = broker.due_ns
        broker.tick(["w1"], now_ns)
    assert waits[0] == AGAIN_NS
    assert waits == sorted(waits)
    assert waits[-1] == AGAIN_NS_MAX


def test_a_state_that_is_too_large_is_refused_before_all_of_it_is_there() -> None:
    broker = StateBroker(bytes_max=5)
    broker.ask(StateQuestion("ticket", "Jumps", "counts", WITHIN_NS), [*BOTH, "w3"], 0)
    broker.answered("w1", part(1, 0, partitions=3), 1)
    assert not broker.gathered
    broker.answered("w2", part(1, 1, partitions=3), 2)
    found = the_answer(broker)
    assert found.failure is not None
    assert (found.failure.error, found.failure.detail) == (
        "TooLargeError",
        "the rows of the state have 6 bytes, of at most 5",
    )
    assert found.tables == ()
    broker.answered("w3", part(1, 2, partitions=3), 3)
    assert len(broker.gathered) == 1
