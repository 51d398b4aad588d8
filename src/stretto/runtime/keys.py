"""The keys of a cluster: one CURVE pair per member, made by the driver at start and sent inside Spark's closure.

A connection is admitted if its public key is in the allow-list; without such a list CURVE would accept any client key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import zmq


@dataclass(frozen=True)
class KeyPair:
    """A CURVE pair; the secret half never appears in a repr or a log."""

    public: str
    secret: str = field(repr=False)

    @staticmethod
    def new() -> KeyPair:
        public, secret = zmq.curve_keypair()
        return KeyPair(public.decode(), secret.decode())


class AllowList:
    """The public keys that may connect, as a credentials provider of pyzmq's authenticator. Refusals are reported."""

    def __init__(self, on_refused: Callable[[str], None]) -> None:
        self._keys: frozenset[bytes] = frozenset()
        self._on_refused = on_refused

    def replace(self, keys: set[str]) -> None:
        self._keys = frozenset(key.encode() for key in keys)

    def callback(self, domain: str, key: bytes) -> bool:
        """Called by the authenticator's thread for each handshake."""
        if key in self._keys:
            return True
        self._on_refused("a connection with a key that is not this cluster's")
        return False
