"""Kinds of work: what a worker runs on an instance, and the outcome of a run.

Work is a message or an errand; an errand has no channel and no sequence number. A new kind of errand (a shard that
moves, a transaction, a query) is a class here or in its own room, an entry in the table of `instance.py` for how it
runs, and an entry in some part of the worker for what follows (`worker/part.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from stretto.actors.channel import Message
from stretto.actors.routing import Sends

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from stretto.actors.snapshot import Snapshot
    from stretto.sharing.contents import Write


class Errand:
    """Work that is not a message."""

    __slots__ = ()


class Open(Errand):
    """Open the function, and resume from a checkpoint if there is one."""

    __slots__ = ()


class Poll(Errand):
    """Read from a source."""

    __slots__ = ()


class FireTimers(Errand):
    """Processing-time timers are due."""

    __slots__ = ()


class End(Errand):
    """End an instance whose inputs had all ended in the checkpoint that it resumes from."""

    __slots__ = ()


class Surrender(Errand):
    """A lessee's part of a barrier: hand over the partial state."""

    __slots__ = ()


OPEN, POLL, FIRE_TIMERS, END, SURRENDER = Open(), Poll(), FireTimers(), End(), Surrender()


class Barrier(Errand):
    """The lessor's part of a barrier, in one run: merge the partial states and run the critical messages."""

    __slots__ = ("messages", "parts")

    def __init__(self, messages: list[Message], parts: list[bytes]) -> None:
        self.messages = messages
        self.parts = parts


class Adoption(Errand):
    """A lessee gets the consolidated state, which it reads until the next barrier."""

    __slots__ = ("states",)

    def __init__(self, states: bytes) -> None:
        self.states = states


class Marking(Errand):
    """A source reaches the mark of a checkpoint or a handover, or a finished sink takes part in it."""

    __slots__ = ("checkpoint", "handover")

    def __init__(self, checkpoint: int, handover: bool = False) -> None:
        self.checkpoint = checkpoint
        self.handover = handover


class Bequeath(Errand):
    """An instance that has passed the mark of a handover gives all that it has to the next attempt of its job."""

    __slots__ = ()


BEQUEATH = Bequeath()


class Publishing(Errand):
    """A sink publishes what it has sealed up to a checkpoint."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: int) -> None:
        self.checkpoint = checkpoint


Work: TypeAlias = Message | Errand


class Outcome(msgspec.Struct):
    """The outcome of one run: payloads per channel in order, and what the worker needs to continue.

    For a source, `next_ns` is when its next row is due, and `gather_until_ns` how long it may wait for more. `states`
    is what a lessee surrendered, what a lessor shares, or what is bequeathed. `progress_us` is the stream progress of
    what was sent; None if unknown. `notice` is what the user should know of a read. `snapshot` is set if the run
    reached the mark of a checkpoint; `passed` is the number of the mark of a handover, if it reached one. `parts` are
    the rows of a message by their route, if the run divided one. `writes` are those to shared objects on servers, with
    their spaces and names."""

    arrived_ns: int
    progress_us: int | None = None
    notice: str | None = None
    rows_in: int = 0
    finished: bool = False
    next_ns: int | None = None
    gather_until_ns: int = 0
    states: bytes | None = None
    snapshot: Snapshot | None = None
    passed: int = 0
    parts: Sequence[tuple[int, RecordBatch]] = ()
    writes: Sequence[tuple[str, str, Write]] = ()
    sends: Sends = msgspec.field(default_factory=list)
