"""The state of shards between its owners: in pieces, one at a time, each asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.tasks import GiveShards, TakeShards
from stretto.actors.work import Outcome
from stretto.protocol.elastic import GiveMore, Given
from stretto.worker.elastic import owners
from stretto.worker.elastic.owners import Owners

ACTOR = Address("job~1", "f", 0)


class Side:
    """One owner on a worker of its own, and the frames that it has sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.seat = SimpleNamespace(address=ACTOR, outs=[], mailbox=[])
        self.stale = 0
        self.owners = Owners(self, None, None)  # type: ignore[arg-type]

    def send(self, to: str, frame: Any) -> None:
        self.sent.append((to, frame))

    def seat_of(self, address: Address) -> Any:
        return self.seat

    def offer(self, seat: Any) -> None:
        pass

    def gives(self, states: bytes) -> None:
        outcome = Outcome(0)
        outcome.states = states
        self.owners._gave(self.seat, GiveShards(3, (7,), "b"), outcome)  # type: ignore[arg-type]

    def gets(self, sender: str, frame: Any) -> None:
        self.owners.frames()[type(frame)](sender, frame)

    def taken(self) -> list[bytes]:
        return [work.states for work in self.seat.mailbox if isinstance(work, TakeShards)]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners.Owners, "piece_bytes", 4)


@pytest.mark.parametrize("states", [b"", b"abc", b"abcd", b"abcdefghij"])
def test_one_piece_is_on_its_way_at_a_time(states: bytes) -> None:
    old, new = Side(), Side()
    old.gives(states)
    pieces = max(1, -(-len(states) // 4))
    for number in range(pieces):
        assert len(old.sent) == number + 1
        to, given = old.sent[-1]
        assert (to, given.piece, given.pieces) == ("b", number, pieces)
        new.gets("a", given)
        assert bool(new.taken()) == (number + 1 == pieces)
        if number + 1 < pieces:
            old.gets("b", new.sent[-1][1])
    assert new.taken() == [states]
    assert len(new.sent) == pieces - 1


@pytest.mark.parametrize(
    ("sender", "piece"), [("c", 1), ("b", 0), ("b", 3), ("b", -1)], ids=["another", "first", "beyond", "negative"]
)
def test_only_the_next_owner_gets_a_piece_that_there_is(sender: str, piece: int) -> None:
    old = Side()
    old.gives(b"abcdefghij")
    old.gets(sender, GiveMore(ACTOR, 3, piece))
    assert [type(frame) for _, frame in old.sent] == [Given]
    assert old.stale == 1


def test_a_dropped_job_gives_nothing_more() -> None:
    old = Side()
    old.gives(b"abcdefghij")
    old.owners.dropped(SimpleNamespace(job=ACTOR.job))  # type: ignore[arg-type]
    old.gets("b", GiveMore(ACTOR, 3, 1))
    assert len(old.sent) == 1
    assert old.stale == 1
