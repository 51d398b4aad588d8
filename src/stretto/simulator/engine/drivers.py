"""Several drivers that run the same app from the same checkpoint directory: one takes over from another that hangs, or
is in good health, and may end before a third one resumes.

Each driver has a cluster of its own. They share storage and time: whoever has the earliest event is next.
"""

from __future__ import annotations

from stretto.errors import InvariantError
from stretto.simulator.engine.durable import DurableCluster


class Drivers:
    """The clusters of all drivers, in the order of their start. Those that were killed are not among them. A run that
    has not ended after so many steps, or by `until_ns`, will not end."""

    def __init__(self, first: DurableCluster, steps_max: int, until_ns: int) -> None:
        self.clusters = [first]
        self.killed: list[DurableCluster] = []
        self._steps_max = steps_max
        self._until_ns = until_ns

    def take_over(self, seed: int, ends_after_ns: int | None, resumed_after_ns: int) -> None:
        """Start another driver, unless the app has ended. It is killed after `ends_after_ns`, if that is given, and
        then a third one is started after `resumed_after_ns`."""
        last = self.clusters[-1]
        if last.has_ended:
            return
        other = last.successor(seed)
        self.clusters.append(other)
        if ends_after_ns is not None:
            last.plan(ends_after_ns, lambda: self._kill(other))
            last.plan(ends_after_ns + resumed_after_ns, lambda: self.clusters.append(last.successor(seed + 1)))

    def _kill(self, cluster: DurableCluster) -> None:
        self.clusters.remove(cluster)
        self.killed.append(cluster)
        cluster.die()

    def run(self) -> None:
        """Process events until all queues are empty."""
        for _ in range(self._steps_max):
            due = [(cluster.next_ns, number) for number, cluster in enumerate(self.clusters) if cluster.next_ns]
            if not due:
                break
            if min(due)[0] > self._until_ns:
                raise InvariantError("the simulation does not end", f"it is {self._until_ns / 1e9:g} s there")
            self.clusters[min(due)[1]].step()
        else:
            raise InvariantError("the simulation does not end", f"{self._steps_max} steps")
        unended = [cluster for cluster in self.clusters if not cluster.has_ended]
        if unended:
            raise InvariantError("the event queue is empty, but jobs have not ended", f"{len(unended)} drivers")

    def close(self) -> None:
        for cluster in (*self.clusters, *self.killed):
            cluster.close()
