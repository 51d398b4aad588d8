"""How a worker stands with the coordinator, from its start to its end: the table of moves."""

from __future__ import annotations

from enum import Enum

from stretto.errors import InvariantError


class Standing(Enum):
    """How a worker stands."""

    COMING = "coming"
    """It was started and has not joined."""
    COMING_SPARE = "coming as a spare"
    PARKED = "parked"
    """It has joined, and is idle until another one is lost."""
    COMING_TRANSIENT = "coming as a transient worker"
    TRANSIENT = "transient"
    """It has joined, is home to nothing, and runs what a burst redirects to it."""
    ACTIVE = "active"
    DRAINING = "draining"
    """It gets nothing new. It leaves once nothing of a running job is there."""
    DISMISSED = "dismissed"
    """It was asked to leave, since nothing is there."""

    @property
    def is_leaving(self) -> bool:
        """Whether nobody is to replace it when it is gone."""
        return self in (Standing.DRAINING, Standing.DISMISSED)


MOVES: dict[Standing, frozenset[Standing]] = {
    Standing.COMING: frozenset({Standing.ACTIVE}),
    Standing.COMING_SPARE: frozenset({Standing.PARKED}),
    Standing.COMING_TRANSIENT: frozenset({Standing.TRANSIENT}),
    Standing.TRANSIENT: frozenset({Standing.DISMISSED}),
    Standing.PARKED: frozenset({Standing.ACTIVE}),
    Standing.ACTIVE: frozenset({Standing.DRAINING}),
    Standing.DRAINING: frozenset({Standing.DISMISSED}),
    Standing.DISMISSED: frozenset(),
}
"""The moves of a worker; in addition, it may be lost at any time."""


class Standings:
    """The standing of every worker that was started and is not gone."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}

    def begin(self, name: str, standing: Standing) -> None:
        """A worker was started."""
        self._standings[name] = standing

    def of(self, name: str) -> Standing | None:
        """Returns how a worker stands; None if it is gone."""
        return self._standings.get(name)

    def named(self, *standings: Standing) -> set[str]:
        """Returns the workers that stand so."""
        return {name for name, standing in self._standings.items() if standing in standings}

    def move(self, name: str, standing: Standing) -> None:
        """Moves a worker; a move that is not in the table is a fault of the protocol."""
        before = self._standings[name]
        if standing not in MOVES[before]:
            raise InvariantError(f"worker {name} is {before.value} and cannot become {standing.value}")
        self._standings[name] = standing

    def end(self, name: str) -> Standing | None:
        """A worker is gone; returns how it stood."""
        return self._standings.pop(name, None)
