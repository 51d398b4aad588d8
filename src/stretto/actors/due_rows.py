"""How many rows of a source are due and not read: those that have arrived behind the last one that it was given.

A source that is held back by credits reads late, and what waits in front of it is counted nowhere. It is estimated
from what is known of every source: how long the last row that was read had waited, times the rate at which rows arrive.
That rate is the one of the last second or two of arrivals, however fast they are read.
"""

from __future__ import annotations

SPAN_NS = 1_000_000_000
"""The rate is that of so much time at least, if so much has been read."""


class DueRows:
    """Follows the reads of one source instance."""

    __slots__ = ("_anchor_ns", "_last_ns", "_later_ns", "_later_rows", "_rows")

    def __init__(self) -> None:
        self._anchor_ns: int | None = None
        self._rows = 0
        """Rows that arrived after the anchor ..."""
        self._later_ns = 0
        self._later_rows = 0
        """... and after a later one, which replaces it when it is old enough."""
        self._last_ns = 0

    def waiting(self, rows: int, arrived_ns: int, read_ns: int, has_more: bool) -> int:
        """Returns how many rows wait after a read at `read_ns` of so many rows, the last of which arrived at
        `arrived_ns`. `has_more` is False if the source knows that nothing is due now."""
        if rows:
            self._note(rows, arrived_ns)
        if not has_more or self._anchor_ns is None or self._last_ns <= self._anchor_ns:
            return 0
        return int(max(0, read_ns - arrived_ns) * self._rows / (self._last_ns - self._anchor_ns))

    def _note(self, rows: int, arrived_ns: int) -> None:
        if self._anchor_ns is None:
            # When the first of these rows arrived is not known, so they say nothing of the rate.
            self._anchor_ns = self._later_ns = self._last_ns = arrived_ns
            return
        # One of several splits may be behind the others: then its rows count, and time does not go back.
        self._last_ns = max(self._last_ns, arrived_ns)
        self._rows += rows
        self._later_rows += rows
        if self._last_ns - self._later_ns >= SPAN_NS:
            self._anchor_ns, self._rows = self._later_ns, self._later_rows
            self._later_ns, self._later_rows = self._last_ns, 0
