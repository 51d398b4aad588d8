"""A place moves from one process to another, event by event: what it has is there, and what comes meanwhile too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stretto.errors import InvariantError
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import (
    Call,
    Conflicts,
    Copied,
    Copy,
    CopyOut,
    CopyTaken,
    EntityName,
    Moved,
    Origin,
    Piece,
    Proceed,
    Reply,
    Resume,
    Round,
    Stay,
    Switch,
    TakenOver,
    Takeover,
    Wave,
)
from stretto.transactions.attempt import Settings
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity
from stretto.transactions.events import AdoptLog, AppendLog, LogWritten, OpenState, PieceStored, StateOpened, StorePiece
from stretto.transactions.machine import COORDINATOR, OTHER_PROCESS, TransactionWorker
from stretto.transactions.moving import Departure
from stretto.transactions.placement import Placement
from stretto.transactions.snapshots import restored

ATTEMPT = 3
SECOND_NS = 1_000_000_000


class Tally(Entity, expires="1 hour"):
    total: int = 0

    async def add(self, number: int) -> int:
        self.total += number
        return self.total

    async def add_later(self, number: int) -> None:
        there: Any = Tally(self.key)
        await there.add(number, after="10 s")

    async def remove(self) -> None:
        self.delete()


class SmallParts(Departure):
    part_max = 2
    left_max = 0


class InSmallParts(TransactionWorker):
    departure = SmallParts


class Process:
    """One process of place 1; what it sends to whom, and its log."""

    def __init__(self, places: int = 1, snapshot_ns: int = 10**15) -> None:
        self.machine = InSmallParts(1, Catalog([Tally]), Settings(epoch_ns=0, snapshot_ns=snapshot_ns))
        self.places = places
        self.sent: list[Send] = []
        self.kept: list[Any] = []
        self.writes_log = self.writes_pieces = True
        self.log_end = 0

    def begin(self) -> None:
        members = [str(number) for number in range(1, self.places + 1)]
        self.tell(FrameArrived(COORDINATOR, Resume(ATTEMPT, members, [])))
        self.tell(FrameArrived(COORDINATOR, Proceed(ATTEMPT, 0)))

    def tell(self, event: Any, now_ns: int = SECOND_NS) -> None:
        events = [event]
        while events:
            for effect in self.machine.handle(events.pop(0), now_ns):
                match effect:
                    case OpenState(attempt=attempt):
                        events.append(StateOpened(attempt, [], b"", 0))
                    case AppendLog(attempt=attempt, end=end):
                        self.log_end = end
                        events += [LogWritten(attempt, end)] if self.writes_log else []
                    case StorePiece(piece=piece):
                        self.kept.append(effect)
                        events += [PieceStored(piece)] if self.writes_pieces else []
                    case Send():
                        self.sent.append(effect)
                    case _:
                        self.kept.append(effect)

    def hear(self, frame: Any, sender: str = COORDINATOR, now_ns: int = SECOND_NS) -> None:
        self.tell(FrameArrived(sender, frame), now_ns)

    def call(self, number: int, made: Any, key: str | None = None, now_ns: int = SECOND_NS) -> None:
        request = Catalog([Tally]).request(made.under(key))
        self.hear(Call(Origin("c", number, -1), request), "c", now_ns)

    def take(self, kind: type[Any]) -> list[Any]:
        found = [each.frame for each in self.sent if isinstance(each.frame, kind)]
        self.sent = [each for each in self.sent if not isinstance(each.frame, kind)]
        return found

    def stored(self) -> list[Piece]:
        """Returns the pieces of snapshots that were to be written."""
        return [each.piece for each in self.kept if isinstance(each, StorePiece)]

    def values(self) -> dict[int, Any]:
        replies = self.take(Reply)
        assert not [each for each in replies if each.failure is not None]
        return {each.number: msgspec.msgpack.decode(each.value) for each in replies}


def copied(there: Process, here: Process) -> int:
    """Copies a place until that is complete. Returns in how many parts."""
    there.hear(CopyOut(ATTEMPT))
    parts = 0
    while copies := there.take(Copy):
        for copy in copies:
            here.hear(copy, OTHER_PROCESS)
            parts += 1
        for taken in here.take(CopyTaken):
            there.hear(taken, OTHER_PROCESS)
    assert there.take(Copied) == [Copied(ATTEMPT)]
    return parts


def handed_over(there: Process, here: Process) -> None:
    there.hear(Switch(ATTEMPT))
    (takeover,) = there.take(Takeover)
    here.hear(takeover, OTHER_PROCESS)
    assert here.take(TakenOver)
    assert AdoptLog(ATTEMPT) in here.kept


def test_what_a_place_has_is_in_the_other_process() -> None:
    there, here = Process(), Process()
    there.begin()
    for number in range(5):
        there.call(number, Tally(f"t{number}").add(number + 1))
    there.call(5, Tally("t0").add_later(100))
    there.call(6, Tally("keyed").add(7), key="once")
    there.values()
    assert copied(there, here) > 3
    there.call(7, Tally("t1").add(10))  # After it was copied.
    there.call(8, Tally("t2").remove())
    assert there.values() == {7: 12, 8: None}
    before, totals = dict(there.machine.state), there.machine.totals()
    assert totals.committed == 9
    handed_over(there, here)
    assert here.machine.totals().committed == totals.committed
    assert here.machine.totals().latency == totals.latency
    assert here.machine.state == before
    assert not there.machine.state
    # A call that was answered gets its reply again; the first call under a key has run.
    here.call(7, Tally("t1").add(10))
    here.call(9, Tally("keyed").add(7), key="once")
    here.call(10, Tally("t1").add(1))
    assert here.values() == {7: 12, 9: 7, 10: 13}
    # The delayed call is made, and entities expire when their time is over.
    here.tell(Ticked(), 12 * SECOND_NS)
    here.call(11, Tally("t0").add(0), now_ns=13 * SECOND_NS)
    assert here.values() == {11: 101}
    here.tell(Ticked(), 4_000 * SECOND_NS)
    assert not here.machine.state


def test_calls_that_come_while_a_place_is_handed_over_wait_and_run_in_the_other_process() -> None:
    there, here = Process(), Process()
    there.begin()
    copied(there, here)
    there.writes_log = False
    there.call(0, Tally("t").add(1))  # In the log, which is not durable.
    there.hear(Switch(ATTEMPT))
    there.call(1, Tally("t").add(1))
    assert not there.take(Takeover)
    assert there.machine.next_deadline() is None
    there.tell(LogWritten(ATTEMPT, there.log_end), 2 * SECOND_NS)
    (takeover,) = there.take(Takeover)
    assert takeover.since_ns == SECOND_NS
    here.hear(takeover, OTHER_PROCESS, now_ns=3 * SECOND_NS)
    assert here.take(TakenOver) == [TakenOver(ATTEMPT, 2 * SECOND_NS)]
    assert here.values() == {0: 1, 1: 2}
    assert not there.values()


def test_a_place_moves_also_when_each_snapshot_would_begin_before_the_last_one_is_written() -> None:
    there, here = Process(snapshot_ns=0), Process()
    there.writes_pieces = False
    there.begin()
    there.call(0, Tally("t").add(1))  # The first epoch ends with a snapshot.
    copied(there, here)
    there.hear(Switch(ATTEMPT))
    there.call(1, Tally("t").add(1))
    assert there.values() == {0: 1, 1: 2}, "epochs go on while it is written"
    (piece,) = there.stored()
    assert not there.take(Takeover)
    there.tell(PieceStored(piece))
    (takeover,) = there.take(Takeover)
    here.hear(takeover, OTHER_PROCESS)
    here.call(2, Tally("t").add(1))
    assert here.values() == {2: 3}


def test_there_is_no_snapshot_while_another_place_writes_the_last_one() -> None:
    place = Process(places=2, snapshot_ns=0)
    place.begin()
    for epoch, is_storing in enumerate((True, False), 1):
        place.call(epoch, Tally(_name_at(1)).add(1))
        (sent,) = place.take(Round)
        assert (sent.body.snapshot, sent.body.storing) == (True, False)
        for number, body in enumerate((Wave(False, epoch, storing=is_storing), Conflicts([], [], []))):
            place.hear(Round(ATTEMPT, epoch, number, body), "2")
        place.take(Round)
        assert place.values() == {epoch: epoch}
        assert place.stored() == ([] if is_storing else [Piece(ATTEMPT, epoch)])


def test_a_place_that_is_to_stay_goes_on() -> None:
    there, here = Process(), Process()
    there.begin()
    copied(there, here)
    there.hear(Stay(ATTEMPT))
    there.hear(Switch(ATTEMPT))
    there.call(0, Tally("t").add(1))
    assert there.values() == {0: 1}


def test_rounds_are_sent_again_to_the_other_process_and_by_it() -> None:
    there, here = Process(places=2), Process(places=2)
    there.begin()
    there.call(0, Tally(_name_at(1)).add(1))
    (first,) = there.take(Round)
    there.hear(Moved(2))
    assert there.take(Round) == [first]
    here.hear(Moved(2))  # Of an attempt that has not begun here.
    assert not here.sent


def test_the_next_snapshot_has_what_changed_before_the_move() -> None:
    there, here = Process(), Process()
    there.begin()
    there.call(0, Tally("saved").add(1))  # The first epoch ends with a snapshot.
    there.call(1, Tally("changed").add(1))
    copied(there, here)
    handed_over(there, here)
    assert here.machine._own is not None
    here.machine._take_snapshot(here.machine._own)
    here.tell(Ticked())
    pieces = [each.data for each in (*there.kept, *here.kept) if isinstance(each, StorePiece)]
    assert [{name.key for name in restored([piece])[1]} for piece in pieces] == [{"saved"}, {"changed"}]


def test_a_missing_part_of_a_copy_is_a_fault() -> None:
    there, here = Process(), Process()
    there.begin()
    there.call(0, Tally("t").add(1))
    there.hear(CopyOut(ATTEMPT))
    (copy,) = there.take(Copy)
    with pytest.raises(InvariantError, match="a part of the copy of a place is missing"):
        here.hear(Copy(ATTEMPT, copy.number + 1, copy.data), OTHER_PROCESS)


def _name_at(worker: int) -> str:
    placement = Placement(2)
    return next(f"k{n}" for n in range(100) if placement.worker_of(EntityName("Tally", f"k{n}")) == worker)
