"""The bytes of a column of texts, binaries or large integers, for hashing all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Bytes:
    """All bytes one after the other, and where those of each row begin and how many they are."""

    data: Any
    starts: Any
    sizes: Any

    def words(self, rows: Any, offset: Any, size: int) -> Any:
        """Returns so many bytes of these rows, from an offset on, as numbers whose lowest byte is the first."""
        places = self.starts[rows] + offset
        found = np.zeros(len(rows), np.uint64)
        for byte in range(size):
            found |= self.data[places + byte].astype(np.uint64) << np.uint64(8 * byte)
        return found


def bytes_of_array(array: pa.Array) -> Bytes:
    """Returns the bytes of strings or binaries."""
    count = len(array)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, count + 1, array.offset * 4).astype(np.int64)
    values = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Bytes(values, ends[:-1], np.diff(ends))


def bytes_of_integers(values: Any, valid: Any) -> Bytes:
    """Returns the bytes of integers as Java's BigInteger has them: the highest first, and no more than needed."""
    written = []
    for place, value in enumerate(values):
        number = int(value) if valid is None or valid[place] else 0
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        written.append(number.to_bytes(size, "big", signed=True))
    sizes = np.array([len(one) for one in written], np.int64)
    return Bytes(np.frombuffer(b"".join(written), np.uint8), np.cumsum(sizes) - sizes, sizes)
