"""Kinds of work: what a worker has an instance run, and what comes out of a run.

A message is work; all else is an errand, which has no channel and no sequence number. A new kind of errand (a shard
that moves, a transaction, a query) is a class here or in its own room, an entry in the table of `instance.py` that
says how it runs, and an entry of some part of the worker that says what follows (`worker/part.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from stretto.actors.channel import Message
from stretto.actors.routing import Sends

if TYPE_CHECKING:
    from stretto.actors.snapshot import Snapshot


class Errand:
    """Work that is not a message."""

    __slots__ = ()


class Open(Errand):
    """Open the function, and resume what it resumes from."""

    __slots__ = ()


class Poll(Errand):
    """Read from a source."""

    __slots__ = ()


class FireTimers(Errand):
    """Processing-time timers are due."""

    __slots__ = ()


class End(Errand):
    """All inputs had ended in the checkpoint that it resumes from."""

    __slots__ = ()


class Surrender(Errand):
    """A lessee's part of a barrier: give the partial state away."""

    __slots__ = ()


OPEN, POLL, FIRE_TIMERS, END, SURRENDER = Open(), Poll(), FireTimers(), End(), Surrender()


class Barrier(Errand):
    """A barrier's critical part as one run of the lessor: take the partial states in, run the critical messages."""

    __slots__ = ("messages", "parts")

    def __init__(self, messages: list[Message], parts: list[bytes]) -> None:
        self.messages = messages
        self.parts = parts


class Adoption(Errand):
    """A lessee gets the consolidated state, to read from until the next barrier."""

    __slots__ = ("states",)

    def __init__(self, states: bytes) -> None:
        self.states = states


class Marking(Errand):
    """A source comes to the mark of a checkpoint, or a sink that has finished takes part in it."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: int) -> None:
        self.checkpoint = checkpoint


class Publishing(Errand):
    """A sink publishes what it has sealed up to a checkpoint."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: int) -> None:
        self.checkpoint = checkpoint


Work: TypeAlias = Message | Errand


class Outcome:
    """What one run gave: payloads per channel in order, and what the worker must know to continue.

    A source says in `next_ns` when its next row is due, and in `gather_until_ns` how long it may wait for more.
    `states` is what a lessee surrendered, or what a lessor shares. `progress_us` is how far the stream has come with
    what was sent, None where nobody can tell. `snapshot` is there when the run came to the mark of a checkpoint."""

    __slots__ = (
        "arrived_ns",
        "finished",
        "gather_until_ns",
        "next_ns",
        "progress_us",
        "rows_in",
        "sends",
        "snapshot",
        "states",
    )

    def __init__(self, arrived_ns: int) -> None:
        self.sends: Sends = []
        self.arrived_ns = arrived_ns
        self.progress_us: int | None = None
        self.rows_in = 0
        self.finished = False
        self.next_ns: int | None = None
        self.gather_until_ns = 0
        self.states: bytes | None = None
        self.snapshot: Snapshot | None = None
