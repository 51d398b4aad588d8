"""Frames to message parts and back. Typed by msgspec and Arrow IPC; nothing is ever pickled or unpickled here.

The first byte says which decoder applies. A data frame is a header of fixed length and a body, the record batch without
its schema, which is sent once, when the channel is opened. A SYNC program, which few batches have, is a part before
them. Each part of a message costs a socket about as much as a
small batch does, so a small body is in the same part as its header; a large one is a separate part and is not copied.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.batches import aligned
from stretto.actors.critical import SyncProgram
from stretto.errors import ProtocolError
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.frames import Control, Frame, OnChannel
from stretto.protocol.scheduling import Offered
from stretto.rendering import error_text

FRAME_BYTES_MAX = 256 * 1024 * 1024
"""The longest part that is sent or accepted."""

COPY_BELOW_BYTES = 65_536
"""Shorter bodies are cheaper to copy than to pass to the socket's thread."""

_CONTROL, _CHANNEL, _DATA, _SYNCED = b"c", b"h", b"d", b"s"
_CONTROL_BYTE, _CHANNEL_BYTE, _DATA_BYTE, _SYNCED_BYTE = b"chds"

_DATA_HEADER = struct.Struct("<c?2xIqqqqq")
"""Kind, whether the progress is known, credits, number of the channel, sequence number, time of arrival, progress,
deadline: 48 bytes, so that a body stays aligned."""

_encode = msgspec.msgpack.Encoder().encode
_decode_control = msgspec.msgpack.Decoder(Control).decode
_decode_channel = msgspec.msgpack.Decoder(OnChannel).decode
_decode_sync = msgspec.msgpack.Decoder(SyncProgram).decode


def encode(frame: Frame) -> list[Any]:
    """Returns the parts of a frame; the body of a data frame is an Arrow buffer that is not copied here."""
    if type(frame) is Data:
        body = frame.batch.serialize()
        _check_length("a batch", body.size)
        header = _header(frame)
        if frame.sync is not None:
            return [_SYNCED + _encode(frame.sync), header, body]
        return [header, body] if body.size >= COPY_BELOW_BYTES else [b"".join((header, body))]
    kind = _CHANNEL if type(frame) in (CriticalSent, Grant, Offered) else _CONTROL
    try:
        content = _encode(frame)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        # Only a user's critical message, or a strategy's request or reply, can contain values without an encoding.
        raise ProtocolError(
            "a message cannot be sent",
            error_text(error),
            "Critical messages and schedule requests carry plain data: numbers, strings, bytes, lists and dicts.",
        ) from error
    _check_length("a message", len(content))
    return [kind + content]


def _header(frame: Data) -> bytes:
    progress_us = frame.progress_us
    known = progress_us is not None
    times = frame.arrived_ns, progress_us or 0, frame.deadline_ns
    try:
        return _DATA_HEADER.pack(_DATA, known, frame.credits, frame.number, frame.seq, *times)
    except struct.error as error:
        raise ProtocolError("a batch has a time that is no integer of 64 bits", f"{times}: {error}") from error


def _check_length(what: str, length: int) -> None:
    if length > FRAME_BYTES_MAX:
        raise ProtocolError(
            f"{what} is longer than a frame may be",
            f"{length} bytes of at most {FRAME_BYTES_MAX}",
            "Use smaller batches (batch_rows of the app, or flat_map that yields several batches).",
        )


class Decoder:
    """Decodes the frames of members. Keeps the schema of each channel by sender and number."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, int], pa.Schema] = {}

    def decode(self, sender: str, parts: list[Any]) -> Frame:
        """Returns the frame; a ProtocolError says why it cannot be decoded."""
        try:
            return self._decoded(sender, parts)
        except Exception as error:
            # Decoders raise many types for bad bytes (a deep nesting is a RecursionError); none may end the loop.
            raise ProtocolError("a frame cannot be decoded", error_text(error)) from error

    def forget(self, sender: str) -> None:
        """Drop the schemas of a member that is gone."""
        for key in [key for key in self._schemas if key[0] == sender]:
            del self._schemas[key]

    def _decoded(self, sender: str, parts: list[Any]) -> Frame:
        first = parts[0]
        kind = first[0]
        if kind == _SYNCED_BYTE:
            data = self._decoded(sender, parts[1:])
            if not isinstance(data, Data):
                raise ValueError("a SYNC program is not followed by a batch")
            data.sync = _decode_sync(first[1:])
            return data
        if kind == _DATA_BYTE:
            _, known, credits, number, seq, arrived_ns, progress_us, deadline_ns = _DATA_HEADER.unpack_from(first)
            batch = pa.ipc.read_record_batch(aligned(_body(parts)), self._schemas[sender, number])
            # Checks that the buffers are long enough, in constant time; reading past them would crash the process.
            batch.validate()
            return Data(number, seq, arrived_ns, batch, progress_us if known else None, deadline_ns, credits)
        (content,) = parts
        if kind == _CHANNEL_BYTE:
            return _decode_channel(content[1:])
        if kind == _CONTROL_BYTE:
            frame = _decode_control(content[1:])
            if isinstance(frame, OpenChannel):
                self._schemas[sender, frame.number] = pa.ipc.read_schema(pa.py_buffer(frame.schema))
            return frame
        raise ValueError(f"unknown kind {kind}")


def _body(parts: list[Any]) -> Any:
    """Returns what follows a data frame's header."""
    if len(parts) == 1:
        return memoryview(parts[0])[_DATA_HEADER.size :]
    header, body = parts
    if len(header) != _DATA_HEADER.size:
        raise ValueError(f"{len(header)} bytes before the body")
    return body
