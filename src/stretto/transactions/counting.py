"""What a place counts of its transactions: how they ended and why, how often they met, how long they took.

A transaction is counted at its root, when it ends. A replay counts nothing: what runs again was counted when it ran
first. So the figures go on from one attempt to the next, and with a place that moves.
"""

from __future__ import annotations

from stretto.actors.metrics import LatencySketch
from stretto.protocol.transactions import TransactionTotals
from stretto.transactions.epoch import Settled

REASONS_MAX = 32
"""The most reasons of aborts that are told apart at a place."""
OTHER = "other reasons"


class Counts:
    """The figures of one place so far."""

    def __init__(self) -> None:
        self.committed = self.conflicts = self.again = self.epochs = self.looks = self.refused = 0
        self.aborted: dict[str, int] = {}
        self._latency = LatencySketch()

    @property
    def changes(self) -> int:
        """Returns a number that grows whenever something is counted."""
        return self.epochs + self.looks + self.refused

    def settled(self, settled: Settled, now_us: int) -> None:
        """A transaction has ended, or is to run again in the next epoch."""
        if settled.place is None:
            self.again += 1
            return
        if settled.failure is None:
            self.committed += 1
        else:
            self._abort(settled.failure.kind)
        # The call may have been logged by another worker's clock, from which its place has moved.
        self._latency.add(max(0, now_us - settled.transaction.call.at_us) * 1_000, 1)

    def _abort(self, reason: str) -> None:
        known = reason if reason in self.aborted or len(self.aborted) < REASONS_MAX else OTHER
        self.aborted[known] = self.aborted.get(known, 0) + 1

    def epoch_over(self, conflicts: int) -> None:
        """An epoch is over, in which so many transactions of this place lost to others."""
        self.epochs += 1
        self.conflicts += conflicts

    def totals(self, entities: int, waiting: int, delayed: int) -> TransactionTotals:
        """Returns what is reported, with how many entities there are, and calls that wait."""
        return TransactionTotals(
            self.committed,
            self.aborted.copy(),
            self.conflicts,
            self.again,
            self.epochs,
            self.looks,
            self.refused,
            entities,
            waiting,
            delayed,
            self._latency.export(),
        )

    @staticmethod
    def continuing(totals: TransactionTotals) -> Counts:
        """Returns the figures of a place that has come from elsewhere."""
        found = Counts()
        found.committed, found.aborted = totals.committed, totals.aborted.copy()
        found.conflicts, found.again, found.epochs = totals.conflicts, totals.again, totals.epochs
        found.looks, found.refused = totals.looks, totals.refused
        if totals.latency is not None:
            found._latency.merge(totals.latency)
        return found
