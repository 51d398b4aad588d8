"""What the actors of an attempt on one worker get from the attempt before: which parts have come, which are awaited."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from stretto.actors.seat import Seat
from stretto.protocol.handover import Bequest

Actor = tuple[str, int]
"""A function and a partition."""


@dataclass(frozen=True, slots=True)
class Former:
    """What one actor of the attempt before had: its content and those of its tasks, or the actor itself where it can be
    taken over as it is, or that it had `finished`."""

    number: int
    contents: tuple[bytes, ...] = ()
    finished: bool = False
    adopted: Seat | None = None


class Inheritance:
    """The formers that actors here follow. All that belongs to an earlier handover than the latest is of no use."""

    def __init__(self, wanted: Set[Actor]) -> None:
        self._wanted = wanted
        self.formers: dict[Actor, Former] = {}
        self._pieces: dict[tuple[Actor, str], dict[int, bytes]] = {}
        self._homes: dict[Actor, tuple[bytes, tuple[str, ...]]] = {}
        self._parts: dict[Actor, dict[str, bytes]] = {}
        self._number = 0

    def put(self, sender: str, frame: Bequest) -> Former | None:
        """Adds a piece; returns the former actor once all of it is here."""
        if not self._is_latest(frame.number):
            return None
        actor = (frame.function, frame.former)
        if frame.finished:
            return Former(frame.number, finished=True)
        pieces = self._pieces.setdefault((actor, sender if frame.is_part else ""), {})
        pieces[frame.piece] = frame.states
        if len(pieces) == frame.pieces:
            content = b"".join(pieces[piece] for piece in range(frame.pieces)) if frame.pieces > 1 else frame.states
            if frame.is_part:
                self._parts.setdefault(actor, {})[sender] = content
            else:
                self._homes[actor] = (content, frame.tasks)
        return self._whole(frame.number, actor)

    def _whole(self, number: int, actor: Actor) -> Former | None:
        """An actor with tasks is whole when all of them have given their parts."""
        if actor not in self._homes:
            return None
        content, tasks = self._homes[actor]
        parts = self._parts.get(actor, {})
        if not parts.keys() >= set(tasks):
            return None
        return Former(number, (content, *(parts[member] for member in tasks)))

    def take(self, number: int, actor: Actor, former: Former) -> None:
        if self._is_latest(number):
            self.formers[actor] = former

    def is_complete(self, number: int) -> bool:
        """Whether all is here that belongs to this handover."""
        return number == self._number and self.formers.keys() >= self._wanted

    def _is_latest(self, number: int) -> bool:
        if number > self._number:
            self._number = number
            for kept in (self.formers, self._pieces, self._homes, self._parts):
                kept.clear()
        return number == self._number
