"""Entities as rows: the columns of a class from the types of its fields, and their values from states.

A directory is read without the app, so what its classes look like is kept beside the snapshots (`Described`). A state
has plain data as msgpack; a type says which of Spark's types it is shown in. What has none is a text, or JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import msgspec.inspect as types
import pyarrow as pa
import pyarrow.types as pat

from stretto.errors import DamagedError
from stretto.rendering import shown
from stretto.transactions.kinds import Kind

KEY = "key"
TEXT = pa.string()
_TIMES = pa.timestamp("us", tz="UTC")
_SIMPLE: dict[type[types.Type], pa.DataType] = {
    types.BoolType: pa.bool_(),
    types.IntType: pa.int64(),
    types.FloatType: pa.float64(),
    types.BytesType: pa.binary(),
    types.ByteArrayType: pa.binary(),
    types.DateTimeType: _TIMES,
    types.DateType: pa.date32(),
}
_MISFIT = (pa.ArrowException, ArithmeticError, TypeError, ValueError, KeyError)
_decode = msgspec.msgpack.decode


class Described(msgspec.Struct, frozen=True, array_like=True):
    """A class of entities: the types of its fields as an Arrow schema, and the defaults of its fields as msgpack."""

    fields: bytes
    defaults: bytes

    def schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self.fields))


def described_fields(kind: Kind) -> Described:
    """Returns what is kept of a class."""
    schema = pa.schema([(name, _type_of(hint)) for name, hint in kind.hints.items()])
    return Described(schema.serialize().to_pybytes(), kind.initial)


def table_of(described: Described, states: Mapping[str, bytes]) -> pa.Table:
    """Returns a row for each entity, by its key: the key, and its fields. A field with a value that its type cannot
    express, such as a number beyond 64 bits, is a column of texts."""
    defaults = _decode(described.defaults)
    content = [{**defaults, **_decode(state)} for state in states.values()]
    columns = [pa.array(states, TEXT)]
    columns += [_column([each.get(field.name) for each in content], field.type) for field in described.schema()]
    return pa.Table.from_arrays(columns, [KEY, *described.schema().names])


# Types.


def _type_of(hint: Any) -> pa.DataType:
    try:
        return _shown_in(types.type_info(hint), ())
    except (TypeError, NotImplementedError):
        return TEXT


def _shown_in(info: types.Type, within: tuple[Any, ...]) -> pa.DataType:
    """Returns the type that values are shown in; `within` are the classes around it."""
    simple = _SIMPLE.get(type(info))
    if simple is not None:
        return simple
    match info:
        case types.Metadata(type=inner):
            return _shown_in(inner, within)
        case types.UnionType(types=several):
            kinds = [_shown_in(each, within) for each in several if not isinstance(each, types.NoneType)]
            return kinds[0] if len(kinds) == 1 else TEXT
        case types.EnumType(cls=cls):
            return _of_constants([each.value for each in cls])
        case types.LiteralType(values=values):
            return _of_constants(values)
        case types.CollectionType(item_type=item):
            return pa.list_(_shown_in(item, within))
        case types.TupleType(item_types=items) if items:
            return pa.struct([(f"_{place}", _shown_in(item, within)) for place, item in enumerate(items, 1)])
        case types.DictType(key_type=key, value_type=value):
            return pa.map_(_shown_in(key, within), _shown_in(value, within))
        case types.TypedDictType() | types.DataclassType() | types.NamedTupleType() | types.StructType():
            return _struct(info, within)
    return TEXT


def _struct(info: Any, within: tuple[Any, ...]) -> pa.DataType:
    """Returns the struct of a class with fields. One that contains itself, or whose encoding leaves fields out, is
    shown as JSON."""
    config = getattr(info.cls, "__struct_config__", None)
    if info.cls in within or not info.fields or (config is not None and config.omit_defaults):
        return TEXT
    if isinstance(info, types.StructType) and info.tag is not None and info.array_like:
        return TEXT
    inside = (*within, info.cls)
    return pa.struct([(field.encode_name, _shown_in(field.type, inside)) for field in info.fields])


def _of_constants(values: Iterable[Any]) -> pa.DataType:
    return pa.int64() if {type(value) for value in values} == {int} else TEXT


# Values.


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([_value(each, kind) for each in values], kind)
    except _MISFIT:
        return pa.array([_value(each, TEXT) for each in values], TEXT)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Returns a value of a state as Arrow takes it for a type."""
    if value is None:
        return None
    if pat.is_string(kind):
        return value if isinstance(value, str) else _json(value)
    if pat.is_list(kind):
        return [_value(each, kind.value_type) for each in value]
    if pat.is_map(kind):
        return [(_value(key, kind.key_type), _value(each, kind.item_type)) for key, each in value.items()]
    if pat.is_struct(kind):
        parts = value if isinstance(value, dict) else dict(zip(kind.names, value, strict=True))
        return {field.name: _value(parts.get(field.name), field.type) for field in kind}
    if pat.is_timestamp(kind):
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return date.fromisoformat(value) if pat.is_date(kind) else value


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return shown(value)  # A dict whose keys are no texts, for instance.


# As bytes, beside the snapshots.

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, Described])


def encoded(classes: Mapping[str, Described]) -> bytes:
    return _ENCODER.encode(classes)


def decoded(data: bytes) -> dict[str, Described]:
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise DamagedError("the classes of entities are not as they were written", str(error)) from error
