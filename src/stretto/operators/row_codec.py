"""Rows that are emitted one by one: checked against the columns of their stream, as bytes, and as batches of it.

What has passed `encode` can always be made a row of a batch: a wrong row is an error where it is emitted, and of nobody
who reads the stream.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from stretto.errors import UserError

ROW_BYTES_MAX = 1 << 20
"""The most that one row may have."""
KNOWN = "bool, whole numbers, floats, text, binary, decimals, timestamps, dates, and lists of these"
_ENCODER = msgspec.msgpack.Encoder()
_MISFIT = (TypeError, ValueError, OverflowError, RecursionError, ArithmeticError, pa.ArrowException)
"""What msgspec and Arrow raise for values that do not fit."""
_SIMPLE: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_binary, bytes),
    (pa.types.is_large_binary, bytes),
    (pa.types.is_decimal, decimal.Decimal),
    (pa.types.is_date32, datetime.date),
)


class RowCodec:
    """The rows of a stream with these columns. What a row leaves out is null."""

    def __init__(self, stream: str, schema: pa.Schema) -> None:
        self._stream = stream
        self.schema = schema
        fields: list[Any] = []
        for place, column in enumerate(schema):
            kind = _kind_of(column.type)
            if kind is None:
                fact = f"column '{column.name}' of stream '{stream}' cannot be emitted"
                raise UserError(fact, f"it is {column.type}", f"Columns of such a stream are {KNOWN}.")
            fields.append((f"c{place}", kind | None, None))
        names = {f"c{place}": column.name for place, column in enumerate(schema)}
        self._attributes = tuple(names)
        row = msgspec.defstruct("Row", fields, rename=names, kw_only=True, forbid_unknown_fields=True)
        self._decode = msgspec.msgpack.Decoder(row).decode
        self._tried = [place for place, column in enumerate(schema) if _needs_trial(column.type)]

    def encode(self, row: Any) -> bytes:
        """Returns a row as bytes. Raises a UserError if it does not fit the columns."""
        try:
            encoded = _ENCODER.encode(row)
            decoded = self._decode(encoded)
            for place in self._tried:
                pa.array([getattr(decoded, self._attributes[place])], self.schema.types[place])
        except _MISFIT as error:
            columns = ", ".join(f"{column.name} {column.type}" for column in self.schema)
            raise UserError(
                f"a row does not fit stream '{self._stream}'", str(error), f"Its columns are {columns}."
            ) from error
        if len(encoded) > ROW_BYTES_MAX:
            raise UserError(
                f"a row for stream '{self._stream}' is too large",
                f"{len(encoded):,} bytes, and the limit is {ROW_BYTES_MAX:,}",
                "Emit less at once.",
            )
        return encoded

    def batch(self, rows: Sequence[bytes]) -> pa.RecordBatch:
        """Returns rows that were encoded."""
        decoded = [self._decode(row) for row in rows]
        columns = [
            pa.array([getattr(row, name) for row in decoded], kind)
            for name, kind in zip(self._attributes, self.schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _kind_of(kind: pa.DataType) -> Any:
    """Returns the type of the values of a column; None if there is none."""
    if pa.types.is_list(kind):
        item = _kind_of(kind.value_type)
        return None if item is None else list[item | None]  # type: ignore[valid-type]
    if pa.types.is_signed_integer(kind):
        end = 1 << (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-end, le=end - 1)]
    if pa.types.is_timestamp(kind):
        return Annotated[datetime.datetime, msgspec.Meta(tz=kind.tz is not None)]
    return next((found for test, found in _SIMPLE if test(kind)), None)


def _needs_trial(kind: pa.DataType) -> bool:
    """Whether some values of the Python type do not fit a column, such as decimals with too many digits."""
    return bool(_needs_trial(kind.value_type) if pa.types.is_list(kind) else pa.types.is_decimal(kind))
