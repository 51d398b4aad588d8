"""Random values by counter: the value of a field of an event is a hash of (seed, field, event number).

So any partition can produce any slice of a stream, a replay is exact, and nothing is carried from one event to the
next. The hash is splitmix64's finaliser over an array of event numbers.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]


@cache
def stream(seed: int, field: str) -> np.uint64:
    """Returns where a field's counter starts: far apart for different fields and seeds."""
    start = np.array([seed % 2**64], dtype=np.uint64)
    start = _finalise(start + np.uint64(0x9E3779B97F4A7C15))
    return np.uint64(_finalise(start ^ np.uint64(zlib.crc32(field.encode())))[0])


def hashed(start: np.uint64, numbers: Int64s) -> UInt64s:
    """Returns 64 random bits for each number of a stream."""
    x: UInt64s = numbers.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x += start
    return _finalise(x)


def below(draw: UInt64s, bound: int | Int64s) -> Int64s:
    """Uniform in [0, bound), from the low 32 bits of a draw."""
    limit = np.uint64(bound) if isinstance(bound, int) else bound.view(np.uint64)
    low: UInt64s = draw & np.uint64(0xFFFFFFFF)
    low *= limit
    low >>= np.uint64(32)
    return low.view(np.int64)


def _finalise(x: UInt64s) -> UInt64s:
    """splitmix64's finaliser, in place: every input bit reaches every output bit."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
