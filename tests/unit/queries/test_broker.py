"""Who is asked, and what becomes of a question when workers are lost, slow or late. Random runs: `simulate queries`."""

from __future__ import annotations

import pyarrow as pa

from stretto.errors import TooLargeError
from stretto.protocol.jobs import Failure
from stretto.protocol.queries import Ask, Held, Hold, LiveAnswer, Part, Piece, PiecesCut, TableOpened, TellTables
from stretto.queries.answers import Question, TableName
from stretto.queries.broker import SLOW_NS, Broker
from stretto.queries.pruning import EVERY
from stretto.runtime.failures import error_of

S = 1_000_000_000
SCHEMA = pa.schema([("at", pa.timestamp("us", tz="UTC"))]).serialize().to_pybytes()


def piece(start: int, name: str = "") -> Piece:
    return Piece(name or f"piece {start}", start, start + 10, 100, [f"file {start}"])


def brokered(workers: int = 3, partitions: int = 1) -> Broker:
    """Partition n is on worker n; there are pieces 0, 10 and 20, which only storage has."""
    broker = Broker()
    broker.members([f"w{each}" for each in range(workers)], 0)
    for each in range(partitions):
        pieces = [piece(0), piece(10), piece(20)] if each == 0 else []
        broker.opened(f"w{each}", TableOpened("t", "app", each, partitions, 4, "dir", pieces))
    return broker


def question(first: int = EVERY.first_us, last: int = EVERY.last_us, at_least: int | None = None) -> Question:
    name = TableName("t", "app", 10, "at")
    return Question("ticket", name, "SELECT at FROM t", "UTC", SCHEMA, None, first, last, 10 * S, at_least)


def asks(broker: Broker) -> list[tuple[str, Ask]]:
    found = [(to, frame) for to, frame in broker.sends if isinstance(frame, Ask)]
    broker.sends = []
    return found


def answer(ask: Ask, watermark_us: int = 50) -> Part:
    return Part(ask.number, b"part", [LiveAnswer(each.partition, watermark_us) for each in ask.live], 7)


def test_each_piece_and_each_partition_is_asked_once_and_work_is_divided() -> None:
    broker = brokered(partitions=2)
    broker.ask(question(), 0)
    found = asks(broker)
    assert sorted(each.name for _, ask in found for each in ask.pieces) == ["piece 0", "piece 10", "piece 20"]
    assert sorted((to, each.partition, each.after) for to, ask in found for each in ask.live) == [
        ("w0", 0, 4),
        ("w1", 1, 4),
    ]
    assert len(found) == 3
    for to, ask in found:
        broker.answered(to, answer(ask), S)
    (gathered,) = broker.gathered
    assert (len(gathered.parts), gathered.missing, gathered.as_of_us, gathered.rows) == (3, (), 50, 21)


def test_segments_outside_of_the_times_are_not_asked() -> None:
    broker = brokered()
    broker.ask(question(12, 14), 0)
    assert [each.name for _, ask in asks(broker) for each in ask.pieces] == ["piece 10"]


def test_a_copy_is_asked_before_storage() -> None:
    broker = brokered()
    broker.cut("w0", PiecesCut("t", "app", 0, 5, [piece(30)], []))
    broker.ask(question(30, 35), 0)
    ((to, ask),) = asks(broker)
    assert (to, ask.live[0].after, [each.name for each in ask.pieces]) == ("w0", 5, ["piece 30"])


def test_what_a_lost_worker_had_is_asked_of_others() -> None:
    broker = brokered()
    broker.ask(question(), 0)
    found = asks(broker)
    (lost, pieces) = next((to, ask.pieces) for to, ask in found if not ask.live)
    broker.members({"w0", "w1", "w2"} - {lost}, 1)
    ((to, again),) = asks(broker)
    assert to != lost
    assert again.pieces == pieces
    for member, ask in [*(each for each in found if each[0] != lost), (to, again)]:
        broker.answered(member, answer(ask), 2)
    assert len(broker.gathered[0].parts) == len(found)


def test_a_lost_partition_is_waited_for_and_everything_is_asked_again() -> None:
    broker = brokered()
    broker.ask(question(), 0)
    asks(broker)
    broker.members(["w1", "w2"], 1)
    broker.tick(broker.due_ns)
    assert any(isinstance(frame, TellTables) for _, frame in broker.sends)
    broker.sends = []
    broker.opened("w2", TableOpened("t", "app~2", 0, 1, 0, "dir", [piece(0)]))
    broker.tick(broker.due_ns)
    found = asks(broker)
    assert [(each.job, each.after) for _, ask in found for each in ask.live] == [("app~2", 0)]
    assert [each.name for _, ask in found for each in ask.pieces] == ["piece 0"]


def test_copies_of_an_earlier_run_are_dropped() -> None:
    broker = brokered()
    broker.held("w1", Held("t", ["piece 0", "piece 10"], []))
    broker.opened("w2", TableOpened("t", "app~2", 0, 1, 0, "dir", [piece(0)]))
    assert broker.sends == [("w1", Hold("t", "dir", [], ["piece 0", "piece 10"]))]
    assert not broker.tables["t"].holders


def test_a_partition_that_does_not_come_back_is_named_with_its_reason() -> None:
    broker = brokered(partitions=2)
    broker.members(["w0", "w2"], 1)
    broker.ask(question(), 1)
    broker.tick(11 * S)
    (gathered,) = broker.gathered
    assert [str(each) for each in gathered.missing] == ["partition 1: no worker has it now"]


def test_a_slow_worker_and_who_was_asked_in_its_place_count_once() -> None:
    for slow_first in (True, False):
        broker = brokered()
        broker.ask(question(), 0)
        found = asks(broker)
        slow, ask = next((to, ask) for to, ask in found if not ask.live)
        for to, other in found:
            if to != slow:
                broker.answered(to, answer(other), 1)
        broker.tick(SLOW_NS)
        doubled = asks(broker)
        assert [each for _, other in doubled for each in other.pieces] == ask.pieces
        late = [(slow, ask), *doubled] if slow_first else [*doubled, (slow, ask)]
        for to, other in late:
            broker.answered(to, answer(other), SLOW_NS + 1)
        assert [len(each.parts) for each in broker.gathered] == [len(found)]


def test_parts_that_are_too_large_together_are_refused_before_all_are_there() -> None:
    broker = Broker(bytes_max=7)
    broker.members(["w0", "w1", "w2"], 0)
    for each in range(3):
        broker.opened(f"w{each}", TableOpened("t", "app", each, 3, 4, "dir", []))
    broker.ask(question(), 0)
    first, second, third = asks(broker)
    broker.answered(first[0], answer(first[1]), 1)
    assert not broker.gathered
    broker.answered(second[0], answer(second[1]), 2)
    (gathered,) = broker.gathered
    assert gathered.failure is not None
    assert gathered.parts == ()
    error = error_of(gathered.failure)
    assert isinstance(error, TooLargeError)
    assert (error.fact, error.detail) == ("the answer is too large", "its parts have 8 bytes, of at most 7")
    assert error.fix is not None
    assert "LIMIT" in error.fix
    broker.answered(third[0], answer(third[1]), 3)
    assert len(broker.gathered) == 1
    # One that asks for less is answered.
    broker.gathered = []
    broker.ask(question(), 4)
    for to, ask in asks(broker):
        broker.answered(to, Part(ask.number, b"12", [LiveAnswer(each.partition, 5) for each in ask.live]), 5)
    assert [(len(each.parts), each.failure) for each in broker.gathered] == [(3, None)]


def test_at_least_is_asked_for_again_until_it_is_there() -> None:
    broker = brokered(workers=1)
    broker.ask(question(at_least=60), 0)
    ((to, ask),) = asks(broker)
    assert ask.at_least_us == 60
    broker.answered(to, answer(ask, 55), 1)
    assert not broker.gathered
    broker.tick(broker.due_ns)
    ((to, ask),) = asks(broker)
    broker.answered(to, answer(ask, 60), S)
    assert broker.gathered[0].as_of_us == 60


def test_a_failure_of_the_question_itself_ends_it() -> None:
    broker = brokered()
    broker.ask(question(), 0)
    (to, ask), *_ = asks(broker)
    broker.answered(to, Part(ask.number, None, [], failure=Failure("ExpressionError", "division by zero")), 1)
    assert broker.gathered[0].failure is not None


def test_late_answers_do_not_matter() -> None:
    broker = brokered()
    broker.ask(question(), 0)
    found = asks(broker)
    broker.tick(10 * S)
    assert len(broker.gathered[0].missing) == 4
    for to, ask in found:
        broker.answered(to, answer(ask), 11 * S)
    assert len(broker.gathered) == 1
