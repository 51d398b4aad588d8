"""The timers of one instance, for both clocks: set and cancelled by its function, fired when they are due."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from stretto.actors.context import Clock, Context

Pending = dict[str, list[tuple[int, Any]]]
"""Timers in a snapshot: by clock, their due times and tags, the earliest first."""


class Timers:
    """Timers by clock, the earliest first; those with equal due times in the order in which they were set."""

    __slots__ = ("_heaps", "_made")

    def __init__(self) -> None:
        self._heaps: dict[Clock, list[tuple[int, int, Any]]] = {clock: [] for clock in Clock}
        self._made = 0

    def next_due(self, clock: Clock) -> int | None:
        """Returns when the first timer is due, or None."""
        heap = self._heaps[clock]
        return heap[0][0] if heap else None

    def pop_due(self, clock: Clock, reached: int) -> tuple[int, Any] | None:
        """Removes and returns the first timer that is due at this time, with its tag."""
        heap = self._heaps[clock]
        if not heap or heap[0][0] > reached:
            return None
        due, _, tag = heapq.heappop(heap)
        return due, tag

    def take_from(self, ctx: Context) -> None:
        """Adds the timers that a function has set during a call, and removes those that it has cancelled."""
        for clock, due, tag in ctx.timers_set:
            self._made += 1
            heapq.heappush(self._heaps[clock], (due, self._made, tag))
        for clock, due, tag in ctx.timers_cancelled:
            kept = [entry for entry in self._heaps[clock] if (entry[0], entry[2]) != (due, tag)]
            heapq.heapify(kept)
            self._heaps[clock] = kept
        ctx.timers_set, ctx.timers_cancelled = [], []

    def pending(self) -> Pending:
        """Returns all timers, for a snapshot."""
        return {clock.value: [(due, tag) for due, _, tag in sorted(self._heaps[clock])] for clock in Clock}

    def give(self, chosen: Callable[[list[Any]], list[bool]]) -> Pending:
        """Removes the timers that `chosen` selects by their tags; returns them."""
        given: Pending = {}
        for clock, heap in self._heaps.items():
            timers = sorted(heap)
            flags = chosen([tag for _, _, tag in timers]) if timers else []
            given[clock.value] = [(due, tag) for (due, _, tag), is_given in zip(timers, flags, strict=True) if is_given]
            self._heaps[clock] = [timer for timer, is_given in zip(timers, flags, strict=True) if not is_given]
        return given

    def add(self, pending: Pending) -> None:
        """Adds the timers that another instance gave."""
        for clock in Clock:
            for due, tag in pending[clock.value]:
                self._made += 1
                heapq.heappush(self._heaps[clock], (due, self._made, tag))

    def restore(self, pending: Pending) -> None:
        """Replaces all timers by those of a snapshot. They are sorted, so each list is a heap."""
        for clock in Clock:
            self._heaps[clock] = [(due, number, tag) for number, (due, tag) in enumerate(pending[clock.value])]
        self._made = max(map(len, self._heaps.values()))
