"""What a shared object holds, and how writes change it. An object is made by the first write, and absent before."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import msgspec

from stretto.errors import FunctionError

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Kind(Enum):
    """The kinds of objects."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    COUNTER = "counter"


class ObjectContent(NamedTuple):
    """The content of an object: its kind, and its data as msgpack."""

    kind: str
    data: bytes


class Act(Enum):
    """What a write does."""

    SET = "set"
    APPEND = "append"
    PUT = "put"
    REMOVE = "remove"
    ADD = "add"
    DELETE = "delete"


_ACTS = {Act.SET: Kind.VALUE, Act.APPEND: Kind.LIST, Act.PUT: Kind.MAP, Act.REMOVE: Kind.MAP, Act.ADD: Kind.COUNTER}
_EMPTY: dict[Kind, Any] = {Kind.VALUE: None, Kind.LIST: [], Kind.MAP: {}, Kind.COUNTER: 0}


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One write to an object. `key` is that of a map's entry, `data` the value as msgpack; of a list, the last `keep`
    values stay. A server makes writes with the same `once` one time."""

    act: Act
    data: bytes = b""
    key: bytes = b""
    keep: int | None = None
    once: str | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind of object that it is for; None if any."""
        return _ACTS.get(self.act)


class Ref(NamedTuple):
    """An object by the space that it is in, its name and its kind."""

    space: str
    name: str
    kind: Kind


def written(name: str, content: ObjectContent | None, write: Write) -> ObjectContent | None:
    """Returns what an object holds after a write."""
    if write.act is Act.DELETE:
        return None
    kind = write.kind
    assert kind is not None
    check_kind(name, content, kind)
    if write.act is Act.SET:
        return ObjectContent(kind.value, write.data)
    held = _decode(content.data) if content is not None else _empty(kind)
    match write.act:
        case Act.APPEND:
            held.append(msgspec.Raw(write.data))
            if write.keep is not None and len(held) > write.keep:
                held = held[len(held) - write.keep :]
        case Act.PUT:
            held[_decode(write.key)] = msgspec.Raw(write.data)
        case Act.REMOVE:
            held.pop(_decode(write.key), None)
        case Act.ADD:
            held += _decode(write.data)
    return ObjectContent(kind.value, _encode(held))


def check_kind(name: str, content: ObjectContent | None, kind: Kind) -> None:
    """Refuses to use an object as another kind than it is."""
    if content is not None and content.kind != kind.value:
        raise FunctionError(
            f"the shared object '{name}' is a {content.kind}",
            f"it was used as a {kind.value}",
            "Give objects of different kinds different names, or delete() it first.",
        )


def _empty(kind: Kind) -> Any:
    empty = _EMPTY[kind]
    return empty.copy() if isinstance(empty, list | dict) else empty
