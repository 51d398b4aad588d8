"""What a workload of transactions is: entities, calls from a seed, and a check of what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from stretto.bench.transactions.service import Done, Fields, Service
from stretto.protocol.transactions import Reply
from stretto.transactions.entity import Entity

Rows = Mapping[str, Mapping[str, Fields]]
"""Entities by class and key, but for those that nobody has written."""


class Workload(Protocol):
    """Calls are the same for equal seeds."""

    @property
    def name(self) -> str: ...

    @property
    def entities(self) -> tuple[type[Entity], ...]: ...

    def load(self) -> Iterator[Any]:
        """Returns the calls that make the initial state. They come before all others."""
        ...

    def calls(self, seed: int) -> Iterator[Any]:
        """Returns calls without end."""
        ...

    def verify(self, done: Sequence[Done], rows: Rows) -> Iterator[str]:
        """Returns what is wrong, given all calls, those of `load` included, and the entities in the end."""
        ...


@dataclass
class Run:
    """The calls of a workload on a service, so far."""

    service: Service
    workload: Workload
    seed: int = 1

    def __post_init__(self) -> None:
        self.done: list[Done] = []
        self._calls = self.workload.calls(self.seed)
        self._map(list(self.workload.load()))

    def more(self, count: int) -> list[Done]:
        """Run so many further calls. Returns them with their replies."""
        return self._map(self.draw(count))

    def draw(self, count: int) -> list[Any]:
        """Returns so many further calls. Whoever makes them says so with `add`."""
        return list(islice(self._calls, count))

    def add(self, made: Sequence[Any], replies: Sequence[Reply]) -> list[Done]:
        """Calls were made, and answered."""
        done = list(map(Done, made, replies))
        self.done += done
        return done

    def _map(self, made: list[Any]) -> list[Done]:
        return self.add(made, self.service.map(made))

    def problems(self) -> list[str]:
        """Returns what is wrong with everything that was run."""
        rows = {kind.__name__: self.service.rows(kind) for kind in self.workload.entities}
        return list(self.workload.verify(self.done, rows))
