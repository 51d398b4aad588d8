"""Copies of segments, in the driver's own worker: a round each second decides, and leaves a record.

What is decided is in `queries/copying.py`. Workers load and drop what they are asked to, and report it to the broker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stretto.actors.deadlines import NEVER_NS
from stretto.elasticity.decisions import MoveCopies
from stretto.elasticity.records import Candidate, DecisionRecord, Outcome, Trigger
from stretto.protocol.queries import Held
from stretto.queries.broker import Broker
from stretto.queries.copying import Change, Copying
from stretto.worker.events import NoteDecision
from stretto.worker.part import Host, Part

ROUND_NS = 1_000_000_000
FIRST_NUMBER = 1 << 40
"""Numbers of these decisions, so that they are not those of the coordinator's."""


class Sending(Protocol):
    """Whoever sends what the broker wants sent."""

    broker: Broker

    def carry_out(self) -> None: ...


class CopyKeeping(Part):
    """Who holds what. Only the driver's worker has anything to decide."""

    def __init__(self, host: Host, asking: Sending) -> None:
        self._host = host
        self._asking = asking
        self.copying = Copying()
        self._made = FIRST_NUMBER
        self._open: DecisionRecord | None = None
        self._failed: str | None = None

    def table_known(self) -> None:
        """A table with files is known: rounds begin."""
        if self.due_ns == NEVER_NS:
            self.due_ns = self._host.now_ns + ROUND_NS

    def held(self, sender: str, frame: Held) -> None:
        """A worker has done what it was asked for."""
        self.copying.reported(sender, frame.table)
        self._failed = self._failed or frame.reason
        if not self.copying.under_way and self._open is not None:
            outcome = Outcome.DONE if self._failed is None else Outcome.FAILED
            self._note(self._open.finished(outcome, self._failed))
            self._open = None

    def wake(self) -> None:
        broker = self._asking.broker
        if not any(known.directory is not None for known in broker.tables.values()):
            self.due_ns = NEVER_NS
            return
        self.due_ns = self._host.now_ns + ROUND_NS
        change = self.copying.round_over(broker)
        if change is not None:
            self._made += 1
            self._failed = None
            self._open = replace(record_of(change, self._host.now_ns), number=self._made)
            self._note(self._open)
            self._asking.carry_out()

    def _note(self, record: DecisionRecord) -> None:
        self._host.effects.append(NoteDecision(record))


def record_of(change: Change, now_ns: int) -> DecisionRecord:
    """Returns the record of a change."""
    loads = tuple((member, name) for member, names in sorted(change.loads.items()) for name in names)
    drops = tuple((member, name) for member, names in sorted(change.drops.items()) for name in names)
    stay = Candidate("stay", {"copies": change.copies_before}, "copies are not where questions are, or have no room")
    move = Candidate("load and drop", {"copies": change.copies_wanted})
    return DecisionRecord(
        now_ns,
        "copies",
        "",
        "",
        None,
        Trigger.POPULARITY,
        "the copies that are wanted are others than those that are there",
        change.seen,
        (move, stay),
        MoveCopies(loads, drops),
    )
