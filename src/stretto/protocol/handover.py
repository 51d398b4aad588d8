"""A running job is handed over from one attempt to the next, at a joint barrier. `job` is an attempt's name.

The coordinator has the next attempt deployed (`Deploy.follows`); members answer `Prepared`. `HandOver` begins the
barrier in the old attempt. Its actors report `Passed` and send what they have (`Bequest`) to the members that need it,
which report `Received`. With all of that, `TakeOver` has the new actors opened (`Ready`), and `Start` is the point of
no return. Before it, `CallOff` lets the old attempt go on.
"""

from __future__ import annotations

import msgspec

from stretto.actors.address import Address
from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.shape import Shapes


class Prepared(msgspec.Struct, frozen=True, tag="prepared"):
    """The instances of the next attempt are made here, but not opened."""

    job: str


class HandOver(msgspec.Struct, frozen=True, tag="handover"):
    """To the members of the running attempt: sources send the mark with this number and stop there. `shapes` are as in
    the running attempt; `successor` will continue, with its own shapes and placement."""

    job: str
    number: int
    shapes: Shapes
    successor: str
    successor_shapes: Shapes
    successor_placement: dict[str, list[str]]


class CallOff(msgspec.Struct, frozen=True, tag="calloff"):
    """There is no handover with this number: the attempt goes on as if it had never begun."""

    job: str
    number: int


class Passed(msgspec.Struct, frozen=True, tag="passed"):
    """An actor has passed the mark, or had finished before. `watermark_us` is what it has sent downstream."""

    actor: Address
    number: int
    finished: bool = False
    watermark_us: int = EVENT_TIME_MIN_US


class Bequest(msgspec.Struct, frozen=True, tag="bequest"):
    """A piece of what a former actor had, for those that follow it in attempt `job` at the receiver. Of an actor that
    had finished there is nothing but this. `tasks` are the members whose tasks send their parts themselves."""

    job: str
    number: int
    function: str
    former: int
    piece: int = 0
    pieces: int = 1
    states: bytes = b""
    finished: bool = False
    tasks: tuple[str, ...] = ()
    is_part: bool = False
    """Whether it is the part of a task, and not the home's."""


class BequestInMemory(msgspec.Struct, frozen=True, tag="bequestinmemory"):
    """`Bequest` with its states in shared memory, under a name. Transports make and resolve it."""

    bequest: Bequest
    name: str
    length: int


class Received(msgspec.Struct, frozen=True, tag="received"):
    """Everything that the actors of this attempt at the sender follow is there."""

    job: str
    number: int


class FormerActor(msgspec.Struct, frozen=True, array_like=True):
    """How far an actor of the old attempt was."""

    finished: bool
    watermark_us: int


class TakeOver(msgspec.Struct, frozen=True, tag="takeover"):
    """All have passed the mark, and all that they had is where it is needed: open the actors of this attempt."""

    job: str
    number: int
    formers: dict[str, list[FormerActor]]
