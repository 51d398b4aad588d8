"""How tests wait: for a condition, never for a time, so that they pass on any machine, however busy.

A deadline only ends a test that hangs; it is far beyond what the slowest machine needs. A source that could end before
the test has done something to its job stands behind a gate (`stretto.bench.gates`), which the test opens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_S = 1_000.0
"""Less than the time after which pytest ends a test (pyproject.toml)."""

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = WAIT_S, what: str = "the condition") -> T:
    """Returns the first true value of the condition; fails if there is none before the deadline."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what} did not come true within {within_s:g} s; it is {value!r}")
        time.sleep(0.02)
    return value
