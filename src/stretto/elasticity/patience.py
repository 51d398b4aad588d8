"""For how long something has been so, without a break."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Patience(Generic[K]):
    """Remembers since when each key holds, and the greatest value that it was noted with."""

    def __init__(self) -> None:
        self._since_ns: dict[K, int] = {}
        self._most: dict[K, int] = {}

    def note(self, key: K, now_ns: int, value: int = 0) -> int:
        """Notes that it holds now; returns for how long it has."""
        self._most[key] = max(value, self._most.get(key, value))
        return now_ns - self._since_ns.setdefault(key, now_ns)

    def most(self, key: K) -> int:
        """Returns the greatest value since it began to hold."""
        return self._most[key]

    def end(self, key: K) -> None:
        """It does not hold any more."""
        self._since_ns.pop(key, None)
        self._most.pop(key, None)

    def keep_only(self, keys: Iterable[K]) -> None:
        """Forgets all other keys."""
        known = set(keys)
        for key in [key for key in self._since_ns if key not in known]:
            self.end(key)
