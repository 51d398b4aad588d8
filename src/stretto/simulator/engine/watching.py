"""Whoever wants to see what the clusters of a simulation announce, however deep inside an experiment they are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from stretto.elasticity.records import DecisionRecord
from stretto.observation.model import Observation


class Watcher(Protocol):
    """Sees one cluster after the other."""

    def begins(self) -> None:
        """A cluster begins; what comes from now on is of this one."""

    def observed(self, observation: Observation) -> None: ...

    def decided(self, record: DecisionRecord) -> None: ...


_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Has a watcher see all clusters that are made in a `with` block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def present_watcher() -> Watcher | None:
    """Returns whoever watches now, and lets it know that a cluster begins."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher.begins()
    return watcher
