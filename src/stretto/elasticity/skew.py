"""How skewed keys are, from what their shards cost.

A shard has the load of many keys, so the shards' own distribution is flatter than that of the keys. But one thing can
be had from it without bias: the probability that two random rows have the same key. Rows of one key are in one shard,
rows of different keys are in the same shard by chance, once in the number of shards. From it follows the factor of the
Zipf distribution over the paper's 10,000 keys that has the same probability (elasticutor.txt 5.1, figure 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

KEYS = 10_000
FACTOR_MAX = 3.0
STEPS = 40


def same_key_probability(costs: Sequence[float], rows: float) -> float:
    """Returns the probability that two rows have the same key, given what each shard costs and how many rows were
    measured; chance coincidences of so few rows, and of keys in one shard, are taken off."""
    shares = np.asarray(costs, np.float64)
    total, shards = float(shares.sum()), len(shares)
    if total <= 0 or shards < 2 or rows <= 1:
        return 0.0
    together = float(((shares / total) ** 2).sum())
    unbiased = (together * rows - 1) / (rows - 1)
    return max(0.0, (unbiased - 1 / shards) / (1 - 1 / shards))


def zipf_factor(probability: float, keys: int = KEYS) -> float:
    """Returns the factor of the Zipf distribution in which two rows have the same key with this probability."""
    low, high = 0.0, FACTOR_MAX
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _probability(middle, keys) < probability:
            low = middle
        else:
            high = middle
    return high if low else 0.0


@lru_cache(maxsize=256)
def _probability(factor: float, keys: int) -> float:
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -factor
    return float((weights**2).sum() / weights.sum() ** 2)
