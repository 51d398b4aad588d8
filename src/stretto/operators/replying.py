"""Rows with the replies of their calls: typed columns for the values, and the errors of those that were aborted."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.calling import EntityAnswer


@dataclass(frozen=True)
class Replies:
    """Appends the columns of replies to rows. `type` is that of the values; None for methods that return nothing."""

    schema: pa.Schema
    """Of the rows with their replies."""
    type: pa.DataType | None

    def rows(self, batch: pa.RecordBatch, answers: list[EntityAnswer]) -> pa.RecordBatch:
        """Returns the rows with the replies to them."""
        values: list[Any] = []
        errors: list[tuple[str | None, str | None]] = []
        for answer in answers:
            value, error, text = self._decoded(answer)
            values.append(value)
            errors.append((error, text))
        columns = [] if self.type is None else [pa.array(values, self.type)]
        columns += [pa.array([each[place] for each in errors], pa.string()) for place in (0, 1)]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=self.schema)

    def _decoded(self, answer: EntityAnswer) -> tuple[Any, str | None, str | None]:
        """Returns the value, and the error. A value that is beyond its column's type is an error, of that row alone:
        the transaction has taken place."""
        if answer.error is not None or self.type is None or answer.value is None:
            return None, answer.error, answer.text
        value = converted(msgspec.msgpack.decode(answer.value), self.type)
        try:
            pa.scalar(value, self.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            text = f"it took place, and returned {value!r:.100}, which is no {self.type}: {error}"
            return None, "OverflowError", text
        return value, None, None


def converted(value: Any, kind: pa.DataType) -> Any:
    """Returns a value as Arrow takes it; msgpack has dates and decimals as texts."""
    if value is None:
        return None
    for fits, python in _READ_AS:
        if fits(kind):
            return msgspec.convert(value, python, strict=False)
    if pa.types.is_list(kind):
        return [converted(item, kind.value_type) for item in value]
    return value


_READ_AS: list[tuple[Callable[[pa.DataType], bool], Any]] = [
    (pa.types.is_timestamp, datetime.datetime),
    (pa.types.is_date, datetime.date),
    (pa.types.is_decimal, decimal.Decimal),
    (pa.types.is_floating, float),
]
