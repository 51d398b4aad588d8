"""Value, list and map state, and the contract that every state keeps (dirigo.txt 5.3).

A declaration on a class is a template: each instance of an actor works on a `fresh()` copy. `merge` takes another
instance's partial state in; `export` and `restore` turn a state into plain data and back, so that it can move
between workers or into a snapshot without pickling.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from stretto.errors import InvariantError

T = TypeVar("T")
K = TypeVar("K")


class State:
    """What every state can do. A state that cannot combine keeps its function sequential."""

    @property
    def combinable(self) -> bool:
        """Whether partial states of several instances can be merged into one."""
        return False

    def fresh(self) -> State:
        """An empty state with the same declaration."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Take the partial state of another instance in; only called when `combinable`."""
        raise NotImplementedError

    def export(self) -> Any:
        """The content as plain data: numbers, strings, lists, dicts and Arrow tables."""
        raise NotImplementedError

    def restore(self, content: Any) -> None:
        """Replace the content by what `export` gave."""
        raise NotImplementedError


class ValueState(State, Generic[T]):
    """One value; `combine(mine, theirs)` merges two partial values."""

    def __init__(self, default: T, combine: Callable[[T, T], T] | None = None) -> None:
        self._default = default
        self._combine = combine
        self.value: T = copy.deepcopy(default)

    @property
    def combinable(self) -> bool:
        return self._combine is not None

    def fresh(self) -> ValueState[T]:
        return ValueState(copy.deepcopy(self._default), self._combine)

    def get(self) -> T:
        return self.value

    def set(self, value: T) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = copy.deepcopy(self._default)

    def merge(self, other: ValueState[T]) -> None:
        if self._combine is None:
            raise InvariantError("a value state without a combining function was merged")
        self.value = self._combine(self.value, other.value)

    def export(self) -> T:
        return self.value

    def restore(self, content: T) -> None:
        self.value = content


class ListState(State, Generic[T]):
    """Values in the order they were added. Partial lists append, which suits holistic aggregates."""

    def __init__(self) -> None:
        self.values: list[T] = []

    @property
    def combinable(self) -> bool:
        return True

    def fresh(self) -> ListState[T]:
        return ListState()

    def append(self, value: T) -> None:
        self.values.append(value)

    def extend(self, values: list[T]) -> None:
        self.values.extend(values)

    def clear(self) -> None:
        self.values.clear()

    def __iter__(self) -> Iterator[T]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def merge(self, other: ListState[T]) -> None:
        self.values.extend(other.values)

    def export(self) -> list[T]:
        return list(self.values)

    def restore(self, content: list[T]) -> None:
        self.values = list(content)


class MapState(State, Generic[K, T]):
    """A value per key; `combine(mine, theirs)` merges the values of one key."""

    def __init__(self, combine: Callable[[T, T], T] | None = None) -> None:
        self._combine = combine
        self.entries: dict[K, T] = {}

    @property
    def combinable(self) -> bool:
        return self._combine is not None

    def fresh(self) -> MapState[K, T]:
        return MapState(self._combine)

    def get(self, key: K, default: T | None = None) -> T | None:
        return self.entries.get(key, default)

    def __getitem__(self, key: K) -> T:
        return self.entries[key]

    def __setitem__(self, key: K, value: T) -> None:
        self.entries[key] = value

    def __delitem__(self, key: K) -> None:
        del self.entries[key]

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[K]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Iterator[tuple[K, T]]:
        return iter(self.entries.items())

    def clear(self) -> None:
        self.entries.clear()

    def merge(self, other: MapState[K, T]) -> None:
        if self._combine is None:
            raise InvariantError("a map state without a combining function was merged")
        for key, theirs in other.entries.items():
            mine = self.entries.get(key)
            self.entries[key] = theirs if mine is None else self._combine(mine, theirs)

    def export(self) -> list[tuple[K, T]]:
        return list(self.entries.items())

    def restore(self, content: list[tuple[K, T]]) -> None:
        self.entries = dict(content)


def states_of(owner: object) -> dict[str, State]:
    """The states declared on a function's class or set on the function itself, by attribute name."""
    found: dict[str, State] = {}
    for cls in reversed(type(owner).__mro__):
        found.update({name: value for name, value in vars(cls).items() if isinstance(value, State)})
    found.update({name: value for name, value in vars(owner).items() if isinstance(value, State)})
    return found
