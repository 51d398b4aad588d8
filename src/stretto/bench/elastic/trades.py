"""What the transactor sends: a trade, as a record of 160 bytes, and how functions read trades and send rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from stretto.bench.elastic.numbered import TIME

TRADE_BYTES = 160
_NUMBERS = (
    "stock",
    "trade",  # The number of the trade among those of its stock, from 1.
    "price",
    "volume",
    "cash",
    "buyer",
    "seller",
    "buy_order",
    "sell_order",
    "bid",  # The best prices of the orders that wait after it; 0 if there are none.
    "ask",
)
PADDING = bytes(TRADE_BYTES - 8 * (1 + len(_NUMBERS)))
TRADES = pa.schema([("t", TIME), *((name, pa.int64()) for name in _NUMBERS), ("padding", pa.binary())])


def numbers_of(batch: pa.RecordBatch, *columns: str) -> Iterator[Any]:
    """Returns the rows of a batch, of these columns, as tuples of numbers; times are in microseconds."""
    return zip(*(_numbers(batch.column(name)) for name in columns), strict=True)


def _numbers(column: pa.Array) -> list[int]:
    values: list[int] = (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def batch_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows as a batch."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
