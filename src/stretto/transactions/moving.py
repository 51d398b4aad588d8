"""A place moves to another process within an attempt, while transactions run.

First the entities are copied, in parts, while epochs follow each other as ever; then what has changed meanwhile, and so
on, until little is left. When the coordinator says so, the place is handed over at the end of an epoch: there no
transaction runs, and when all that was appended to the log is durable too, what is left is small and is sent at once.
The others wait for the first round of the next epoch only, which now comes from another process.

That the frames of two processes arrive in another order, or that those of the first are lost with it, does no harm: of
each worker a receiver can lack the last two rounds at most (a round is sent when all of the round before have come),
so these are sent again, by the new process to all and by all to the new process, and a repeated round changes nothing.
Calls are sent again by who made them, and sessions know them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from stretto.errors import InvariantError
from stretto.protocol.transactions import (
    Call,
    Copied,
    Copy,
    EntityName,
    Look,
    Origin,
    Piece,
    Round,
    Row,
    Settle,
    Takeover,
)
from stretto.transactions.ages import Ages
from stretto.transactions.attempt import Attempt, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.delayed import Delayed, DelayedCalls
from stretto.transactions.emitted import Bounds, EmittedRows
from stretto.transactions.emitted import Name as RowName
from stretto.transactions.epoch import Sequenced
from stretto.transactions.idempotency import KeptKey, Keys
from stretto.transactions.log import Content, Logged, Stopped
from stretto.transactions.placement import Placement
from stretto.transactions.sessions import Kept
from stretto.transactions.snapshots import Again

PART_MAX = 1_000
"""The most entities, keys, delayed calls and emitted rows in a part of the copy."""
PARTS_UNDER_WAY = 2
LEFT_MAX = 1_000
"""The copy is complete when no more than this has changed since ..."""
PASSES_MAX = 8
"""... or it has been brought up to date so often."""


class PartOfCopy(msgspec.Struct, frozen=True, array_like=True):
    """Entities with their fields and with the time of the last write; idempotency keys; delayed calls; emitted rows.
    None: it is not there any more. `changed` has what the next snapshot must have of them."""

    entities: list[tuple[EntityName, bytes | None, int | None]]
    keys: list[tuple[str, KeptKey | None]]
    delayed: list[tuple[str, Delayed | None]]
    rows: list[tuple[RowName, Row | None]]
    changed: list[EntityName]
    changed_keys: list[str]
    changed_delayed: list[str]
    changed_rows: list[RowName]


class Rest(msgspec.Struct, frozen=True, array_like=True):
    """What a worker has at the end of an epoch besides its entities. `incomplete` are snapshots: their epochs, their
    pieces, and where the log after each begins."""

    members: list[str]
    last: PartOfCopy
    finished: int
    decided: int
    at_us: int
    taken: int
    counter: int
    again: list[Again]
    sessions: list[Kept]
    waiting: dict[str, list[Origin]]
    end: int
    calls: list[tuple[int, Logged]]
    stopped: list[Stopped]
    pieces: list[Piece]
    incomplete: list[tuple[int, list[Piece], int]]
    looks: list[Look]
    early: list[tuple[int, Round]]
    recent: list[tuple[int, Round]]
    held: list[Call | Look | Settle]
    streams: list[Bounds]


_ENCODER = msgspec.msgpack.Encoder()
_PARTS = msgspec.msgpack.Decoder(PartOfCopy)
_RESTS = msgspec.msgpack.Decoder(Rest)


class Departure:
    """The side of the process that gives a place away."""

    part_max = PART_MAX
    parts_under_way = PARTS_UNDER_WAY
    left_max = LEFT_MAX

    def __init__(self, own: Attempt) -> None:
        self._own = own
        self._changes = (own.changed, own.ingress.keys.changes, own.ingress.delayed.changes, own.emitted.changes)
        self._copying()
        unsaved = [name for name in own.changed.unsaved if name not in own.state]
        keys, delayed = own.ingress.keys.names(), own.ingress.delayed.names()
        self._begin_pass([*own.state, *unsaved], keys, delayed, own.emitted.names())
        self._passes = 1
        self._sent = self._taken = 0
        self._is_copied = False
        self.is_switching = False
        """Whether the place is to be handed over at the end of an epoch."""
        self.held: list[Call | Look | Settle] = []
        """What has come for the next process."""
        self._since_ns: int | None = None

    def _copying(self) -> list[set[Any]]:
        return [each.copying() for each in self._changes]

    def _begin_pass(
        self, entities: Sequence[EntityName], keys: Sequence[str], delayed: Sequence[str], rows: Sequence[RowName]
    ) -> None:
        self._entities, self._keys, self._delayed, self._rows = iter(entities), iter(keys), iter(delayed), iter(rows)

    def stay(self) -> None:
        """The place is not given away."""
        for each in self._changes:
            each.stopped_copying()

    def taken(self, number: int) -> None:
        """The other process has a part."""
        self._taken = max(self._taken, number + 1)

    def more(self) -> Iterator[Copy | Copied]:
        """Yields what is to be sent now."""
        while not self._is_copied and self._sent - self._taken < self.parts_under_way:
            part = self._next_part()
            if part is not None:
                yield Copy(self._own.number, self._sent, _ENCODER.encode(part))
                self._sent += 1
            elif sum(each.uncopied for each in self._changes) <= self.left_max or self._passes == PASSES_MAX:
                self._is_copied = True
                yield Copied(self._own.number)
            else:
                self._begin_pass(*map(sorted, self._copying()))
                self._passes += 1

    def _next_part(self) -> PartOfCopy | None:
        entities = list(islice(self._entities, self.part_max))
        keys = list(islice(self._keys, self.part_max - len(entities)))
        delayed = list(islice(self._delayed, self.part_max - len(entities) - len(keys)))
        rows = list(islice(self._rows, self.part_max - len(entities) - len(keys) - len(delayed)))
        # Without any, the other process would not know what comes.
        is_there = entities or keys or delayed or rows or self._sent == 0
        return self._part(entities, keys, delayed, rows) if is_there else None

    def _part(
        self, entities: Sequence[EntityName], keys: Sequence[str], delayed: Sequence[str], rows: Sequence[RowName]
    ) -> PartOfCopy:
        own, emitted = self._own, self._own.emitted
        state, written, all_keys, calls = own.state, own.ages.written_us, own.ingress.keys, own.ingress.delayed
        return PartOfCopy(
            [(name, state.get(name), written(name)) for name in entities],
            [(key, all_keys.get(key)) for key in keys],
            [(name, calls.get(name)) for name in delayed],
            [(name, emitted.get(name)) for name in rows],
            [name for name in entities if name in own.changed.unsaved],
            [key for key in keys if key in all_keys.changes.unsaved],
            [name for name in delayed if name in calls.changes.unsaved],
            [name for name in rows if name in emitted.changes.unsaved],
        )

    # The end.

    @property
    def holds(self) -> bool:
        """Whether calls that come now are for the next process."""
        return self.is_switching and not self._own.unstored

    def waits(self, now_ns: int) -> None:
        """What comes for the place has to wait."""
        if self._since_ns is None:
            self._since_ns = now_ns

    def take_held(self) -> list[Call | Look | Settle]:
        """Returns what was for the next process: nothing waits any more."""
        held, self.held, self._since_ns = self.held, [], None
        return held

    def may_hand_over(self) -> bool:
        """Whether the place can be handed over at the end of this epoch: all of it is durable here, and nothing that
        was begun comes back to this process only."""
        return self.holds and not self._own.ingress.unwritten

    def takeover(self, recent: list[tuple[int, Round]], now_ns: int) -> Takeover:
        """Returns all that the other process lacks. Nothing is done here any more."""
        own, ingress = self._own, self._own.ingress
        rest = Rest(
            own.members,
            self._part(*map(sorted, self._copying())),
            own.finished,
            own.decided,
            own.at_us,
            ingress.taken,
            own.sequencer.counter,
            [Again(each.tid, each.number, each.call) for each in own.again],
            ingress.sessions.kept(),
            ingress.keys.waiting,
            ingress.end,
            ingress.waiting(),
            sorted(ingress.stopped, key=lambda each: (each.seed, each.in_fallback)),
            own.pieces,
            [(epoch, pieces, position) for epoch, (pieces, position) in sorted(own.taken.items())],
            own.looks,
            [(sender, Round(own.number, e, n, body)) for e, each in own.early.items() for sender, n, body in each],
            recent,
            self.held,
            own.emitted.bounds(),
        )
        return Takeover(own.number, _ENCODER.encode(rest), now_ns if self._since_ns is None else self._since_ns)


def changed_rest(takeover: Takeover, change: Callable[[Rest], Rest]) -> Takeover:
    """Returns a takeover that has something else. The simulator plants bugs with it."""
    return replace(takeover, data=_ENCODER.encode(change(_RESTS.decode(takeover.data))))


class Arrival:
    """The side of the process that takes a place, in one attempt."""

    def __init__(self, attempt: int, worker: int, catalog: Catalog, keys_kept_us: int, parts: WorkerParts) -> None:
        self.attempt = attempt
        self._worker = worker
        self._catalog = catalog
        self._parts = parts
        self._state: dict[EntityName, bytes] = {}
        self._changed: set[EntityName] = set()
        self._ages: Ages = parts.ages(catalog, (), {}, 0)
        self._keys: Keys = parts.keys(catalog, keys_kept_us)
        self._delayed: DelayedCalls = parts.delayed()
        self._emitted: EmittedRows = parts.emitted()
        self._next = 0

    def take(self, copy: Copy) -> None:
        """A part has come. Connections lose nothing as long as they last, and keep the order."""
        if copy.number != self._next:
            raise InvariantError("a part of the copy of a place is missing", f"{copy.number} follows {self._next - 1}")
        self._next += 1
        self._add(_PARTS.decode(copy.data))

    def _add(self, part: PartOfCopy) -> None:
        for name, state, written_us in part.entities:
            if state is None:
                self._state.pop(name, None)
                self._ages.forget(name)
            else:
                self._state[name] = state
                if written_us is not None:
                    self._ages.wrote(name, written_us)
        for key, kept in part.keys:
            self._keys.put(key, kept)
        for delayed, each in part.delayed:
            self._delayed.put(delayed, each)
        for name_of_row, row in part.rows:
            self._emitted.put(name_of_row, row)
        self._changed.update(part.changed)
        self._keys.changes.update(part.changed_keys)
        self._delayed.changes.update(part.changed_delayed)
        self._emitted.changes.update(part.changed_rows)

    def complete(self, takeover: Takeover) -> tuple[Attempt, Rest]:
        """Returns what the place is, from now on here."""
        rest = _RESTS.decode(takeover.data)
        self._add(rest.last)
        self._emitted.bound(rest.streams)
        sessions, in_flight = self._parts.sessions(rest.sessions), self._parts.in_flight(self._catalog)
        again = [Sequenced(each.tid, each.number, each.call) for each in rest.again]
        for each in again:
            if each.call.delayed is None:
                sessions.logged(each.call.origin)
                in_flight.begun(each.call)
        self._keys.waiting.update(rest.waiting)
        log = Content(rest.end, rest.calls, {}, set(rest.stopped))
        workers = len(rest.members)
        own = Attempt(
            takeover.attempt,
            rest.members,
            Placement(workers),
            rest.pieces,
            self._parts.ingress(sessions, self._keys, self._delayed, in_flight, log, rest.taken),
            self._parts.sequencer(self._worker, workers, rest.counter),
            self._state,
            rest.finished,
            again,
            self._ages,
            self._emitted,
            rest.at_us,
            rest.decided,
            reached_us=rest.at_us,
        )
        own.changed.update(self._changed)
        own.looks = rest.looks
        own.taken = {epoch: (pieces, position) for epoch, pieces, position in rest.incomplete}
        for sender, early in rest.early:
            own.early.setdefault(early.epoch, []).append((sender, early.number, early.body))
        for worker, sent in rest.recent:
            own.recent.setdefault(worker, []).append(sent)
        return own, rest


RECENT = 2
"""So many rounds of a worker may be lost with a process that had its place (see above)."""


def note_recent(own: Attempt, worker: int, sent: Round) -> None:
    """A round was sent to a worker, and may have to be sent again."""
    rounds = own.recent.setdefault(worker, [])
    rounds.append(sent)
    del rounds[:-RECENT]


def recent_rounds(own: Attempt) -> list[tuple[int, Round]]:
    """Returns the last rounds that were sent to each worker."""
    return [(worker, each) for worker, rounds in sorted(own.recent.items()) for each in rounds]
