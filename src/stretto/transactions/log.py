"""The ingress log of a worker: calls, and where each epoch was cut. Its entries are replayed after a failure.

    entry   = length (4 bytes), CRC-32 of the body (4 bytes), body (msgpack)
    Logged    a call, before it is sequenced
    Cut       an epoch has taken the calls up to here; durable before any reply of the epoch
    Stopped   a transaction has run for too long here, and is aborted when it runs again

Which calls are in which epoch decides the order of transactions, so without the cuts a replay could give other answers
than those that clients have already (Styx relies on the order of calls in the log alone, which leaves that open). A cut
is written once: after a failure, a worker whose log has the cut of an epoch uses it, and one whose log has not cuts it
again, since then no reply of the epoch was sent. The tail that a crash has torn is what was never acknowledged: reading
stops at the first entry whose length or checksum is wrong.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from zlib import crc32

import msgspec

from stretto.errors import DamagedError
from stretto.protocol.transactions import Origin, Request

_HEADER = struct.Struct("<II")
ENTRY_BYTES_MAX = 4 << 20


class Logged(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="c"):
    """A call, and when it arrived."""

    origin: Origin
    request: Request
    at_us: int
    delayed: str | None = None
    """The name of a delayed call, which is nobody's now: it is due."""
    is_refused: bool = False
    """Too many calls of its entity were under way: it does not run, and whatever comes of it again does not either."""


class Cut(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """The epoch has taken calls up to number `taken` of this log, counted from its very beginning. Its time here is
    `at_us`. If there is no room for emitted rows here, transactions that emit some are aborted."""

    epoch: int
    taken: int
    at_us: int = 0
    refuses_rows: bool = False


class Stopped(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The transaction with this seed ran out of time on this worker in this epoch, in the dry run or in the fallback.
    No reply that depends on that was sent. It may have run in epochs before, which lost it to others; there replies
    depend on what it did."""

    seed: str
    in_fallback: bool
    epoch: int


Entry = Logged | Cut | Stopped
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


def encoded(entry: Entry) -> bytes:
    body = _ENCODER.encode(entry)
    return _HEADER.pack(len(body), crc32(body)) + body


@dataclass
class Content:
    """What a log has from a position on: calls with the position where each begins, and cuts by epoch."""

    end: int
    """Where the whole entries end."""
    calls: list[tuple[int, Logged]] = field(default_factory=list)
    cuts: dict[int, Cut] = field(default_factory=dict)
    stopped: set[Stopped] = field(default_factory=set)


def read(data: bytes, position: int) -> Content:
    """Returns the entries of a log that begins at this position."""
    content = Content(position)
    offset = 0
    while (entry := _entry(data, offset)) is not None:
        body, after = entry
        match _decoded(body, position + offset):
            case Logged() as call:
                content.calls.append((position + offset, call))
            case Cut() as cut:
                content.cuts[cut.epoch] = cut
            case Stopped() as stopped:
                content.stopped.add(stopped)
        offset = after
        content.end = position + offset
    return content


def _entry(data: bytes, offset: int) -> tuple[bytes, int] | None:
    """Returns the body of the entry and where the next one begins, or None if no whole entry is there."""
    begin = offset + _HEADER.size
    if begin > len(data):
        return None
    length, checksum = _HEADER.unpack_from(data, offset)
    body = data[begin : begin + length]
    if length > ENTRY_BYTES_MAX or len(body) < length or crc32(body) != checksum:
        return None
    return body, begin + length


def _decoded(body: bytes, position: int) -> Entry:
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise DamagedError("an entry of the ingress log is not as it was written", f"at {position}: {error}") from error
