"""What users write: a `SharedState` is declared on a function, and gives handles of objects by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stretto.errors import FunctionError, PlanError
from stretto.rendering import error_text
from stretto.sharing.contents import Act, Kind, ObjectContent, Ref, Write, check_kind, written
from stretto.sharing.freshness import duration_ns, freshness

_SCHEMES = ("redis", "rediss", "unix")
_encode = msgspec.msgpack.Encoder().encode


class Server:
    """The address of a server, which shows no credentials."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        if not isinstance(url, str) or url.partition("://")[0] not in _SCHEMES or "://" not in url:
            raise PlanError(
                "the server of shared objects is not known",
                None,
                'Write "redis://host:6379/0", "rediss://..." or "unix:///path"; without one, it is in memory.',
            )
        self._url = url

    def __repr__(self) -> str:
        scheme, _, rest = self._url.partition("://")
        place, _, _ = rest.rpartition("@")[2].partition("?")
        return f"{scheme}://..." if "@" in rest.partition("?")[2] or "=" in place else f"{scheme}://{place}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Server) and other._url == self._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __reduce__(self) -> tuple[Any, ...]:
        return Server, (self._url,)

    def reveal(self) -> str:
        """Returns the whole URL, for whoever connects."""
        return self._url


class Access:
    """What one instance sees of one space while it runs, and what it has written in this run."""

    __slots__ = ("number", "read_names", "view", "writes")

    def __init__(self) -> None:
        self.view: dict[str, ObjectContent | None] = {}
        self.writes: list[tuple[str, Write]] = []
        self.read_names: set[str] = set()
        """What was read since this was last cleared."""
        self.number = 0
        """Of the last write that was given a number."""

    def read(self, name: str, kind: Kind) -> ObjectContent | None:
        if name not in self.view:
            raise FunctionError(
                f"the shared object '{name}' is not here",
                "shared_reads() did not ask for it before this batch ran",
                "Return it from shared_reads(); objects can be read in process(), and written anywhere.",
            )
        self.read_names.add(name)
        content = self.view[name]
        check_kind(name, content, kind)
        return content

    def write(self, name: str, write: Write) -> None:
        if name in self.view:
            self.view[name] = written(name, self.view[name], write)
        self.writes.append((name, write))


class SharedState:
    """Objects with global names that functions on any worker read and write; declare it on a `Function`.

    `SharedState()` keeps them in the memory of the workers, for the functions of one app. `SharedState("redis://...")`
    keeps them in Redis or Valkey, for everybody who uses the same `space` there."""

    def __init__(
        self,
        server: str | None = None,
        *,
        space: str = "shared",
        fresh: str = "always",
        cached: int = 10_000,
        patience: str = "30 seconds",
    ) -> None:
        """`fresh` says how old what is read may be: "always" is asked for when a batch is taken up; an age such as
        "200 ms" allows copies of that age; "until written" uses a copy until a function on this worker writes the
        object. A worker has at most `cached` copies. `space` names the objects that belong together. `patience` is how
        long a lost server is tried again before the job fails."""
        if not space or "/" in space or ":" in space or "~" in space:
            raise PlanError(f"a space of shared objects cannot be named {space!r}", None, "Use a name without / : ~.")
        if cached < 0:
            raise PlanError(f"a worker cannot have {cached} copies of shared objects", None, "Use 0 for none.")
        self.server = None if server is None else Server(server)
        self.space = space
        self.fresh = fresh
        self.freshness = freshness(fresh)
        self.cached = cached
        self.patience_ns = duration_ns(patience, f"the patience of the space '{space}'")
        self._access: Access | None = None

    def __repr__(self) -> str:
        where = "" if self.server is None else f"{str(self.server)!r}, "
        return f"SharedState({where}space={self.space!r}, fresh={self.fresh!r}, cached={self.cached})"

    def value(self, name: str, of: Any = Any, default: Any = None) -> SharedValue:
        """Returns the object of this name as one value."""
        return SharedValue(self, name, of, default)

    def list(self, name: str, of: Any = Any) -> SharedList:
        """Returns the object of this name as a list to append to."""
        return SharedList(self, name, of)

    def map(self, name: str, of: Any = Any, keys: Any = str) -> SharedMap:
        """Returns the object of this name as a map, each of whose entries is written by itself."""
        return SharedMap(self, name, of, keys)

    def counter(self, name: str) -> SharedCounter:
        """Returns the object of this name as a whole number to add to."""
        return SharedCounter(self, name)

    def bound(self, access: Access) -> SharedState:
        """For the runtime: returns the same for one instance."""
        own = SharedState.__new__(SharedState)
        own.__dict__.update(self.__dict__)
        own._access = access
        return own

    @property
    def access(self) -> Access:
        if self._access is None:
            raise FunctionError(
                f"the space '{self.space}' of shared objects is used outside of a running function",
                None,
                "Declare it on the Function: as an attribute of the class, or set in __init__.",
            )
        return self._access


class SharedObject:
    """A handle of one object."""

    __slots__ = ("_name", "_of", "_state")
    kind: Kind

    def __init__(self, state: SharedState, name: str, of: Any) -> None:
        if not isinstance(name, str) or not name:
            raise FunctionError("a shared object needs a name", f"it is {name!r}", "Use a text.")
        self._state = state
        self._name = name
        self._of = of

    @property
    def name(self) -> str:
        return self._name

    @property
    def ref(self) -> Ref:
        """For the runtime: which object it is."""
        return Ref(self._state.space, self._name, self.kind)

    def delete(self) -> None:
        """Removes the object: it is as before its first write."""
        self._state.access.write(self._name, Write(Act.DELETE))

    def _read(self, of: Any) -> Any:
        content = self._state.access.read(self._name, self.kind)
        if content is None:
            return None
        try:
            return msgspec.msgpack.decode(content.data, type=of)
        except msgspec.ValidationError as error:
            raise self._mistyped(error) from error

    def _packed(self, value: Any, of: Any) -> bytes:
        try:
            data = _encode(value)
            if of is not Any:
                msgspec.msgpack.decode(data, type=of)
        except (msgspec.ValidationError, TypeError, OverflowError, ValueError) as error:
            raise self._mistyped(error) from error
        return data

    def _mistyped(self, error: Exception) -> FunctionError:
        return FunctionError(
            f"the shared object '{self._name}' has another type", error_text(error), "Write what `of` says."
        )


class SharedValue(SharedObject):
    """One value, which the last write replaces."""

    __slots__ = ("_default",)
    kind = Kind.VALUE

    def __init__(self, state: SharedState, name: str, of: Any, default: Any) -> None:
        super().__init__(state, name, of)
        self._default = default

    def get(self) -> Any:
        """Returns the value, or the default if it was never set."""
        found = self._read(self._of)
        return self._default if found is None else found

    def set(self, value: Any) -> None:
        self._state.access.write(self._name, Write(Act.SET, self._packed(value, self._of)))


class SharedList(SharedObject):
    """Values in the order in which they were appended."""

    __slots__ = ()
    kind = Kind.LIST

    def get(self) -> list[Any]:
        of: Any = self._of
        return self._read(list[of]) or []

    def append(self, value: Any, *, keep: int | None = None, once: str | None = None) -> None:
        """Appends a value; with `keep`, only the last so many stay. A server makes writes with the same `once` one
        time, also when a batch runs again after a failure."""
        if keep is not None and keep < 1:
            raise FunctionError(f"a list cannot keep {keep} values", None, "Use 1 or more, or delete() it.")
        data = self._packed(value, self._of)
        self._state.access.write(self._name, Write(Act.APPEND, data, keep=keep, once=once))


class SharedMap(SharedObject):
    """Entries by their keys."""

    __slots__ = ("_keys",)
    kind = Kind.MAP

    def __init__(self, state: SharedState, name: str, of: Any, keys: Any) -> None:
        super().__init__(state, name, of)
        self._keys = keys

    def get(self) -> dict[Any, Any]:
        keys: Any = self._keys
        of: Any = self._of
        found: dict[Any, Any] = self._read(dict[keys, of]) or {}
        return found

    def put(self, key: Any, value: Any) -> None:
        packed_key = self._packed(key, self._keys)
        self._state.access.write(self._name, Write(Act.PUT, self._packed(value, self._of), packed_key))

    def remove(self, key: Any) -> None:
        self._state.access.write(self._name, Write(Act.REMOVE, key=self._packed(key, self._keys)))


class SharedCounter(SharedObject):
    """A whole number."""

    __slots__ = ()
    kind = Kind.COUNTER

    def __init__(self, state: SharedState, name: str) -> None:
        super().__init__(state, name, int)

    def get(self) -> int:
        found: int = self._read(int) or 0
        return found

    def add(self, amount: int = 1, *, once: str | None = None) -> None:
        """Adds to it; see `SharedList.append` for `once`."""
        self._state.access.write(self._name, Write(Act.ADD, self._packed(amount, int), once=once))


def declared(function: Any) -> dict[str, SharedState]:
    """Returns the shared states that a function declares, by attribute, on its class or on itself."""
    found = {}
    for owner in reversed(type(function).__mro__):
        found.update({name: value for name, value in vars(owner).items() if isinstance(value, SharedState)})
    found.update({name: value for name, value in vars(function).items() if isinstance(value, SharedState)})
    return found


def refs_of(asked: Any) -> Iterator[Ref]:
    """Returns which objects a function has asked for."""
    for each in (asked,) if isinstance(asked, SharedObject) else asked:
        if not isinstance(each, SharedObject):
            raise FunctionError(
                "shared_reads() asked for what is no shared object",
                type(each).__name__,
                "Return or yield handles, such as self.shared.value(name).",
            )
        yield each.ref
