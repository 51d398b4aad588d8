"""A simulated server of shared objects, as Redis is one: it makes writes in order, and may be lost for a while."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

from stretto.sharing.contents import ObjectContent, Write, written
from stretto.worker.events import ReadServer, ServerAnswered, ServerFailed, ServerWritten, WriteServer

Noticed = Callable[[str, Write], None]
"""Called with each write that is made."""


class ObjectServer:
    """Objects by space and name. While it is lost, orders fail, some of them after they were carried out."""

    def __init__(self, seed: int, noticed: Noticed) -> None:
        self._random = random.Random(seed)
        self._noticed = noticed
        self.objects: dict[tuple[str, str], ObjectContent | None] = {}
        self._once: set[tuple[str, str, str]] = set()
        self.lost = False
        self.failures = 0

    def carry_out(self, order: ReadServer | WriteServer) -> ServerAnswered | ServerWritten | ServerFailed:
        """Returns what becomes of an order."""
        done_before = self.lost and self._random.random() < 0.5
        if not self.lost or done_before:
            done = self._do(order)
            if not self.lost:
                return done
        self.failures += 1
        return ServerFailed(order.job, order.number, "the connection broke")

    def _do(self, order: ReadServer | WriteServer) -> ServerAnswered | ServerWritten:
        if isinstance(order, ReadServer):
            found = tuple(self.objects.get((order.space, name)) for _, name in order.wanted)
            return ServerAnswered(order.job, order.number, found)
        return ServerWritten(order.job, order.number, tuple(self._write(order.space, order.writes)))

    def _write(self, space: str, writes: Iterable[tuple[str, Write]]) -> Iterator[int]:
        """Makes writes, and yields the places of those that were made before."""
        for place, (name, write) in enumerate(writes):
            if write.once is not None:
                if (space, name, write.once) in self._once:
                    yield place
                    continue
                self._once.add((space, name, write.once))
            self.objects[space, name] = written(name, self.objects.get((space, name)), write)
            self._noticed(name, write)
