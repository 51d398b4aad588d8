"""The owners of shards, on any worker: they give the state of shards away and take it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.channel import OutChannel
from stretto.actors.critical import Last
from stretto.actors.seat import Seat
from stretto.actors.tasks import GiveShards, TakeShards
from stretto.actors.work import Errand, Outcome
from stretto.protocol.elastic import Following, Give, GiveMore, Given, Taken
from stretto.worker.leasing.rules import Rules
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part

PIECE_BYTES = 1 << 20
"""The state of shards travels in pieces, each asked for by its receiver: between two of them both owners run the rows
of other shards. A piece takes a worker about a millisecond."""


class TaskMaking(Protocol):
    """Whoever makes the instances here."""

    def lessee(self, address: Address) -> Seat | None: ...


@dataclass(frozen=True, slots=True)
class Leaving:
    """The state of shards that is on its way to another worker."""

    target: str
    states: bytes
    following: tuple[Following, ...]
    piece_bytes: int

    @property
    def pieces(self) -> int:
        return max(1, -(-len(self.states) // self.piece_bytes))

    def given(self, actor: Address, move: int, piece: int) -> Given:
        """Returns one piece of it; the first has what the next owner must not overtake."""
        begin = piece * self.piece_bytes
        states = self.states if self.pieces == 1 else self.states[begin : begin + self.piece_bytes]
        return Given(actor, move, piece, self.pieces, states, () if piece else self.following)


class Owners(Part):
    """The shards that instances here give away or get."""

    piece_bytes = PIECE_BYTES

    def __init__(self, host: Host, rules: Rules, hosting: TaskMaking) -> None:
        self._host = host
        self._rules = rules
        self._hosting = hosting
        self._leaving: dict[tuple[Address, int], Leaving] = {}
        """By actor and move, until the last piece is sent."""
        self._arriving: dict[tuple[Address, int], list[bytes]] = {}

    def frames(self) -> FrameHandlers:
        return {Give: self._on_give, Given: self._on_given, GiveMore: self._on_give_more}

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {
            GiveShards: AfterRun(completes=self._gave, last_word=True),
            TakeShards: AfterRun(completes=self._took),
        }

    # Giving.

    def _on_give(self, sender: str, frame: Give) -> None:
        seat = self._host.seat_of(frame.actor)
        if seat is None or sender != self._host.home(frame.actor):
            self._host.stale += 1
            return
        seat.leaving = [*(seat.leaving or []), frame]
        self.look(seat)

    def look(self, seat: Seat) -> None:
        """Let an instance give shards away whose rows have all run. Called after each of its runs."""
        for frame in list(seat.leaving or ()):
            if self._rules.may_give(seat, frame):
                assert seat.leaving is not None
                seat.leaving.remove(frame)
                seat.mailbox.append(GiveShards(frame.move, frame.shards, frame.target))
                self._host.offer(seat)
        seat.leaving = seat.leaving or None

    def _gave(self, seat: Seat, errand: GiveShards, outcome: Outcome) -> None:
        states = outcome.states
        assert states is not None
        self._leaving[seat.address, errand.move] = Leaving(
            errand.target, states, tuple(self.following(seat)), self.piece_bytes
        )
        self._send_piece(seat.address, errand.move, 0)

    def _send_piece(self, actor: Address, move: int, piece: int) -> None:
        leaving = self._leaving[actor, move]
        self._host.send(leaving.target, leaving.given(actor, move, piece))
        if piece + 1 == leaving.pieces:
            del self._leaving[actor, move]

    def _on_give_more(self, sender: str, frame: GiveMore) -> None:
        leaving = self._leaving.get((frame.actor, frame.move))
        if leaving is None or sender != leaving.target or not 0 < frame.piece < leaving.pieces:
            self._host.stale += 1
            return
        self._send_piece(frame.actor, frame.move, frame.piece)

    def following(self, seat: Seat) -> list[Following]:
        """What the next owner of shards must not overtake: the last message on each channel downstream, and what that
        one was to follow itself, if nothing was sent since."""
        found = []
        for out in seat.outs:
            if out.strategy is not None:
                continue  # The receiver runs in any order.
            found += [Following(out.index, last) for last in (out.after or {}).values()]
            if out.seq:
                found.append(Following(out.index, _last(out, self._host.member)))
        return found

    # Taking.

    def _on_given(self, sender: str, frame: Given) -> None:
        seat = self._host.seat_of(frame.actor) or self._hosting.lessee(frame.actor)
        if seat is None:
            self._host.stale += 1
            return
        for following in frame.following:
            self._follow(seat.outs[following.index], following.last)
        arrived = self._arriving.setdefault((frame.actor, frame.move), [])
        arrived.append(frame.states)
        if len(arrived) < frame.pieces:
            self._host.send(sender, GiveMore(frame.actor, frame.move, len(arrived)))
            return
        del self._arriving[frame.actor, frame.move]
        seat.mailbox.append(TakeShards(frame.move, b"".join(arrived) if frame.pieces > 1 else frame.states))
        self._host.offer(seat)

    def _follow(self, out: OutChannel, last: Last) -> None:
        """The next batch on a channel runs after this message."""
        if last.sender == self._host.member and last.number == out.number:
            return  # It is on the same channel.
        key = (last.receiver, last.sender, last.number)
        known = (out.after or {}).get(key)
        if known is None or known.seq < last.seq:
            out.after = {**(out.after or {}), key: last}

    def dropped(self, job: LocalJob) -> None:
        self._arriving = {key: pieces for key, pieces in self._arriving.items() if key[0].job != job.job}
        self._leaving = {key: leaving for key, leaving in self._leaving.items() if key[0].job != job.job}

    def _took(self, seat: Seat, errand: TakeShards, outcome: Outcome) -> None:
        home = self._host.home(seat.address)
        self._host.send(home, Taken(seat.address, errand.move, len(errand.states)))


def _last(out: OutChannel, member: str) -> Last:
    return Last(out.peer or member, member, out.number, out.seq)
