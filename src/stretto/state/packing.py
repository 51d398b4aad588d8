"""Converts exported states to bytes and back: plain data and Arrow tables, typed, without pickling.

Types that MessagePack does not have (tuples, sets, dates, decimals, tables) become extensions, each with its own code,
so that a tuple is read back as a tuple.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from stretto.errors import FunctionError
from stretto.rendering import message_of

_NATIVE = (bool, int, float, str, bytes, type(None))


def packed(content: Any) -> bytes:
    """Returns the content as bytes; raises a FunctionError if it is not plain data."""
    try:
        return _encode(_prepared(content))
    except (TypeError, OverflowError, RecursionError) as error:
        raise FunctionError(
            "a state holds data that cannot be sent between workers",
            message_of(error),
            "Keep plain data in states: numbers, strings, bytes, dates, tuples, lists, dicts, sets and Arrow tables.",
        ) from error


def unpacked(data: bytes) -> Any:
    """Returns the content that `packed` got."""
    return _decode(data)


def _prepared(value: Any) -> Any:
    kind = type(value)
    if kind in _NATIVE:
        return value if kind is not int or -(2**63) <= value < 2**64 else _extension(_INT, str(value))
    if kind is list:
        return [_prepared(item) for item in value]
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: _prepared(item) for key, item in value.items()}
        return _extension(_DICT, [[_prepared(key), _prepared(item)] for key, item in value.items()])
    if kind in _WRITERS:
        code, write = _WRITERS[kind]
        return _extension(code, write(value))
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return _extension(_ARRAY, _table_bytes(pa.table({"": value})))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # A NumPy scalar.
        return _prepared(value.item())
    raise TypeError(f"a {kind.__name__} is not plain data")


def _extension(code: int, content: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, content if isinstance(content, bytes) else _encode(content))


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table_of(data: Any) -> pa.Table:
    # A copy, because a kernel may need aligned input.
    table = pa.ipc.open_stream(pa.py_buffer(bytes(data))).read_all()
    # The lengths in it are not checked before they are used to read memory.
    table.validate(full=True)
    return table


_TABLE, _ARRAY, _TUPLE, _SET, _FROZENSET, _DICT, _INT, _DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL = range(1, 13)

_WRITERS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    pa.Table: (_TABLE, _table_bytes),
    tuple: (_TUPLE, lambda value: [_prepared(item) for item in value]),
    set: (_SET, lambda value: [_prepared(item) for item in value]),
    frozenset: (_FROZENSET, lambda value: [_prepared(item) for item in value]),
    datetime.datetime: (_DATETIME, datetime.datetime.isoformat),
    datetime.date: (_DATE, datetime.date.isoformat),
    datetime.time: (_TIME, datetime.time.isoformat),
    datetime.timedelta: (_TIMEDELTA, lambda value: [value.days, value.seconds, value.microseconds]),
    decimal.Decimal: (_DECIMAL, str),
}


def _unextended(code: int, data: memoryview) -> Any:
    if code == _TABLE:
        return _table_of(data)
    if code == _ARRAY:
        return _table_of(data).column(0).combine_chunks()
    return _READERS[code](_decode(data))


_READERS: dict[int, Callable[[Any], Any]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _DICT: dict,
    _INT: int,
    _DATETIME: datetime.datetime.fromisoformat,
    _DATE: datetime.date.fromisoformat,
    _TIME: datetime.time.fromisoformat,
    _TIMEDELTA: lambda parts: datetime.timedelta(*parts),
    _DECIMAL: decimal.Decimal,
}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ext_hook=_unextended).decode
