"""Value, list and map state, and the interface of every state (dirigo.txt 5.3).

A declaration on a class is a template: each instance of an actor works on a `fresh()` copy. `merge` adds another
instance's partial state. `export` and `restore` convert a state to plain data and back, so that it can move between
workers or into a snapshot without pickling.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from stretto.errors import FunctionError, InvariantError, StorageError
from stretto.state.cold import Cold
from stretto.state.columns import field_and_column, values_of
from stretto.state.dividing import KeyedPart, NoKeys, Others, Surveyed
from stretto.state.fragments import Fragment
from stretto.state.packing import packed, unpacked
from stretto.state.rolling import Rolling
from stretto.state.spilling import UNCHANGING, Spilling, size_of
from stretto.state.weighing import OBJECT_ENTRIES, Weighed

T = TypeVar("T")
K = TypeVar("K")

REBUILT_ROWS = 8_192
"""The number of rows of a fragment that are converted to values at a time."""

_GONE: Any = object()


class State:
    """The interface of every state. A function with a state that cannot combine stays sequential."""

    @property
    def combinable(self) -> bool:
        """Whether partial states of several instances can be merged into one."""
        return False

    def fresh(self) -> State:
        """Returns an empty state with the same declaration."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Add the partial state of another instance; only called when `combinable`."""
        raise NotImplementedError

    def export(self) -> Any:
        """Returns the content as plain data: numbers, strings, lists, dicts and Arrow tables."""
        raise NotImplementedError

    def restore(self, content: Any) -> None:
        """Replace the content by a result of `export`."""
        raise NotImplementedError

    _fragments_given = 0

    def fragments(self) -> list[Fragment]:
        """Returns the content for a checkpoint, in parts. A part that has not changed keeps its number. A state that
        is not small should override this, so that unchanged parts are not written again."""
        self._fragments_given += 1
        return [Fragment(self._fragments_given, packed(self.export()))]

    def rebuild(self, fragments: list[Fragment]) -> None:
        """Replace the content by a result of `fragments`, of this state or of the one before a failure."""
        (fragment,) = fragments
        assert isinstance(fragment.content, bytes)
        self._fragments_given = fragment.number
        self.restore(unpacked(fragment.content))

    def forget_fragments(self) -> None:
        """The last fragments were not stored: the next call of `fragments` must return the whole content."""

    def describe(self) -> dict[str, Any]:
        """Returns a description of its fragments as plain data. With it, a program that does not have the app can read
        them from a checkpoint (`operators/described.py`)."""
        return {"kind": "whole"}

    @property
    def spills(self) -> bool:
        """Whether it can keep entries in a cold store when memory is full."""
        return False

    def spill_to(self, cold: Cold, budget_bytes: int) -> None:
        """Keep at most `budget_bytes` in memory from now on, and the rest in `cold`; only called when it `spills`."""
        raise NotImplementedError

    def settle(self) -> None:
        """A run of the function is over: the function does not hold values of this state any more."""

    @property
    def layout(self) -> str:
        """Its content, described in words. A state can be restored from a checkpoint with the same layout."""
        return type(self).__name__

    def keep(self, part: KeyedPart) -> None:
        """Keep only the entries of one partition; called when a function resumes with other partitions than it had.
        Raises a StorageError with the reason if the state cannot be divided."""
        raise StorageError("it is not kept by key")

    def take_in(self, other: Any) -> None:
        """Add the part that another partition had. If the function is keyed, the two have no key in common."""
        self.merge(other)

    indivisible: str | None = "it is not kept by key"
    """Why the entries of some keys cannot be given to another worker; None where they can."""

    def give(self, part: KeyedPart) -> Any:
        """Remove the entries of some keys; returns them as `export` does, for `receive` of another instance."""
        given = self.fresh()
        given.restore(self.export())
        given.keep(part)
        self.keep(Others(part))
        return given.export()

    def receive(self, content: Any) -> None:
        """Add what another instance gave; the two have no key in common."""
        received = self.fresh()
        received.restore(content)
        self.take_in(received)

    def survey(self, keys: pa.Schema) -> Surveyed:
        """Returns the keys that it has entries of, and its content without them, as `export` would return it. A
        state that is not small should override this, so that its entries are not copied."""
        others, part = self.fresh(), NoKeys(keys)
        others.restore(self.export())
        others.keep(part)
        return Surveyed(part.noted, others.export())

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        """Yields entries, or a sample of them, with what each stands for in bytes, so that the state of a shard can be
        measured (`weighing.py`). `keys` are the columns by which rows are partitioned. Nothing if it cannot."""
        return iter(())


class ValueState(State, Generic[T]):
    """One value; `combine(mine, theirs)` merges two partial values."""

    indivisible = "it is one value for all keys"

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

    @property
    def _is_empty(self) -> bool:
        return bool(self.value == self._default)

    def keep(self, part: KeyedPart) -> None:
        if not self._is_empty:
            raise StorageError(str(self.indivisible))

    def take_in(self, other: ValueState[T]) -> None:
        if self._is_empty:
            self.value = other.value
        elif not other._is_empty:
            if self._combine is None:
                raise StorageError("several partitions have a value, and it has no combining function")
            self.merge(other)


class ListState(State, Generic[T]):
    """Values in the order they were added. Partial lists are appended, which suits holistic aggregates."""

    indivisible = "it is one list for all keys"

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
        if not isinstance(content, list):
            raise TypeError(f"a {type(content).__name__} is where a list should be")
        self.values = list(content)

    def describe(self) -> dict[str, Any]:
        return {"kind": "list"}

    def keep(self, part: KeyedPart) -> None:
        if self.values:
            raise StorageError(str(self.indivisible))


class MapState(State, Generic[K, T]):
    """A value per key; `combine(mine, theirs)` merges the values of one key.

    A checkpoint writes the entries that have changed. A mutable value, such as a list, counts as changed when it is
    read; do not keep it elsewhere to change it later.

    If the function spills, entries that do not fit in memory are on disk. Keys and values must then be plain data, and
    iteration is in the order of the keys' bytes, not of insertion.

    When the parallelism of a keyed function changes, entries go where the rows of their key go. A key of the map must
    be the value of the stream's key column, or the tuple of the values of several. If it is more than that, such as a
    window and a key, `stream_key` returns the stream's key for it."""

    indivisible = None

    def __init__(
        self, combine: Callable[[T, T], T] | None = None, stream_key: Callable[[K], Any] | None = None
    ) -> None:
        self._combine = combine
        self._stream_key = stream_key
        self.entries: dict[K, T] | Spilling[K, T] = {}
        self._rolling = Rolling()
        self._changed: set[K] | None = None
        """Keys changed since the last checkpoint; None before the first, which writes everything."""
        self._removed = 0
        self._weighed_to = 0
        """Where the next sample of entries begins."""

    @property
    def combinable(self) -> bool:
        return self._combine is not None

    def fresh(self) -> MapState[K, T]:
        return MapState(self._combine, self._stream_key)

    def get(self, key: K, default: T | None = None) -> T | None:
        value = self.entries.get(key, default)
        if self._changed is not None and type(value) not in UNCHANGING and key in self.entries:
            self._changed.add(key)
        return value

    def __getitem__(self, key: K) -> T:
        value = self.entries[key]
        if self._changed is not None and type(value) not in UNCHANGING:
            self._changed.add(key)
        return value

    def __setitem__(self, key: K, value: T) -> None:
        self.entries[key] = value
        if self._changed is not None:
            self._changed.add(key)

    def __delitem__(self, key: K) -> None:
        del self.entries[key]
        if self._changed is not None:
            self._changed.add(key)
            self._removed += 1

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[K]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Iterator[tuple[K, T]]:
        if isinstance(self.entries, Spilling):
            return self._pairs(self.entries)
        if self._changed is not None:
            self._changed.update(key for key, value in self.entries.items() if type(value) not in UNCHANGING)
        return iter(self.entries.items())

    def _pairs(self, entries: Spilling[K, T]) -> Iterator[tuple[K, T]]:
        for key, value in entries.pairs():
            if self._changed is not None and type(value) not in UNCHANGING:
                self._changed.add(key)
            yield key, value
            del value  # So that it can leave memory if nothing else holds it.

    def clear(self) -> None:
        if self._changed is not None:
            self._changed.update(self.entries)
            self._removed += len(self.entries)
        self.entries.clear()

    def merge(self, other: MapState[K, T]) -> None:
        if self._combine is None:
            raise InvariantError("a map state without a combining function was merged")
        for key, theirs in other.items():
            mine = self.entries.get(key)
            self[key] = theirs if mine is None else self._combine(mine, theirs)

    def export(self) -> list[tuple[K, T]]:
        return list(self.items())

    def restore(self, content: list[tuple[K, T]]) -> None:
        self.entries.clear()
        self.entries.update(content)
        self._changed = None

    @property
    def _start(self) -> int | bytes:
        """The place before all others. A place is a number, or a key where the state spills."""
        return b"" if isinstance(self.entries, Spilling) else 0

    def fragments(self) -> list[Fragment]:
        if self._changed is None:
            self._rolling = Rolling(given=self._rolling.given, start=self._start)
        elif not self._changed:
            return self._rolling.fragments()
        entries = self.entries
        look: Callable[[K, Any], Any] = entries.get
        if isinstance(entries, Spilling):
            stretch, look = entries.stretch(self._rolling), entries.peek
        else:
            places = self._rolling.stretch(len(entries), self._removed)
            stretch = dict(islice(entries.items(), places.start, places.stop))
        written = {key: look(key, _GONE) for key in self._changed or ()}
        gone = [key for key, value in written.items() if value is _GONE]
        here = {key: value for key, value in written.items() if value is not _GONE} | stretch
        self._rolling.add(_rows(here, gone))
        self._changed, self._removed = set(), 0
        return self._rolling.fragments()

    def forget_fragments(self) -> None:
        self._changed = None

    def rebuild(self, fragments: list[Fragment]) -> None:
        self.entries.clear()
        for fragment in fragments:
            table = fragment.content
            assert isinstance(table, pa.Table)
            if table.column_names != ["key", "value", "gone"] or table.schema.field("gone").type != pa.bool_():
                raise ValueError(f"the columns of a map are {table.schema}")
            for rows in table.to_batches(max_chunksize=REBUILT_ROWS):
                keys = values_of(table.schema.field("key"), rows.column(0))
                here = len(keys) - sum(rows.column(2).to_pylist())
                values = values_of(table.schema.field("value"), rows.column(1).slice(0, here))
                self._replace(keys[:here], values, keys[here:])
        self._rolling, self._changed, self._removed = Rolling(fragments, start=self._start), set(), 0

    def _replace(self, keys: list[K], values: list[T], gone: list[K]) -> None:
        if isinstance(self.entries, Spilling):
            self.entries.load(keys, values, gone)
            return
        self.entries.update(zip(keys, values, strict=True))
        for key in gone:
            self.entries.pop(key, None)

    @property
    def spills(self) -> bool:
        return True

    def spill_to(self, cold: Cold, budget_bytes: int) -> None:
        spilling = Spilling[K, T](cold, budget_bytes)
        spilling.update(self.entries)
        self.entries, self._changed = spilling, None

    def settle(self) -> None:
        if isinstance(self.entries, Spilling):
            self.entries.settle()

    def describe(self) -> dict[str, Any]:
        return {"kind": "map"}

    def keep(self, part: KeyedPart) -> None:
        if self.entries:
            mine = part.mine(self._columns(part.keys))
            self.restore([entry for entry, is_mine in zip(self.entries.items(), mine.tolist(), strict=True) if is_mine])

    def give(self, part: KeyedPart) -> list[list[Any]]:
        """Returns the keys and the values, not pairs: packing a pair copies both once more."""
        if not self.entries:
            return [[], []]
        mine = part.mine(self._columns(part.keys))
        given = list(compress(self.entries.items(), mine.tolist()))
        for key, _ in given:
            del self[key]
        return [[key for key, _ in given], [value for _, value in given]]

    def receive(self, content: list[list[Any]]) -> None:
        for key, value in zip(*content, strict=True):
            self[key] = value

    def survey(self, keys: pa.Schema) -> Surveyed:
        return Surveyed([self._columns(keys)] if self.entries else [], [])

    def weighed(self, keys: pa.Schema) -> Iterator[Weighed]:
        entries = self.entries
        if isinstance(entries, Spilling) or not entries:
            return  # What spills is not read for this.
        first = self._weighed_to if self._weighed_to + OBJECT_ENTRIES <= len(entries) else 0
        self._weighed_to = first + OBJECT_ENTRIES
        chosen = list(islice(entries.items(), first, first + OBJECT_ENTRIES))
        each = np.array([_bytes_of(entry) for entry in chosen], np.float64)
        found = [key for key, _ in chosen]
        columns = key_columns(found if self._stream_key is None else map(self._stream_key, found), keys)
        yield Weighed(columns, each * (len(entries) / len(chosen)))

    def _columns(self, keys: pa.Schema) -> dict[str, pa.Array]:
        """The stream's key of each entry, as columns."""
        return key_columns(self.entries if self._stream_key is None else map(self._stream_key, self.entries), keys)

    def take_in(self, other: MapState[K, T]) -> None:
        both = next((key for key in other.entries if key in self.entries), None)
        if both is None:
            for key, value in other.entries.items():
                self[key] = value
        elif self._combine is None:
            raise StorageError(f"several partitions have the key {both!r}, and it has no combining function")
        else:
            self.merge(other)


def _bytes_of(entry: tuple[Any, Any]) -> int:
    """Returns the bytes of an entry as it would be sent; about those in memory, if it cannot be."""
    try:
        return sum(len(part) if type(part) is bytes else len(packed(part)) for part in entry)  # Large ones are bytes.
    except FunctionError:
        return size_of(entry)


def key_columns(found: Iterable[Any], keys: pa.Schema) -> dict[str, pa.Array]:
    """Returns the stream's keys as columns: each is a value, or the tuple of the values of several columns. Raises a
    StorageError if they are not of the key's types."""
    found = list(found)
    try:
        parts = [found] if len(keys) == 1 else list(zip(*found, strict=True))
        if len(parts) != len(keys):
            raise ValueError(f"{len(parts)} values")
        return {field.name: pa.array(part, field.type) for field, part in zip(keys, parts, strict=True)}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        expected = ", ".join(f"{field.name} {field.type}" for field in keys)
        raise StorageError(f"its keys, such as {found[0]!r}, do not match the stream's key ({expected})") from error


def _rows(here: dict[K, T], gone: list[K]) -> pa.Table:
    """Returns the entries as rows. Removed keys come last, with a null value and `gone` set."""
    key_field, keys = field_and_column("key", [*here, *gone])
    value_field, values = field_and_column("value", list(here.values()))
    values = pa.concat_arrays([values, pa.nulls(len(gone), values.type)])
    flags = pa.array([False] * len(here) + [True] * len(gone))
    schema = pa.schema([key_field, value_field, pa.field("gone", pa.bool_())])
    return pa.Table.from_arrays([keys, values, flags], schema=schema)


def states_of(owner: object) -> dict[str, State]:
    """Returns the states declared on a function's class or set on the function itself, by attribute name."""
    found: dict[str, State] = {}
    for cls in reversed(type(owner).__mro__):
        found.update({name: value for name, value in vars(cls).items() if isinstance(value, State)})
    found.update({name: value for name, value in vars(owner).items() if isinstance(value, State)})
    return found
