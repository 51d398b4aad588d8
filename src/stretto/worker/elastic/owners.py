"""The owners of shards, on any worker: they give the state of shards away and take it in."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.channel import OutChannel
from stretto.actors.critical import Last
from stretto.actors.seat import Seat
from stretto.actors.tasks import GiveShards, TakeShards
from stretto.actors.work import Errand, Outcome
from stretto.protocol.elastic import Following, Give, Given, Taken
from stretto.worker.leasing.rules import Rules
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part

PIECE_BYTES = 1 << 20
"""The state of shards travels in pieces, so that other frames are not held up by a large one."""


class TaskMaking(Protocol):
    """Whoever makes the instances here."""

    def lessee(self, address: Address) -> Seat | None: ...


class Owners(Part):
    """The shards that instances here give away or get."""

    def __init__(self, host: Host, rules: Rules, hosting: TaskMaking) -> None:
        self._host = host
        self._rules = rules
        self._hosting = hosting
        self._arriving: dict[tuple[Address, int], dict[int, bytes]] = {}

    def frames(self) -> FrameHandlers:
        return {Give: self._on_give, Given: self._on_given}

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
        pieces = max(1, -(-len(states) // PIECE_BYTES))
        following = tuple(self.following(seat))
        for piece in range(pieces):
            content = states[piece * PIECE_BYTES : (piece + 1) * PIECE_BYTES] if pieces > 1 else states
            given = Given(seat.address, errand.move, piece, pieces, content, following if not piece else ())
            self._host.send(errand.target, given)

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
        arrived = self._arriving.setdefault((frame.actor, frame.move), {})
        arrived[frame.piece] = frame.states
        if len(arrived) == frame.pieces:
            del self._arriving[frame.actor, frame.move]
            states = b"".join(arrived[piece] for piece in range(frame.pieces)) if frame.pieces > 1 else frame.states
            seat.mailbox.append(TakeShards(frame.move, states))
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

    def _took(self, seat: Seat, errand: TakeShards, outcome: Outcome) -> None:
        home = self._host.home(seat.address)
        self._host.send(home, Taken(seat.address, errand.move, len(errand.states)))


def _last(out: OutChannel, member: str) -> Last:
    return Last(out.peer or member, member, out.number, out.seq)
