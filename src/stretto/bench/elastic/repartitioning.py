"""The resource-centric approach (elasticutor.txt 2 and 5): keys are dealt anew over the partitions of a function.

A small controller looks at how busy the partitions of the hottest function are. Where one is saturated and the others
are not as busy, it gives the function another number of partitions, at least one per worker, so that other keys meet.
Each time all actors of the job pause at one barrier, which is what the paper holds against the approach.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from stretto.errors import ClusterError
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job

LOOK_S = 0.5
"""How often it looks, and how long a partition must have been saturated: twice in a row."""
SATURATED = 0.9
"""The share of its time in which a partition runs."""
IMBALANCE = 1.2
"""The busiest partition by the average, as for shards."""


def next_parallelism(busy: Sequence[float], workers: int) -> int | None:
    """Returns how many partitions a function with these busy shares should have; None if it stays as it is.

    Fewer partitions than workers become as many. Else one more is tried, up to two per worker, and then as many as
    workers again: which keys meet in a partition is another matter each time."""
    if not busy or max(busy) < SATURATED:
        return None
    count = len(busy)
    if count < workers:
        return workers
    if max(busy) < IMBALANCE * sum(busy) / count:
        return None
    return count + 1 if count < 2 * workers else workers


class Repartitioner:
    """Repartitions the hottest function of a job while it runs: `with Repartitioner(cluster, job) as done:`."""

    def __init__(self, cluster: Cluster, job: Job, workers: int) -> None:
        self._cluster = cluster
        self._job = job
        self._workers = workers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stretto-repartitioner", daemon=True)
        self.done = 0
        """How often it has repartitioned a function."""
        self.paused_ms = 0.0
        """The sum of the times from the beginning of a barrier to the start of the new partitions."""

    def __enter__(self) -> Repartitioner:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        seen: tuple[str, int | None] = ("", None)
        while not self._stopped.wait(LOOK_S) and not self._job.status.ended:
            function, busy = hottest(self._busy_shares())
            wanted = next_parallelism(busy, self._workers)
            if wanted is not None and seen == (function, wanted):
                self._rescale(function, wanted)
                wanted = None
            seen = (function, wanted)

    def _busy_shares(self) -> dict[str, list[float]]:
        """Returns how busy the partitions of each function are that is neither a source nor a sink."""
        observed = self._cluster.observation.jobs.get(self._job.name)
        functions = observed.functions if observed is not None else {}
        return {
            name: [actor.busy_share for actor in each.actors]
            for name, each in functions.items()
            if each.shape.feeds and not each.shape.is_sink and len(each.actors) == each.shape.parallelism
        }

    def _rescale(self, function: str, parallelism: int) -> None:
        try:
            record = self._job.rescale(function, parallelism)
        except ClusterError:
            return  # The job is about to end; it has gone on as it was.
        self.done += 1
        self.paused_ms += (record.spent or {}).get("paused_ms", 0.0)


def hottest(shares: Mapping[str, Sequence[float]]) -> tuple[str, Sequence[float]]:
    """Returns the function with the busiest partition, and how busy all of its partitions are."""
    found = [(max(busy), name) for name, busy in shares.items() if busy]
    name = max(found)[1] if found else ""
    return name, shares.get(name, ())
