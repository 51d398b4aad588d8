"""Zipf's distribution over keys, and how keys trade places: rank r has a frequency proportional to 1 / r^skew.

All is integer arithmetic after the weights, so that every machine draws the same keys.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stretto.bench.draws import Int64s, UInt64s, below, hashed, stream
from stretto.errors import UserError

_TOTAL = 2**31
"""About what the weights add up to: draws have 32 bits."""


@lru_cache(maxsize=64)
def zipf_weights(keys: int, skew: float) -> Int64s:
    """Returns the weight of each rank, the most frequent first. Every rank has a weight of at least 1."""
    if keys < 1 or skew < 0:
        raise UserError("there must be a key, and the skew must not be negative", f"{keys} keys, skew {skew:g}")
    shares = [float(rank) ** -skew for rank in range(1, keys + 1)]
    whole = sum(shares)
    return np.array([max(1, int(share / whole * _TOTAL)) for share in shares], np.int64)


def places(draw: UInt64s, weights: Int64s) -> Int64s:
    """Returns a place in `weights` for each draw, by its weight."""
    ends = np.cumsum(weights)
    return np.searchsorted(ends, below(draw, int(ends[-1])), side="right").astype(np.int64)


@lru_cache(maxsize=64)
def permutation(seed: int, number: int, size: int) -> Int64s:
    """Returns a random order of 0 to size - 1: the `number`-th of a seed."""
    draw = hashed(stream(seed, f"permutation {number}"), np.arange(size, dtype=np.int64))
    return np.argsort(draw, kind="stable").astype(np.int64)
