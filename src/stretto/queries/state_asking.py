"""The rows of a function's state, gathered from the workers that have its partitions.

All workers are asked, since only they know what they have. A partition that cannot answer, or that nobody has, is
named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from stretto.actors.deadlines import NEVER_NS
from stretto.protocol.jobs import Failure
from stretto.protocol.queries import AskState, StatePart
from stretto.queries.answers import Missing


@dataclass(frozen=True, slots=True)
class StateQuestion:
    """What state is asked for: that of a function, or one of several by its name."""

    ticket: Any
    function: str
    state: str | None
    within_ns: int


@dataclass(frozen=True, slots=True)
class StateGathered:
    """The rows of a state, as packed tables with their partition and the name of their state, and what is missing."""

    ticket: Any
    tables: tuple[tuple[int, str, bytes], ...]
    missing: tuple[Missing, ...] = ()
    partitions: int = 0
    failure: Failure | None = None


@dataclass
class _Asking:
    question: StateQuestion
    deadline_ns: int
    waits_for: set[str]
    parts: list[StatePart] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class StateBroker:
    """The questions about state that are under way."""

    def __init__(self) -> None:
        self.sends: list[tuple[str, AskState]] = []
        self.gathered: list[StateGathered] = []
        self._askings: dict[int, _Asking] = {}
        self._made = 0

    def ask(self, question: StateQuestion, workers: Collection[str], now_ns: int) -> None:
        self._made += 1
        self._askings[self._made] = _Asking(question, now_ns + question.within_ns, set(workers))
        self.sends += [(member, AskState(self._made, question.function, question.state)) for member in sorted(workers)]
        self._finish_if_done(self._made)

    def answered(self, sender: str, part: StatePart) -> None:
        asking = self._askings.get(part.number)
        if asking is not None and sender in asking.waits_for:
            asking.waits_for.discard(sender)
            asking.parts.append(part)
            self._finish_if_done(part.number)

    def members(self, workers: Collection[str]) -> None:
        """These workers are there now."""
        for number, asking in list(self._askings.items()):
            lost = asking.waits_for - set(workers)
            asking.waits_for -= lost
            asking.lost += [f"worker {member} was lost" for member in sorted(lost)]
            self._finish_if_done(number)

    @property
    def due_ns(self) -> int:
        return min((asking.deadline_ns for asking in self._askings.values()), default=NEVER_NS)

    def tick(self, now_ns: int) -> None:
        for number, asking in list(self._askings.items()):
            if now_ns >= asking.deadline_ns:
                asking.lost += [f"worker {member} has not answered in time" for member in sorted(asking.waits_for)]
                asking.waits_for = set()
                self._finish_if_done(number)

    def _finish_if_done(self, number: int) -> None:
        asking = self._askings[number]
        if asking.waits_for:
            return
        del self._askings[number]
        partitions = max((part.partitions for part in asking.parts), default=0)
        tables = [table for part in asking.parts for table in part.tables]
        told = dict(each for part in asking.parts for each in part.missing)
        answered = {partition for part in asking.parts for partition in part.answered}
        reason = "; ".join(asking.lost) or "no worker has it now"
        missing = [
            Missing(f"partition {each}", told.get(each, reason)) for each in range(partitions) if each not in answered
        ]
        failure = next((part.failure for part in asking.parts if part.failure is not None), None)
        self.gathered.append(
            StateGathered(asking.question.ticket, tuple(sorted(tables)), tuple(missing), partitions, failure)
        )
