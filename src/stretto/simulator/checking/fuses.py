"""Handlers that run out of time in simulated runs: chosen at random, and ended before their first step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stretto.protocol.transactions import Invoke
from stretto.transactions.activation import OutOfTime
from stretto.transactions.execution import Execution, Part


class Fuse:
    """Ends handlers at random, as a timer does on Spark; none while a machine replays."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self._chance = chance
        self.share = share
        self._replays: Callable[[], bool] = lambda: True
        self._endless: set[tuple[str, bool]] = set()
        self.blown = 0

    @contextmanager
    def around(self, job: str, replays: Callable[[], bool]) -> Iterator[None]:
        self._replays = replays
        yield

    def blow(self, seed: str, in_fallback: bool) -> None:
        """End a handler, perhaps; those of a transaction that was ended before would never return."""
        share = self.share * (10 if in_fallback else 1)
        if not share or self._replays():
            return
        if (seed, in_fallback) in self._endless or self._chance.random() < share:
            self._endless.add((seed, in_fallback))
            self.blown += 1
            stopped = OutOfTime()
            stopped.seed = seed
            raise stopped

    def execution(self) -> type[Execution]:
        """Returns a class whose handlers may be ended before their first step."""
        return type("Interrupted", (_Interrupted,), {"fuse": self})


class _Interrupted(Execution):
    fuse: Fuse

    def _start(self, part: Part, caller: int, invoke: Invoke) -> None:
        if invoke.seed not in self.stopped:
            self.fuse.blow(invoke.seed, in_fallback=self._locks is not None)
        super()._start(part, caller, invoke)
