"""The clock of a process: every time that reaches a machine or a reader comes from here."""

from __future__ import annotations

import time

from stretto.protocol.clock import SteadyClock


def process_clock() -> SteadyClock:
    """Returns a clock that starts at the present wall time. A loop makes one when it is made itself: a process may be
    older than the worker in it."""
    return SteadyClock(_wall_ns, time.monotonic_ns)


def _wall_ns() -> int:
    return time.time_ns()
