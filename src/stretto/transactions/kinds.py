"""Classes of entities as the machine sees them: fields, methods, and how their values are checked and encoded.

Types are checked at the door, by msgspec: arguments when a call is made, fields and results when a handler returns. A
wrong one is an error of that call alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import msgspec

from stretto.errors import UserError

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
        self._decode = msgspec.msgpack.Decoder(self._arguments).decode
        self._check = msgspec.msgpack.Decoder(get_type_hints(function, include_extras=True).get("return", Any)).decode

    def encode(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Returns checked arguments as bytes."""
        try:
            given = self._signature.bind(*args, **kwargs).arguments
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
        return {name: getattr(found, name) for name in found.__struct_fields__}

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
        self._class = type(self.name, (entity,), {"__stretto_fields__": frozenset(fields)})
        self._record = msgspec.defstruct(
            f"{self.name}Fields", [_with_default(entity, name, hint) for name, hint in fields.items()], kw_only=True
        )
        self._decode = msgspec.msgpack.Decoder(self._record).decode
        self._initial = self.fields(self.instance("", None))
        self._methods = {
            name: Method(self.name, function)
            for name, function in inspect.getmembers(entity, inspect.iscoroutinefunction)
            if not name.startswith("_")
        }

    def method(self, name: str) -> Method:
        if name not in self._methods:
            fix = f"It has {', '.join(self._methods) or 'none'}."
            raise UserError(f"{self.name} has no method '{name}'", "methods are public and async", fix)
        return self._methods[name]

    def instance(self, key: str, state: bytes | None) -> Any:
        """Returns the entity with this state; without one, with its defaults."""
        record = self._record() if state is None else self._decode(state)
        entity: Any = object.__new__(self._class)
        content = entity.__dict__
        content["key"] = key
        for name in self._fields:
            content[name] = getattr(record, name)
        return entity

    def encode(self, entity: Any, before: bytes | None) -> bytes | None:
        """Returns the state of the entity, checked if it is another one than `before`."""
        content = entity.__dict__
        try:
            encoded = self.fields(entity)
            if encoded != before:
                self._decode(encoded)
        except (TypeError, msgspec.MsgspecError) as error:
            raise UserError(
                f"a field of {self.name}/{content['key']} has a wrong value",
                str(error),
                "Assign what its annotation says.",
            ) from error
        return None if before is None and encoded == self._initial else encoded

    def fields(self, entity: Any) -> bytes:
        """Returns the fields as they are, unchecked."""
        content = entity.__dict__
        return _ENCODER.encode({name: content[name] for name in self._fields})


def described(entity: Any) -> Kind:
    """Returns what the machine needs to know about a class. Its annotations may name classes that are defined later,
    so this is done when it is first used."""
    if entity not in _KINDS:
        _KINDS[entity] = Kind(entity)
    return _KINDS[entity]


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
