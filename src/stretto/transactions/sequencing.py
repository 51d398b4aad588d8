"""The order of transactions, without a message (styx.txt 5): worker i of n gives its c-th call the TID i + c * n.

The TIDs of two workers differ, and every worker knows whose a TID is. The counters are levelled when an epoch commits,
so that a busy worker's next transactions do not come after those of all others. A transaction that runs again in the
next epoch keeps its TID, which is then lower than all new ones, so none is put off for ever.
"""

from __future__ import annotations

from collections.abc import Iterable


class Sequencer:
    """Assigns the TIDs of one worker."""

    def __init__(self, worker: int, workers: int, counter: int = 0) -> None:
        self._worker = worker
        self._workers = workers
        self.counter = counter

    def assign(self) -> int:
        tid = self._worker + self.counter * self._workers
        self.counter += 1
        return tid

    def level(self, counters: Iterable[int]) -> None:
        """The epoch is committed, and these are the counters of all workers in it."""
        self.counter = max([self.counter, *counters])


def worker_of(tid: int, workers: int) -> int:
    """Returns whose transaction it is."""
    return (tid - 1) % workers + 1
