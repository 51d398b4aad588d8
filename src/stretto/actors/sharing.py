"""What an instance has of shared objects: which it asks for before a batch runs, what it sees, and what it writes.

A batch asks first (`Seek`): the function says which objects it will read. The worker gets those that it has no copy of
(`worker/sharing/`) and runs other work meanwhile; when all are here, the batch runs. Where later objects depend on
earlier ones, the function yields several times, and each time is one round trip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from stretto.actors.work import Errand, Outcome
from stretto.errors import PlanError
from stretto.sharing.contents import ObjectContent, Ref, Write
from stretto.sharing.freshness import Freshness
from stretto.sharing.state import Access, SharedState, declared, refs_of

if TYPE_CHECKING:
    from stretto.actors.channel import Message
    from stretto.actors.function import Function
    from stretto.actors.instance import Instance
    from stretto.actors.work import Work

WRITES = pa.schema(
    [
        ("name", pa.string()),
        ("number", pa.int64()),
        ("write", pa.binary()),
        ("member", pa.string()),
        ("writer", pa.string()),
    ]
)
"""The columns of writes to objects in the workers' memory."""

SLOTS_MAX = 16
"""So many batches of one instance may wait for objects; then it takes up no more."""

Made = tuple[str, int, Write]
"""A write with the name of its object and its number."""

_encode = msgspec.msgpack.Encoder().encode


class Seek(Errand):
    """A batch says which objects it will read. `refs` are those that it has asked for by this run; `done` if it asks
    for no more. What it has read while it asked (`shown`, by space and name) stays as it was: what it asked for depends
    on it."""

    __slots__ = ("asking", "done", "message", "refs", "shown")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.asking: Iterator[Any] | None = None
        self.refs: list[Ref] = []
        self.done = False
        self.shown: dict[tuple[str, str], ObjectContent | None] = {}


class Slot:
    """A batch that was taken up at `taken_ns` and waits for `missing` objects. `copies` are those that are here."""

    __slots__ = ("copies", "missing", "seek", "seeking", "taken_ns")

    def __init__(self, seek: Seek, taken_ns: int) -> None:
        self.seek = seek
        self.taken_ns = taken_ns
        self.copies: dict[Ref, Any] = {}
        self.missing = 0
        self.seeking = True

    @property
    def is_ready(self) -> bool:
        return not self.missing and not self.seeking


class Lookups:
    """The batches of one instance that wait for objects. Those of an `ordered` one run in their order. `held` is what
    waits until they have run: whatever is not a batch. `begun` is what runs at last. While `writing`, the instance
    waits for a server to confirm what it has written."""

    __slots__ = ("begun", "held", "ordered", "slots", "writing")

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.slots: deque[Slot] = deque()
        self.held: Work | None = None
        self.begun: Work | None = None
        self.writing = False

    def next_slot(self) -> Slot | None:
        """Returns a batch that can go on: that can ask for more, or can run."""
        for place, slot in enumerate(self.slots):
            if slot.is_ready and (not slot.seek.done or not place or not self.ordered):
                return slot
        return None

    @property
    def has_work(self) -> bool:
        """Whether something can run that is not in the mailbox."""
        return (self.held is not None and not self.slots) or self.next_slot() is not None

    @property
    def waits(self) -> bool:
        """Whether nothing of the mailbox may be taken up."""
        return self.held is not None or len(self.slots) >= SLOTS_MAX


class Sharing:
    """The spaces that one instance uses. `writer` and `member` name it to the homes of objects."""

    __slots__ = ("accesses", "asks", "made", "member", "spaces", "writer")

    def __init__(self, function: Function, spaces: dict[str, SharedState]) -> None:
        self.spaces = spaces
        self.accesses = {space: Access() for space in spaces}
        self.asks = asks_first(function)
        self.member = self.writer = ""
        self.made: dict[str, list[Made]] = {}
        """What was written to the workers' memory since the worker took this."""

    def see(self, views: dict[str, dict[str, ObjectContent | None]]) -> None:
        """Sets what the next run sees."""
        for space, access in self.accesses.items():
            access.view = views.get(space, {})

    def freshness(self, space: str) -> Freshness:
        return self.spaces[space].freshness

    def take_made(self) -> dict[str, list[Made]]:
        made, self.made = self.made, {}
        return made


def asks_first(function: Function) -> bool:
    """Whether its batches ask for objects before they run."""
    from stretto.actors.function import Function as Base

    return type(function).shared_reads is not Base.shared_reads


def spaces_of(function: Any) -> dict[str, SharedState]:
    """Returns the shared states that a function declares, by their spaces."""
    found: dict[str, SharedState] = {}
    for state in declared(function).values():
        other = found.setdefault(state.space, state)
        if other is not state:
            raise PlanError(
                f"function '{type(function).__name__}' declares the space '{state.space}' of shared objects twice",
                None,
                "Declare it once, or give the other one a space of its own.",
            )
    return found


def bound(function: Any) -> Sharing | None:
    """Gives the function of an instance its own access to shared objects, if it uses any."""
    states = declared(function)
    if not states:
        return None
    sharing = Sharing(function, spaces_of(function))
    for attribute, state in states.items():
        setattr(function, attribute, state.bound(sharing.accesses[state.space]))
    return sharing


def output_of(space: str) -> str:
    """Returns the name of the output that has the writes to a space in the workers' memory."""
    return f"shared:{space}"


def collect(instance: Instance, sharing: Sharing, outcome: Outcome) -> None:
    """Moves what the function has written to the outcome."""
    for space, access in sharing.accesses.items():
        writes = access.writes
        if not writes:
            continue
        access.writes = []
        if sharing.spaces[space].server is not None:
            outcome.writes = [*outcome.writes, *((space, name, write) for name, write in writes)]
            continue
        first = access.number + 1
        access.number += len(writes)
        made = [(name, number, write) for number, (name, write) in enumerate(writes, first)]
        sharing.made.setdefault(space, []).extend(made)
        instance.outputs[output_of(space)].emit(_rows(sharing, made), outcome.sends)


def _rows(sharing: Sharing, made: list[Made]) -> pa.RecordBatch:
    names, numbers, writes = zip(*made, strict=True)
    columns = [
        pa.array(names, pa.string()),
        pa.array(numbers, pa.int64()),
        pa.array([_encode(write) for write in writes], pa.binary()),
        pa.array(list(repeat(sharing.member, len(made))), pa.string()),
        pa.array(list(repeat(sharing.writer, len(made))), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=WRITES)


def sought(instance: Instance, errand: Seek, now_ns: int) -> Outcome:
    """Has the function say which objects a batch reads."""
    ctx = instance.ctx
    ctx.input = errand.message.channel.input
    if errand.asking is None:
        asked = instance.function.shared_reads(errand.message.payload, ctx)
        if not isinstance(asked, GeneratorType):
            errand.refs, errand.done = list(refs_of(() if asked is None else asked)), True
            return Outcome(now_ns)
        errand.asking = asked
    accesses = instance.sharing.accesses if instance.sharing is not None else {}
    for access in accesses.values():
        access.read_names.clear()
    found = next(errand.asking, None)
    errand.done = found is None
    errand.refs = [] if found is None else list(refs_of(found))
    for space, access in accesses.items():
        for name in sorted(access.read_names):
            errand.shown.setdefault((space, name), access.view[name])
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Seek: sought}
