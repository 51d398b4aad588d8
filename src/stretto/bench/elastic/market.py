"""How popular each stock is and what it is worth, as it changes from one period to the next (elasticutor.txt 5.4).

Figure 18 has the arrival rates of the five most popular stocks: each has a level of its own, wavers around it, and at
times rises to several times that within seconds and falls back. Here a stock's share of the orders is a Zipf weight,
times a factor that wavers, times news that begin in a random period and fade over some more. Its price follows a moving
sum of random steps, which are larger while there are news.

All is a function of (seed, stock, period) in integers, so that every split and every machine computes the same.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stretto.bench.draws import Int64s, below, hashed, stream
from stretto.bench.elastic.zipf import permutation, zipf_weights

CENTS_MIN, CENTS_MAX = 500, 10_000
"""Between which prices stocks begin."""
NEWS_ONE_IN = 200
"""A stock has news in one of this many periods."""
NEWS_FADE = (8, 8, 4, 2, 1)
"""How many eighths of the factor of news remain after so many periods."""
NEWS_DOUBLINGS = 5
"""News raise a stock's orders by a factor of up to two to the power of this."""
WAVER_EIGHTHS = (4, 13)
"""A stock's orders waver between these eighths of its level."""
PRICE_MEMORY = 24
"""A price is the sum of this many steps, so that it stays near where it began."""
STEP_MAX = 3
"""The greatest step of a price, in thousandths of where it began."""
NEWS_STEP = 4
"""By how much larger steps are while there are news."""
_WEIGHT_BITS = 5
"""Weights are reduced by this many bits, so that they stay below 32 bits with every factor."""


@lru_cache(maxsize=64)
def popularity(seed: int, stocks: int, skew: float, period: int) -> Int64s:
    """Returns the weight of each stock in a period; weights add up to less than 2**32."""
    levels = zipf_weights(stocks, skew)[permutation(seed, -1, stocks)] >> _WEIGHT_BITS
    low, high = WAVER_EIGHTHS
    waver = low + below(_draw(seed, "waver", stocks, period), high - low)
    weights: Int64s = np.maximum(1, levels * waver * _news(seed, stocks, period) >> 6)
    return weights


@lru_cache(maxsize=64)
def prices(seed: int, stocks: int, period: int) -> Int64s:
    """Returns the price around which each stock is traded in a period, in cents."""
    first = CENTS_MIN + below(_draw(seed, "price", stocks, 0), CENTS_MAX - CENTS_MIN)
    thousandths = sum(_steps(seed, stocks, each) for each in range(period - PRICE_MEMORY + 1, period + 1))
    found: Int64s = first + first * thousandths // 1_000
    return found


@lru_cache(maxsize=4 * PRICE_MEMORY)
def _steps(seed: int, stocks: int, period: int) -> Int64s:
    steps = below(_draw(seed, "step", stocks, period), 2 * STEP_MAX + 1) - STEP_MAX
    moved: Int64s = np.where(_news(seed, stocks, period) > 8, NEWS_STEP * steps, steps)
    return moved


def _news(seed: int, stocks: int, period: int) -> Int64s:
    """Returns by how many eighths of its level each stock's orders are multiplied because of news; 8 without any."""
    factor = np.full(stocks, 8, np.int64)
    for age, eighths in enumerate(NEWS_FADE):
        draw = _draw(seed, "news", stocks, period - age)
        began = below(draw, NEWS_ONE_IN) == 0
        strength = 2 ** (1 + (draw >> np.uint64(40)).view(np.int64) % NEWS_DOUBLINGS)
        factor = np.maximum(factor, np.where(began, strength * eighths, 0))
    return factor


def _draw(seed: int, field: str, stocks: int, period: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return hashed(stream(seed, f"market {field}"), np.arange(stocks, dtype=np.int64) + period * stocks)
