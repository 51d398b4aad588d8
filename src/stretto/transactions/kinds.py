"""Classes of entities as the machine sees them: fields, methods, and how their values are checked and encoded.

Types are checked at the door, by msgspec: arguments when a call is made, fields and results when a handler returns. A
wrong one is an error of that call alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, get_type_hints

import msgspec

from stretto.errors import UserError
from stretto.transactions.activation import MadeCall

ARGUMENTS_BYTES_MAX = 1 << 20
"""The most that the arguments of one call may have."""
_ENCODER = msgspec.msgpack.Encoder()
_OWN = {"key", "now", "random", "uuid"}
"""What every entity has, which is not its state."""


class Method:
    """A method of an entity: the types of its arguments and of its result."""

    def __init__(self, kind: str, function: Any) -> None:
        self.function = function
        self.name = function.__name__
        self.only_reads = bool(getattr(function, "__stretto_reads__", False))
        self._title = f"{kind}.{function.__name__}"
        self._signature, self._arguments = _arguments(self._title, function)
        self._names = self._arguments.__struct_fields__
        self._decode = msgspec.msgpack.Decoder(self._arguments).decode
        self._check = msgspec.msgpack.Decoder(get_type_hints(function, include_extras=True).get("return", Any)).decode

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Returns checked arguments as bytes."""
        try:
            if kwargs or len(args) != len(self._names):
                given = self._signature.bind(*args, **kwargs).arguments
            else:
                given = dict(zip(self._names, args, strict=True))
            encoded = _ENCODER.encode(given)
            self._decode(encoded)
        except (TypeError, msgspec.MsgspecError) as error:
            raise UserError(f"wrong arguments for {self._title}", str(error), f"It takes {self._signature}.") from error
        if len(encoded) > ARGUMENTS_BYTES_MAX:
            raise UserError(
                f"the arguments of {self._title} are too large",
                f"{len(encoded):,} bytes, and the limit is {ARGUMENTS_BYTES_MAX:,}",
                "Pass less at once.",
            )
        return encoded

    def decode(self, encoded: bytes) -> dict[str, Any]:
        """Returns arguments by their names. Each call has its own objects, so that nothing is shared by mistake."""
        try:
            found = self._decode(encoded)
        except msgspec.MsgspecError as error:
            raise UserError(f"wrong arguments for {self._title}", str(error), f"It takes {self._signature}.") from error
        return {name: getattr(found, name) for name in self._names}

    def encode_result(self, value: Any) -> bytes:
        try:
            encoded = _ENCODER.encode(value)
            self._check(encoded)
        except (TypeError, msgspec.MsgspecError) as error:
            raise UserError(
                f"{self._title} returned a wrong value", str(error), "Return what its annotation says."
            ) from error
        return encoded

    def decode_result(self, encoded: bytes) -> Any:
        return self._check(encoded)


class Kind:
    """A class of entities: its fields, which are encoded as one record, and its methods."""

    def __init__(self, entity: type[Any]) -> None:
        self.name = entity.__name__
        hints = get_type_hints(entity, include_extras=True)
        fields = {name: hint for name, hint in hints.items() if not name.startswith("_") and name not in _OWN}
        self._fields = tuple(fields)
        self._names = frozenset(fields)
        # The key has a slot, so that the dict of an instance has its fields and nothing else.
        self._class = type(self.name, (entity,), {"__slots__": ("key",)})
        self._defaults = msgspec.defstruct(
            f"{self.name}Fields", [_with_default(entity, name, hint) for name, hint in fields.items()], kw_only=True
        )
        self._decode = msgspec.msgpack.Decoder(_record(self.name, fields)).decode
        self._initial = self.fields(self.instance("", None))
        self._methods = {
            name: Method(self.name, function)
            for name, function in inspect.getmembers(entity, inspect.iscoroutinefunction)
            if not name.startswith("_")
        }
        callers = {name: _caller(self.name, method) for name, method in self._methods.items()}
        self.reference: Callable[[str], Any] = type(
            f"{self.name}Reference", (Reference,), {"__slots__": (), "kind": self, **callers}
        )

    def method(self, name: str) -> Method:
        if name not in self._methods:
            fix = f"It has {', '.join(self._methods) or 'none'}."
            raise UserError(f"{self.name} has no method '{name}'", "methods are public and async", fix)
        return self._methods[name]

    def instance(self, key: str, state: bytes | None) -> Any:
        """Returns the entity with this state; without one, with its defaults."""
        entity: Any = object.__new__(self._class)
        entity.key = key
        content = entity.__dict__
        if state is not None:
            content.update(self._decode(state))
        if len(content) < len(self._fields):
            self._complete(content)
        return entity

    def _complete(self, content: dict[str, Any]) -> None:
        """Add the defaults of fields that are not there."""
        record = self._defaults()
        for name in self._fields:
            content.setdefault(name, getattr(record, name))

    def encode(self, entity: Any, before: bytes | None) -> bytes | None:
        """Returns the state of the entity, checked if it is another one than `before`."""
        try:
            encoded = _ENCODER.encode(entity.__dict__)
            if encoded == before:
                return before
            self._decode(encoded)
        except (TypeError, msgspec.MsgspecError) as error:
            raise UserError(
                f"a field of {self.name}/{entity.key} has a wrong value",
                str(error),
                "Assign what its annotation says.",
            ) from error
        return None if before is None and encoded == self._initial else encoded

    def check_fields(self, entity: Any) -> None:
        """Raise if a handler has made or removed a field."""
        content = entity.__dict__
        if content.keys() == self._names:
            return
        detail = f"its fields are {', '.join(sorted(self._fields)) or 'none'}"
        for name in content:
            if name not in self._fields:
                raise UserError(f"{self.name} has no field '{name}'", detail, "Declare it with its type and a default.")
        raise UserError(f"a handler has removed a field of {self.name}/{entity.key}", detail, "Assign a value instead.")

    def fields(self, entity: Any) -> bytes:
        """Returns the fields as they are, unchecked."""
        return _ENCODER.encode(entity.__dict__)


class Reference:
    """An entity by its key. A subclass for each class of entities has its methods, which make calls."""

    __slots__ = ("_key",)
    kind: ClassVar[Kind]

    def __init__(self, key: str) -> None:
        self._key = key

    def __getattr__(self, name: str) -> Any:
        return self.kind.method(name)  # It raises: what there is was found without this.


def _caller(kind: str, method: Method) -> Callable[..., MadeCall]:
    encode, name = method.encode, method.name

    def call(self: Reference, *args: Any, **kwargs: Any) -> MadeCall:
        return MadeCall(kind, self._key, name, encode(args, kwargs))

    return call


def described(entity: Any) -> Kind:
    """Returns what the machine needs to know about a class. Its annotations may name classes that are defined later,
    so this is done when it is first used."""
    kind = _KINDS.get(entity)
    if kind is None:
        kind = _KINDS[entity] = Kind(entity)
    return kind


_KINDS: dict[Any, Kind] = {}


def _arguments(title: str, function: Any) -> tuple[inspect.Signature, type[msgspec.Struct]]:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise UserError(f"{title} takes *args or **kwargs", None, "Name its parameters, with their types.")
        field = parameter.name, hints.get(parameter.name, Any)
        fields.append(field if parameter.default is parameter.empty else (*field, _default(parameter.default)))
    record = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return signature.replace(parameters=parameters), record


def _record(name: str, fields: Mapping[str, Any]) -> Any:
    """Returns the type of a dict with these fields, which may be missing: they may be newer than a state."""
    make: Any = TypedDict
    return make(f"{name}Record", dict(fields), total=False)


def _with_default(entity: type[Any], name: str, hint: Any) -> Any:
    if not hasattr(entity, name):
        raise UserError(
            f"{entity.__name__}.{name} has no default", "an entity exists before its first call", "Write `= value`."
        )
    return name, hint, _default(getattr(entity, name))


def _default(value: Any) -> Any:
    """Returns a default that is not shared between entities, also when it is a list with elements."""
    encoded = _ENCODER.encode(value)
    kind = type(value) if value is not None else None
    if isinstance(value, int | float | str | bytes | bool | None):
        return value
    decode = msgspec.msgpack.Decoder(kind or Any).decode
    return msgspec.field(default_factory=lambda: decode(encoded))
