"""Places of entities move between workers while transactions run: away from workers that drain, and to new ones.

One place of a job moves at a time. The worker that is to have it loads the code; the place is copied to it; then it is
told to switch, and when the other worker has taken over, all are told where the place is. Until the switch, a move that
cannot go on is called off, and the place stays where it is. A loss after that is a loss of the place: another attempt
begins. So it does whenever one begins for another reason, and then the place is where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from stretto.coordinator.part import Host
from stretto.protocol.entities import EntityOrder, EntityPlaces, HostEntities, LeavePlace, MovePlace
from stretto.protocol.transactions import CopyOut, Stay, Switch

AGAIN_NS = 1_000_000_000
"""How long after a move was called off the next one of the job begins."""


Planner = Callable[[Sequence[str | None], Sequence[str], Mapping[str, int]], tuple[int, str] | None]


class MovePhase(Enum):
    LOADING = "loading"
    COPYING = "copying"
    SWITCHING = "switching"


@dataclass
class PlaceMove:
    """A move that is under way, in one attempt."""

    job: str
    place: int
    origin: str
    to: str
    attempt: int
    phase: MovePhase = MovePhase.LOADING

    def concerns(self, member: str) -> bool:
        return member in (self.origin, self.to)


def next_move(places: Sequence[str | None], active: Sequence[str], load: Mapping[str, int]) -> tuple[int, str] | None:
    """Returns which place, by its number from 1, moves next, and to which worker; None if all are where they should be:
    on workers that get work, and on none two more than on another one. `load` is what workers have otherwise."""
    if not active:
        return None
    held = dict.fromkeys(active, 0)
    for member in places:
        if member in held:
            held[member] += 1
    least = min(active, key=lambda member: (held[member], load.get(member, 0), member))
    for number, member in enumerate(places, 1):
        if member is not None and member not in held:
            return number, least
    most = max(active, key=lambda member: held[member])
    if held[most] - held[least] < 2:
        return None
    return places.index(most) + 1, least


class PlaceMoves:
    """The moves that are under way, by job."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._moves: dict[str, PlaceMove] = {}
        self._not_before_ns: dict[str, int] = {}
        self.again_ns = AGAIN_NS
        self.moved = 0
        """How many places have moved."""

    def of(self, job: str) -> PlaceMove | None:
        """Returns the move of a job that is under way."""
        return self._moves.get(job)

    def may_begin(self, job: str) -> bool:
        return job not in self._moves and self._host.now_ns >= self._not_before_ns.get(job, 0)

    def begin(self, move: PlaceMove, order: HostEntities, members: list[str]) -> None:
        """A worker is to have a place; first it loads the code."""
        self._moves[move.job] = move
        self._host.send(move.to, order)
        self._host.send(move.to, EntityPlaces(move.job, members))

    def hosted(self, job: str, sender: str, place: int) -> bool:
        """A worker has loaded the code. Returns whether that was for a move."""
        move = self._moves.get(job)
        if move is None or (sender, place, MovePhase.LOADING) != (move.to, move.place, move.phase):
            return False
        move.phase = MovePhase.COPYING
        self._host.send(move.origin, MovePlace(job, place, sender, CopyOut(move.attempt)))
        return True

    def copied(self, job: str, sender: str, attempt: int) -> None:
        """The copy is complete, but for what has changed in the last moments."""
        move = self._moves.get(job)
        if move is not None and (sender, attempt, MovePhase.COPYING) == (move.origin, move.attempt, move.phase):
            move.phase = MovePhase.SWITCHING
            self._host.send(move.origin, EntityOrder(job, move.place, Switch(attempt)))

    def taken_over(self, job: str, sender: str, attempt: int) -> PlaceMove | None:
        """A worker says that it has a place. Returns the move that ends so."""
        move = self._moves.get(job)
        if move is None or (sender, attempt, MovePhase.SWITCHING) != (move.to, move.attempt, move.phase):
            return None
        del self._moves[job]
        self.moved += 1
        self._host.send(move.origin, LeavePlace(job, move.place))
        return move

    def call_off(self, job: str, gone: str | None = None) -> PlaceMove | None:
        """The place stays where it is, unless it has been told to switch: then another attempt must begin. Returns the
        move that was called off. `gone` is a worker that need not be told."""
        move = self._moves.pop(job, None)
        if move is None:
            return None
        self._not_before_ns[job] = self._host.now_ns + self.again_ns
        if move.phase is MovePhase.COPYING and move.origin != gone:
            self._host.send(move.origin, EntityOrder(job, move.place, Stay(move.attempt)))
        if move.to != gone:
            self._host.send(move.to, LeavePlace(job, move.place))
        return move

    def ended(self, job: str) -> None:
        self._moves.pop(job, None)
        self._not_before_ns.pop(job, None)
