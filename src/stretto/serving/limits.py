"""How much callers may ask of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server. `request_s` is how long a request may take to arrive, and an answer to make no progress
    on its way out. `call_s` is how long a call is waited for."""

    body_bytes: int = 2 << 20
    connections: int = 512
    request_s: float = 10.0
    call_s: float = 30.0
