"""The time that a driver passes to its machine: wall time that never steps and never goes back.

Machines keep moments (alarms, due checkpoints, when a member was last heard) and compare arrival times of other
processes. Moments need a clock without steps, comparison across processes needs wall time. So a clock starts at the
wall time, advances with a steady clock, and approaches the wall time slowly where the two differ: when somebody sets
the wall clock, or when a machine was suspended, which a steady clock does not count.
"""

from __future__ import annotations

from collections.abc import Callable

TURN_NS = 1_000_000_000
"""How often the wall clock is read."""
SLEW = 10
"""The clock runs faster or slower by at most one part in this many. An interval is at most a tenth longer or shorter,
and a step of ten minutes is made up for within 100 minutes."""


class SteadyClock:
    """Wall time without steps. `wall` and `steady` return nanoseconds; `steady` never goes back."""

    __slots__ = ("_course", "_steady", "_turn_ns", "_wall")

    def __init__(self, wall: Callable[[], int], steady: Callable[[], int], turn_ns: int = TURN_NS) -> None:
        self._wall = wall
        self._steady = steady
        self._turn_ns = turn_ns
        self._course = (steady(), wall(), 0)
        """Since when by the steady clock, from which time, and how much is made up for until the next turn."""

    def now_ns(self) -> int:
        """Returns the time; a later call never returns less."""
        since_ns, from_ns, owed_ns = self._course
        passed_ns = self._steady() - since_ns
        if passed_ns < self._turn_ns:
            return from_ns + passed_ns + owed_ns * passed_ns // self._turn_ns
        now_ns = from_ns + passed_ns + owed_ns
        most_ns = self._turn_ns // SLEW
        owed_ns = max(-most_ns, min(most_ns, self._wall() - now_ns))
        self._course = (since_ns + passed_ns, now_ns, owed_ns)
        return now_ns
