"""A history that one thread fills and another reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from stretto.dashboard.history import History
from stretto.elasticity.records import DecisionRecord
from stretto.observation.model import Observation

T = TypeVar("T")


class Kept:
    """A history behind a lock. `now_ns` is the clock of the observations."""

    def __init__(self, history: History, now_ns: Callable[[], int]) -> None:
        self._history = history
        self._now_ns = now_ns
        self._lock = threading.Lock()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was observed for a while."""
        return self._history.is_quiet(self._now_ns())

    def read(self, view: Callable[[History], T]) -> T:
        """Returns what a view makes of the history."""
        with self._lock:
            self._history.catch_up(self._now_ns())
            return view(self._history)

    def take(self, observations: Iterable[Observation], records: Iterable[DecisionRecord]) -> None:
        """Takes what was announced."""
        with self._lock:
            for observation in observations:
                self._history.observe(observation)
            for record in records:
                self._history.decide(record)
