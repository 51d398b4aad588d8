"""Which names have changed: since the last snapshot, and since a copy of them was made, if one is being made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name")


class Changes(Generic[Name]):
    """The changes of one kind of thing at a worker."""

    __slots__ = ("_uncopied", "unsaved")

    def __init__(self) -> None:
        self.unsaved: set[Name] = set()
        """Since the last snapshot."""
        self._uncopied: set[Name] | None = None

    def add(self, name: Name) -> None:
        self.unsaved.add(name)
        if self._uncopied is not None:
            self._uncopied.add(name)

    def update(self, names: Iterable[Name]) -> None:
        self.unsaved.update(names)
        if self._uncopied is not None:
            self._uncopied.update(names)

    def saved(self) -> None:
        """A snapshot has them all."""
        self.unsaved.clear()

    def copying(self) -> set[Name]:
        """What is there is copied from now on. Returns what has changed since this was last called."""
        before, self._uncopied = self._uncopied, set()
        return before or set()

    @property
    def uncopied(self) -> int:
        """How many have changed since they were copied."""
        return len(self._uncopied or ())

    def stopped_copying(self) -> None:
        self._uncopied = None
