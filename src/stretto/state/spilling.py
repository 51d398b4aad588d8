"""A map that keeps entries in memory up to a budget, and the rest in a cold store.

An entry that is read or set comes into memory and stays there until `settle`, which is called between two runs of a
function. At that point the function holds no mutable value any more, so the least recently used entries are evicted
until the rest is within the budget. Memory thus holds at most the budget and the entries that one run touches.
Iteration does not load the map; it keeps only mutable values that the caller still holds.

Iteration is in the order of the keys' packed bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from itertools import islice
from sys import getrefcount, getsizeof
from typing import Any, TypeVar

from stretto.state.cold import Cold, key_bytes
from stretto.state.packing import packed, unpacked
from stretto.state.rolling import Rolling

K = TypeVar("K")
T = TypeVar("T")

UNCHANGING = frozenset({int, float, str, bytes, bool, type(None)})
"""Types of immutable values."""

ENTRY_BYTES = 300
"""The bytes that an entry takes in addition to its key and value, in the dicts of this class."""
SETTLED_FRACTION = 0.75
"""The fraction of the budget that stays in memory after an eviction, so that not every run has to write."""
PAGE_ENTRIES = 1024
"""The number of values that are evicted at a time during iteration."""

_SAMPLE = 16
_DEPTH_MAX = 3


class Spilling(MutableMapping[K, T]):
    """A map with at most `budget_bytes` of entries in memory, by estimate. Keys and values must be plain data."""

    def __init__(self, cold: Cold, budget_bytes: int) -> None:
        self._cold = cold
        self._budget = budget_bytes
        self._used = False
        """Whether the cold store has any entry; it is not read before that."""
        self._count = 0
        self._sizes_changed = 0
        self._hot: dict[K, tuple[K, T]] = {}
        """The entries in memory, the least recently used first, as of the last `settle`. Each has its own key with it:
        of equal keys, such as 1 and True, a dict keeps the first, and so does this map."""
        self._bytes_of: dict[K, int] = {}
        self._bytes = 0
        self._touched: dict[K, None] = {}
        """Keys read or set since the last `settle`."""
        self._unwritten: set[K] = set()
        """Keys of entries in memory that the cold store does not have, or may have with an older value."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: object) -> bool:
        return key in self._hot or self._record(key) is not None

    def __getitem__(self, key: K) -> T:
        entry = self._hot.get(key)
        if entry is None:
            record = self._record(key)
            if record is None:
                raise KeyError(key)
            entry = self._hot[key] = _entry(key_bytes(key), record)
        self._hand_out(*entry)
        return entry[1]

    def __setitem__(self, key: K, value: T) -> None:
        entry = self._hot.get(key)
        if entry is not None:
            key = entry[0]
        elif (record := self._record(key)) is not None:
            key, _ = _entry(key_bytes(key), record)
        else:
            self._count += 1
            self._sizes_changed += 1
        self._hot[key] = (key, value)
        self._touched[key] = None
        self._unwritten.add(key)

    def __delitem__(self, key: K) -> None:
        if key not in self._hot and self._record(key) is None:
            raise KeyError(key)
        self._evict(key)
        if self._used:
            self._cold.write([(key_bytes(key), None)])
        self._count -= 1
        self._sizes_changed += 1

    def __iter__(self) -> Iterator[K]:
        for code, record in self._scanned():
            yield _entry(code, record)[0]

    def pairs(self) -> Iterator[tuple[K, T]]:
        """Returns all entries. The caller may change a mutable value in place, as after a lookup."""
        page: list[tuple[K, bytes, bytes]] = []
        page_bytes = 0
        for code, record in self._scanned():
            key, value = entry = _entry(code, record)
            if key in self._hot:
                key, value = self._hot[key]
                self._hand_out(key, value)
            elif type(value) not in UNCHANGING:
                self._hot[key] = entry
                self._hand_out(key, value)
                page.append((key, code, record))
                page_bytes += len(record)
            yield key, value
            del entry, value
            if len(page) >= PAGE_ENTRIES or page_bytes > self._budget // 4:
                page = self._evict_page(page)
                page_bytes = sum(len(record) for _, _, record in page)

    def clear(self) -> None:
        for each in (self._hot, self._bytes_of, self._touched, self._unwritten):
            each.clear()
        if self._used:
            self._cold.clear()
        self._used, self._count, self._bytes = False, 0, 0
        self._sizes_changed += 1

    # Between runs.

    def settle(self) -> None:
        """A run is over: estimate the size of the entries that it touched, and evict entries beyond the budget."""
        for key in self._touched:
            self._hot[key] = entry = self._hot.pop(key)
            if key in self._unwritten or key not in self._bytes_of:
                size = ENTRY_BYTES + size_of(entry)
                self._bytes += size - self._bytes_of.get(key, 0)
                self._bytes_of[key] = size
        self._touched.clear()
        if self._bytes > self._budget:
            self._cool(int(self._budget * SETTLED_FRACTION))

    def _cool(self, bytes_left: int) -> None:
        going = []
        left = self._bytes
        for key in self._hot:
            if left <= bytes_left:
                break
            going.append(key)
            left -= self._bytes_of[key]
        self._write([key for key in going if key in self._unwritten])
        for key in going:
            self._evict(key)

    def _evict(self, key: K) -> None:
        """Remove an entry from memory."""
        self._hot.pop(key, None)
        self._bytes -= self._bytes_of.pop(key, 0)
        self._touched.pop(key, None)
        self._unwritten.discard(key)

    # Checkpoints.

    def peek(self, key: K, default: Any) -> Any:
        """Returns the value of a key without loading it into memory."""
        if key in self._hot:
            return self._hot[key][1]
        record = self._record(key)
        return default if record is None else unpacked(record)[0]

    def stretch(self, rolling: Rolling) -> dict[K, T]:
        """Returns the entries to write in addition to the changed ones: the next ones in the order of keys."""
        self._write_all()
        wanted = rolling.stretch_size(self._count)
        found: dict[K, T] = {}
        last = b""
        for code, record in self._cold.scan(rolling.place):
            if len(found) == wanted:
                rolling.reach(last)
                return found
            key, value = _entry(code, record)
            found[key] = value
            last = code
        rolling.end_round()
        return found

    def load(self, keys: list[K], values: Iterable[T], gone: list[K]) -> None:
        """Set and remove many entries in the cold store, past memory: for a map that is read from a checkpoint."""
        codes = [key_bytes(key) for key in keys]
        lost = [key_bytes(key) for key in gone]
        self._count += sum(record is None for record in self._cold.get_many(codes))
        self._count -= sum(record is not None for record in self._cold.get_many(lost))
        records = [_recorded(code, key, value) for code, key, value in zip(codes, keys, values, strict=True)]
        self._cold.write([*zip(codes, records, strict=True), *((code, None) for code in lost)])
        self._used = True
        self._sizes_changed += 1

    # Helpers.

    def _hand_out(self, key: K, value: T) -> None:
        self._touched[key] = None
        if type(value) not in UNCHANGING:
            self._unwritten.add(key)

    def _record(self, key: Any) -> bytes | None:
        return self._cold.get(key_bytes(key)) if self._used else None

    def _write(self, keys: Iterable[K]) -> None:
        changes = [(code := key_bytes(key), _recorded(code, *self._hot[key])) for key in keys]
        if changes:
            self._cold.write(changes)
            self._used = True

    def _write_all(self) -> None:
        """Write all entries to the cold store. Values that this run has handed out may still change after that."""
        self._write(self._unwritten)
        self._unwritten.intersection_update(self._touched)

    def _scanned(self) -> Iterator[tuple[bytes, bytes]]:
        self._write_all()
        sizes_changed = self._sizes_changed
        for found in self._cold.scan():
            if self._sizes_changed != sizes_changed:
                raise RuntimeError("a map state changed size during iteration")
            yield found

    def _evict_page(self, page: list[tuple[K, bytes, bytes]]) -> list[tuple[K, bytes, bytes]]:
        """Evict values that were only iterated over. A value stays if it, or a part of it, may be held elsewhere."""
        kept, changes = [], []
        for key, code, record in page:
            if key not in self._hot or _holders(self._hot, key) > _ALONE or not _is_flat(self._hot[key][1]):
                kept.append((key, code, record))
                continue
            now = _recorded(code, *self._hot[key])
            if now != record:
                changes.append((code, now))
            self._evict(key)
        self._cold.write(changes)
        return [] if len(kept) >= PAGE_ENTRIES // 2 else kept


def _recorded(code: bytes, key: Any, value: Any) -> bytes:
    """Returns a value for the cold store, with its key where the key cannot be recovered from its code."""
    plain = type(key) in (int, str, bytes) or packed(key) == code
    return packed([value] if plain else [value, key])


def _entry(code: bytes, record: bytes) -> tuple[Any, Any]:
    found = unpacked(record)
    return (found[1] if len(found) > 1 else unpacked(code)), found[0]


def _holders(values: dict[Any, tuple[Any, Any]], key: Any) -> int:
    value = values[key][1]
    return getrefcount(value)


_ALONE = _holders({0: (0, [])}, 0)
"""The reference count, in this interpreter, of a value that only an entry of the map holds."""


def _is_flat(value: Any) -> bool:
    """Whether no part of the value can be held and changed by code that does not hold the value itself."""
    if type(value) is dict:
        return all(type(each) in UNCHANGING for each in value.values())
    return type(value) in (list, set) and all(type(each) in UNCHANGING for each in value)


def size_of(value: Any, depth: int = 0) -> int:
    """Returns about how many bytes of memory a value takes; large values are estimated from a few of their parts."""
    size = getsizeof(value)
    if depth < _DEPTH_MAX and isinstance(value, list | tuple | set | frozenset | dict) and value:
        parts = list(islice(value.items() if isinstance(value, dict) else value, _SAMPLE))
        size += len(value) * sum(size_of(part, depth + 1) for part in parts) // len(parts)
    return size
