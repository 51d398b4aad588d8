"""Rations the records of controllers that decide nothing: at most one per controller, job, reason and minute."""

from __future__ import annotations

from stretto.elasticity.records import DecisionRecord

EVERY_NS = 60_000_000_000


class Rationing:
    """Remembers when each reason for deciding nothing was last recorded."""

    def __init__(self, every_ns: int = EVERY_NS) -> None:
        self._every_ns = every_ns
        self._recorded_ns: dict[tuple[str, str, str], int] = {}

    def admitted(self, records: list[DecisionRecord], now_ns: int) -> list[DecisionRecord]:
        """Returns all records with a decision, and of the others those whose reason is not in the last minute's."""
        recent = now_ns - self._every_ns
        self._recorded_ns = {key: at_ns for key, at_ns in self._recorded_ns.items() if at_ns > recent}
        found = []
        for record in records:
            if record.decision is None:
                key = (record.controller, record.job, record.because)
                if key in self._recorded_ns:
                    continue
                self._recorded_ns[key] = now_ns
            found.append(record)
        return found
