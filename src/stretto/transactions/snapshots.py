"""Snapshots at the ends of epochs (styx.txt 8.2): a piece has what changed since the last one.

At the end of an epoch no transaction runs, so what every worker has there is a consistent cut without any marker. A
snapshot is a chain of pieces, of which the first is complete; after `PIECES_MAX` of them the next is complete again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stretto.protocol.transactions import EntityName
from stretto.transactions.log import Logged
from stretto.transactions.sessions import Kept

PIECES_MAX = 8


class Again(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that runs again in the next epoch."""

    tid: int
    number: int
    call: Logged


class Content(msgspec.Struct, frozen=True):
    """What a piece has. All but `entities` is whole in every piece."""

    epoch: int
    position: int
    """Where the log begins from which calls are replayed."""
    taken: int
    counter: int
    again: list[Again]
    sessions: list[Kept]
    entities: list[tuple[EntityName, bytes]]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Content)


def encoded(content: Content) -> bytes:
    return _ENCODER.encode(content)


def restored(pieces: Sequence[bytes]) -> tuple[Content, dict[EntityName, bytes]]:
    """Returns the last piece of a chain, and the entities of all of them; the beginning, if there is no piece."""
    content = Content(0, 0, 0, 0, [], [], [])
    entities: dict[EntityName, bytes] = {}
    for piece in pieces:
        content = _DECODER.decode(piece)
        entities.update(content.entities)
    return content, entities
