"""The calculator of the micro-benchmark (elasticutor.txt 5.1): it costs time, has state, and shows the order of rows.

For each key it keeps how many rows it has had, and a chain: a hash of the last chain, the row, and one byte of the
key's state. A row that is lost, repeated or out of order within its key changes all later chains of the key, and so
does a state that is lost or that has changed on its way.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.bench.elastic.costs import FREE, Cost
from stretto.bench.elastic.numbered import TIME
from stretto.bench.elastic.padding import ballast
from stretto.state import MapState

RESULTS = pa.schema(
    [("t", TIME), ("number", pa.int64()), ("key", pa.int64()), ("count", pa.int64()), ("chain", pa.int64())]
)
_FACTOR = 1_000_003
_MODULUS = 2**61 - 1


def link(chain: int, number: int, payload: bytes, byte: int) -> int:
    """Returns the chain after one more row."""
    return (chain * _FACTOR + number * 257 + zlib.crc32(payload) + byte + 1) % _MODULUS


class Calculator(Function):
    """One result per row. `state_bytes` is the size of the state of each key, beside a few bytes."""

    chains: MapState[int, tuple[int, int]] = MapState()
    """The number of rows, and the chain."""
    ballasts: MapState[int, bytes] = MapState()

    def __init__(self, cost: Cost = FREE, state_bytes: int = 0) -> None:
        self._cost = cost
        self._state_bytes = state_bytes

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        numbers = batch.column("number")
        self._cost.spend(np.asarray(numbers))
        keys = batch.column("key")
        counts, chains = [], []
        for number, key, payload in zip(
            numbers.to_pylist(), keys.to_pylist(), batch.column("payload").to_pylist(), strict=True
        ):
            count, chain = self._next(number, key, payload)
            counts.append(count)
            chains.append(chain)
        columns = [batch.column("t"), numbers, keys, pa.array(counts, pa.int64()), pa.array(chains, pa.int64())]
        ctx.send(pa.RecordBatch.from_arrays(columns, schema=RESULTS))

    def _next(self, number: int, key: int, payload: bytes) -> tuple[int, int]:
        count, chain = self.chains.get(key) or (0, 0)
        byte = 0
        if self._state_bytes:
            state = self.ballasts.get(key)
            if state is None:
                # Only a key's first row may find no state. If it was lost, the chain must show it.
                state = self.ballasts[key] = ballast(key, self._state_bytes) if not count else bytes(1)
            byte = state[count % len(state)]
        found = self.chains[key] = (count + 1, link(chain, number, payload, byte))
        return found
