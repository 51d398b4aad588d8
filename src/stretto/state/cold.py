"""The store for entries of a state that do not fit in memory: a map from bytes to bytes, ordered by key.

A cold store lives as long as its instance runs. Recovery after a failure reads checkpoints, never a cold store. This
room knows only the interface; the runtime creates the stores.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from stretto.state.packing import packed


class Cold(Protocol):
    """The store of one state of one instance."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set many entries at once; None removes an entry."""

    def scan(self, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries after a key, in the order of keys, as they are when the scan begins."""

    def clear(self) -> None: ...

    def close(self) -> None:
        """Release the store; its content is not needed any more."""


def key_bytes(key: Any) -> bytes:
    """Returns bytes that are equal exactly where keys are equal: a dict takes 1, 1.0 and True for the same key. The
    bytes are not empty, and sort before two bytes of ones."""
    return packed(key if type(key) in (int, str, bytes) else _same(key))


def _same(key: Any) -> Any:
    """Returns one representative of all values that are equal to this one."""
    if hasattr(key, "item") and getattr(key, "ndim", None) == 0:
        key = key.item()  # A NumPy scalar.
    if isinstance(key, bool):
        return int(key)
    if isinstance(key, float):
        return int(key) if key.is_integer() else key
    if isinstance(key, decimal.Decimal):
        return _same_number(key)
    if isinstance(key, tuple):
        return tuple(map(_same, key))
    if isinstance(key, frozenset):
        return sorted(map(key_bytes, key))  # A list cannot be a key itself, so no other key has this form.
    if isinstance(key, datetime.datetime) and key.tzinfo is not None:
        return key.astimezone(datetime.UTC)
    return key


def _same_number(key: decimal.Decimal) -> Any:
    if not key.is_finite():
        return float(key)
    if key == key.to_integral_value():
        return int(key)
    return float(key) if decimal.Decimal(float(key)) == key else key.normalize()
