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
from stretto.operators.windows import positive_duration_us
from stretto.transactions.activation import MadeCall

ARGUMENTS_BYTES_MAX = 1 << 20
"""The most that the arguments of one call may have."""
AFTER = "after"
"""The argument that delays a call, of any method."""
AFTER_US_MAX = 3_660 * 86_400_000_000
"""The most that a call is delayed by: ten years."""
_ENCODER = msgspec.msgpack.Encoder()
_MISFIT = (TypeError, OverflowError, RecursionError, UnicodeError, msgspec.MsgspecError)
"""What msgspec raises for values that have another type, or are too large or too deep, or are texts without an
encoding."""
OWN = {"now", "random", "uuid", "exists", "create", "delete", "emit"}
"""What every entity has besides its key, and is not its state."""


class Method:
    """A method of an entity: the types of its arguments and of its result. `arguments_type` has a field for each
    parameter."""

    def __init__(self, kind: str, function: Any) -> None:
        self.function = function
        self.name = function.__name__
        self.only_reads = bool(getattr(function, "__stretto_reads__", False))
        self._title = f"{kind}.{function.__name__}"
        self.text = inspect.cleandoc(function.__doc__ or "")
        self._signature, self.arguments_type = _arguments(self._title, function)
        self._names = self.arguments_type.__struct_fields__
        self._decode = msgspec.msgpack.Decoder(self.arguments_type).decode
        self.result_type = get_type_hints(function, include_extras=True).get("return", Any)
        self._check = msgspec.msgpack.Decoder(self.result_type).decode

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Returns checked arguments as bytes."""
        try:
            if kwargs or len(args) != len(self._names):
                given: Any = self._signature.bind(*args, **kwargs).arguments
            else:
                given = dict(zip(self._names, args, strict=True))
        except TypeError as error:
            raise self.misfit(error) from error
        encoded = self.encode_all(given)
        if len(encoded) > ARGUMENTS_BYTES_MAX:
            raise UserError(
                f"the arguments of {self._title} are too large",
                f"{len(encoded):,} bytes, and the limit is {ARGUMENTS_BYTES_MAX:,}",
                "Pass less at once.",
            )
        return encoded

    def delay_us(self, after: Any) -> int:
        """Returns by how much a call is delayed."""
        if self.only_reads:
            raise UserError(
                f"a call of {self._title} cannot be delayed", "it only reads, and nobody would see the result"
            )
        found = positive_duration_us(after, f"the delay of {self._title}")
        if found > AFTER_US_MAX:
            raise UserError(f"a call of {self._title} is delayed by too much", repr(after), "The limit is 3,660 days.")
        return found

    def encode_all(self, given: Any) -> bytes:
        """Returns checked arguments as bytes, of any size. They are a dict by their names, or an `arguments_type`."""
        try:
            encoded = _ENCODER.encode(given)
            self._decode(encoded)
        except _MISFIT as error:
            raise self.misfit(error) from error
        return encoded

    def misfit(self, error: Exception) -> UserError:
        """Returns what a caller gets whose arguments are wrong."""
        return UserError(f"wrong arguments for {self._title}", str(error), f"It takes {self._signature}.")

    def decode(self, encoded: bytes) -> dict[str, Any]:
        """Returns arguments by their names. Each call has its own objects, so that nothing is shared by mistake."""
        try:
            found = self._decode(encoded)
        except _MISFIT as error:
            raise self.misfit(error) from error
        return {name: getattr(found, name) for name in self._names}

    def encode_result(self, value: Any) -> bytes:
        try:
            encoded = _ENCODER.encode(value)
            self._check(encoded)
        except _MISFIT as error:
            raise UserError(
                f"{self._title} returned a wrong value", str(error), "Return what its annotation says."
            ) from error
        return encoded

    def decode_result(self, encoded: bytes) -> Any:
        try:
            return self._check(encoded)
        except RecursionError as error:
            raise UserError(f"what {self._title} returned is too deep", str(error), "Return less deep data.") from error


class Kind:
    """A class of entities: its fields, which are encoded as one record, and its methods."""

    def __init__(self, entity: type[Any]) -> None:
        self.name = entity.__name__
        self.text = inspect.cleandoc(entity.__doc__ or "")
        hints = get_type_hints(entity, include_extras=True)
        fields = {name: hint for name, hint in hints.items() if not name.startswith("_") and name != "key"}
        self.expires_us: int = getattr(entity, "__stretto_expires_us__", 0)
        """How long an entity lasts that nobody writes; 0: for ever."""
        self.hints = fields
        self.in_flight_max: int = getattr(entity, "__stretto_in_flight_max__", 0)
        """How many calls of clients may be under way for each entity; 0: any number."""
        self._fields = tuple(fields)
        self._names = frozenset(fields)
        # What is no field has a slot, so that the dict of an instance has its fields and nothing else.
        self._class = type(self.name, (entity,), {"__slots__": ("__stretto_is_kept__", "key")})
        _KINDS[self._class] = self
        self._defaults = msgspec.defstruct(
            f"{self.name}Fields", [_with_default(entity, name, hint) for name, hint in fields.items()], kw_only=True
        )
        self._decode = msgspec.msgpack.Decoder(_record(self.name, fields)).decode
        self.initial = self.fields(self.instance("", None))
        self.methods = {
            name: Method(self.name, function)
            for name, function in inspect.getmembers(entity, inspect.iscoroutinefunction)
            if not name.startswith("_")
        }
        callers = {name: _caller(self.name, method) for name, method in self.methods.items()}
        self.reference: Callable[[str], Any] = type(
            f"{self.name}Reference", (Reference,), {"__slots__": (), "kind": self, **callers}
        )

    def method(self, name: str) -> Method:
        if name not in self.methods:
            fix = f"It has {', '.join(self.methods) or 'none'}."
            raise UserError(f"{self.name} has no method '{name}'", "methods are public and async", fix)
        return self.methods[name]

    def instance(self, key: str, state: bytes | None) -> Any:
        """Returns the entity with this state; without one, with its defaults."""
        entity: Any = object.__new__(self._class)
        entity.key = key
        entity.__stretto_is_kept__ = state is not None
        content = entity.__dict__
        if state is not None:
            try:
                content.update(self._decode(state))
            except _MISFIT as error:
                raise UserError(
                    f"the state of {self.name}/{key} does not fit its fields",
                    str(error),
                    "Give them their former types.",
                ) from error
        if len(content) < len(self._fields):
            self._complete(content)
        return entity

    def _complete(self, content: dict[str, Any]) -> None:
        """Add the defaults of fields that are not there."""
        record = self._defaults()
        for name in self._fields:
            content.setdefault(name, getattr(record, name))

    def encode(self, entity: Any, before: bytes | None) -> bytes | None:
        """Returns the state of the entity, checked if it is another one than `before`. None: it does not exist."""
        try:
            encoded = _ENCODER.encode(entity.__dict__)
            if encoded == before and entity.__stretto_is_kept__:
                return before
            self._decode(encoded)
        except _MISFIT as error:
            raise self._wrong_value(entity, error) from error
        return encoded if entity.__stretto_is_kept__ or encoded != self.initial else None

    def _wrong_value(self, entity: Any, error: Exception) -> UserError:
        return UserError(
            f"a field of {self.name}/{entity.key} has a wrong value", str(error), "Assign what its annotation says."
        )

    def exists(self, entity: Any) -> bool:
        return entity.__stretto_is_kept__ or self.fields(entity) != self.initial

    def create(self, entity: Any) -> None:
        entity.__stretto_is_kept__ = True

    def delete(self, entity: Any) -> None:
        entity.__stretto_is_kept__ = False
        entity.__dict__.clear()
        self._complete(entity.__dict__)

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
        """Returns the fields as they are; only that they can be encoded is checked."""
        try:
            return _ENCODER.encode(entity.__dict__)
        except _MISFIT as error:
            raise self._wrong_value(entity, error) from error


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
        after_us = method.delay_us(kwargs.pop(AFTER)) if AFTER in kwargs else 0
        return MadeCall(kind, self._key, name, encode(args, kwargs), after_us)

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
        if parameter.name == AFTER:
            raise UserError(
                f"{title} has a parameter '{AFTER}'", f"a call with {AFTER}=... is a delayed one", "Rename it."
            )
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
