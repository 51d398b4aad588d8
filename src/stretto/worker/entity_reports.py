"""What the coordinator hears of the transactions here: totals of the places that have counted something, four times a
second."""

from __future__ import annotations

from stretto.actors.deadlines import NEVER_NS
from stretto.protocol.entities import EntityCounts
from stretto.protocol.membership import COORDINATOR
from stretto.transactions.machine import TransactionWorker
from stretto.worker.part import Host, Part
from stretto.worker.reports import REPORT_EVERY_NS


class EntityReports(Part):
    """The places that have something to report."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._unreported: dict[tuple[str, int], TransactionWorker] = {}
        self._next_ns = 0

    def counted(self, job: str, place: int, machine: TransactionWorker) -> None:
        """The machine of a place has counted something."""
        self._unreported[job, place] = machine
        self.due_ns = self._next_ns

    def left(self, job: str, place: int) -> None:
        """A place is not here any more."""
        self._unreported.pop((job, place), None)

    def wake(self) -> None:
        self._next_ns = self._host.now_ns + REPORT_EVERY_NS
        self.due_ns = NEVER_NS
        for (job, place), machine in self._unreported.items():
            if machine.finished < 0:
                continue  # Another attempt begins, which counts on.
            self._host.send(COORDINATOR, EntityCounts(job, place, machine.totals(), self._host.now_ns))
        self._unreported = {}
