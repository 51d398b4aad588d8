"""Snapshots at the ends of epochs (styx.txt 8.2): a piece has what changed since the last one.

At the end of an epoch no transaction runs, so what every worker has there is a consistent cut without any marker. A
snapshot is a chain of pieces, of which the first is complete; after `PIECES_MAX` of them the next is complete again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from stretto.protocol.transactions import EntityName, Row
from stretto.transactions.delayed import Delayed
from stretto.transactions.emitted import Bounds, Name
from stretto.transactions.idempotency import KeptKey
from stretto.transactions.log import Logged
from stretto.transactions.sessions import Kept

PIECES_MAX = 8


class Again(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that runs again in the next epoch."""

    tid: int
    number: int
    call: Logged


class Content(msgspec.Struct, frozen=True):
    """What a piece has. All but `entities`, `keys`, `delayed`, `written` and `rows` is whole in every piece."""

    epoch: int
    position: int
    """Where the log begins from which calls are replayed."""
    taken: int
    counter: int
    again: list[Again]
    sessions: list[Kept]
    entities: list[tuple[EntityName, bytes | None]]
    """None: the entity is not there any more."""
    keys: list[KeptKey] = []
    delayed: list[tuple[str, Delayed | None]] = []
    """Delayed calls by name; None: it does not wait any more."""
    at_us: int = 0
    """The time of the epoch."""
    written: list[tuple[EntityName, int]] = []
    """When those of the entities that expire were last written."""
    rows: list[tuple[Name, Row]] = []
    """Emitted rows; some may have been dropped since."""
    streams: list[Bounds] = []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Content)


def encoded(content: Content) -> bytes:
    return _ENCODER.encode(content)


def restored(pieces: Sequence[bytes]) -> tuple[Content, dict[EntityName, bytes]]:
    """Returns the last piece of a chain, with what all of them have of keys, delayed calls, times of writes and rows;
    and the entities of all of them. The beginning, if there is no piece."""
    content = Content(0, 0, 0, 0, [], [], [])
    entities: dict[EntityName, bytes] = {}
    keys: dict[str, KeptKey] = {}
    delayed: dict[str, Delayed | None] = {}
    written: dict[EntityName, int] = {}
    rows: dict[Name, Row] = {}
    for piece in pieces:
        content = _DECODER.decode(piece)
        for name, state in content.entities:
            if state is None:
                entities.pop(name, None)
            else:
                entities[name] = state
        written.update(content.written)
        keys.update((each.key, each) for each in content.keys)
        delayed.update(content.delayed)
        rows.update(content.rows)
    waiting = [(name, each) for name, each in delayed.items() if each is not None]
    kept = [(name, at_us) for name, at_us in written.items() if name in entities]
    last = replace(content, keys=list(keys.values()), delayed=waiting, written=kept, rows=list(rows.items()))
    return last, entities
