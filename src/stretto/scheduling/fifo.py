"""First come, first served over instances: each takes one message per turn, so no job starves another."""

from __future__ import annotations

from collections import deque

from stretto.actors.instance import Instance


class Fifo:
    """A ring of the instances that have work and credits. An instance is in it at most once."""

    def __init__(self) -> None:
        self._ready: deque[Instance] = deque()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to run."""
        return not self._ready

    def enqueue(self, instance: Instance) -> None:
        instance.queued = True
        self._ready.append(instance)

    def next_instance(self) -> Instance | None:
        """The next instance to run; one that lost its credits while waiting is passed over and offered again later."""
        while self._ready:
            instance = self._ready.popleft()
            instance.queued = False
            if not instance.dropped and (not instance.starved or instance.opening):
                return instance
        return None

    def forget(self, job: str) -> None:
        self._ready = deque(instance for instance in self._ready if instance.address.job != job)
