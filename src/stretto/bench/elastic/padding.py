"""Bytes that fill rows and states up to a given size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.bench.draws import UInt64s, hashed, stream

_WORD = 8


def padding(draw: UInt64s, size: int) -> pa.Array:
    """Returns a binary value of `size` bytes for each draw."""
    words = draw[:, np.newaxis] + np.arange(-(-size // _WORD), dtype=np.uint64)
    data = np.ascontiguousarray(words.astype("<u8").view(np.uint8)[:, :size])
    offsets = np.arange(len(draw) + 1, dtype=np.int64) * size
    if offsets[-1] >= 2**31:
        raise ValueError(f"{len(draw)} rows of {size} bytes are too many for one batch")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(draw), buffers)


def ballast(key: int, size: int) -> bytes:
    """Returns the `size` bytes of state that a key has."""
    value: bytes = padding(hashed(stream(0, "ballast"), np.array([key])), size)[0].as_py()
    return value
