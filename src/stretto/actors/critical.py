"""Critical messages: they act as barriers between what was sent before them and what is sent after (dirigo.txt 4.1).

Watermarks, the end of the input and a user's own critical messages travel in their channel's order. They are plain
typed data, because they cross the wire.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Watermark(msgspec.Struct, frozen=True, tag="w", array_like=True):
    """No event before `time_us` follows on this channel, but for late ones."""

    time_us: int


class EndOfInput(msgspec.Struct, frozen=True, tag="e", array_like=True):
    """Nothing follows on this channel."""


class UserCritical(msgspec.Struct, frozen=True, tag="u", array_like=True):
    """A critical message of the user's own; the payload is plain data (numbers, strings, lists, dicts, bytes)."""

    name: str
    payload: Any = None


Critical = Watermark | EndOfInput | UserCritical
END_OF_INPUT = EndOfInput()
