"""The rows of a function's state, gathered from the workers that have its partitions.

All workers are asked, since only they know what they have, and again a little later while there is a partition that
nobody has: it is being opened or recovered, or moves. One that cannot answer, or that nobody has in time, is named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from stretto.actors.deadlines import NEVER_NS
from stretto.protocol.jobs import Failure
from stretto.protocol.queries import AskState, StatePart
from stretto.queries.answers import GATHERED_BYTES_MAX, Missing, too_large
from stretto.queries.broker import AGAIN_NS, AGAIN_NS_MAX

_READ_WITH_SPARK = "The state of a checkpoint is a DataFrame: stretto.state.read(spark, directory, function)."


@dataclass(frozen=True, slots=True)
class StateQuestion:
    """What state is asked for."""

    ticket: Any
    function: str
    state: str
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
    again_ns: int = AGAIN_NS
    waits_until_ns: int | None = None

    @property
    def gathered_bytes(self) -> int:
        return sum(len(data) for part in self.parts for _, _, data in part.tables)


class StateBroker:
    """The questions about state that are under way."""

    def __init__(self, bytes_max: int = GATHERED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.sends: list[tuple[str, AskState]] = []
        self.gathered: list[StateGathered] = []
        self._askings: dict[int, _Asking] = {}
        self._made = 0

    def ask(self, question: StateQuestion, workers: Collection[str], now_ns: int) -> None:
        """Begins with a question."""
        asking = _Asking(question, now_ns + question.within_ns, set())
        self._begin(asking, workers, now_ns)

    def _begin(self, asking: _Asking, workers: Collection[str], now_ns: int) -> None:
        """Asks all workers, under a number of its own: answers to earlier numbers count no more."""
        question = asking.question
        self._made += 1
        self._askings[self._made] = asking
        asking.waits_for, asking.waits_until_ns = set(workers), None
        asking.parts, asking.lost = [], []
        self.sends += [(member, AskState(self._made, question.function, question.state)) for member in sorted(workers)]
        self._finish_if_done(self._made, now_ns)

    def answered(self, sender: str, part: StatePart, now_ns: int) -> None:
        """A worker says what it has."""
        asking = self._askings.get(part.number)
        if asking is not None and sender in asking.waits_for:
            asking.waits_for.discard(sender)
            asking.parts.append(part)
            if asking.gathered_bytes <= self._bytes_max:
                self._finish_if_done(part.number, now_ns)
            else:
                self._refuse(part.number)

    def _refuse(self, number: int) -> None:
        """Gathers no more rows of a state than there is room for: all come here, whatever the condition is."""
        asking = self._askings.pop(number)
        failure = too_large(asking.gathered_bytes, self._bytes_max, "the rows of the state have", _READ_WITH_SPARK)
        self.gathered.append(StateGathered(asking.question.ticket, (), failure=failure))

    def members(self, workers: Collection[str], now_ns: int) -> None:
        """These workers are there now."""
        for number, asking in list(self._askings.items()):
            lost = asking.waits_for - set(workers)
            asking.waits_for -= lost
            asking.lost += [f"worker {member} was lost" for member in sorted(lost)]
            if lost:
                self._finish_if_done(number, now_ns)

    @property
    def due_ns(self) -> int:
        """When it wants to be woken."""
        times = [(each.deadline_ns, each.waits_until_ns) for each in self._askings.values()]
        return min((min(end, end if again is None else again) for end, again in times), default=NEVER_NS)

    def tick(self, workers: Collection[str], now_ns: int) -> None:
        """Time has passed, and these workers are there."""
        for number, asking in list(self._askings.items()):
            if now_ns >= asking.deadline_ns:
                asking.lost += [f"worker {member} has not answered in time" for member in sorted(asking.waits_for)]
                asking.waits_for = set()
                self._finish_if_done(number, now_ns)
            elif asking.waits_until_ns is not None and now_ns >= asking.waits_until_ns:
                del self._askings[number]
                self._begin(asking, workers, now_ns)

    def _finish_if_done(self, number: int, now_ns: int) -> None:
        asking = self._askings[number]
        if asking.waits_for:
            return
        told = dict(each for part in asking.parts for each in part.missing)
        answered = {partition for part in asking.parts for partition in part.answered}
        partitions = max((part.partitions for part in asking.parts), default=0)
        unheard = set(range(partitions)) - answered - told.keys()
        failure = next((part.failure for part in asking.parts if part.failure is not None), None)
        if (unheard or not partitions) and failure is None and now_ns < asking.deadline_ns:
            asking.waits_until_ns = min(now_ns + asking.again_ns, asking.deadline_ns)
            asking.again_ns = min(2 * asking.again_ns, AGAIN_NS_MAX)
            return
        del self._askings[number]
        reason = "; ".join(asking.lost) or "no worker has it now"
        missing = [
            Missing(f"partition {each}", told.get(each, reason)) for each in sorted(unheard | told.keys() - answered)
        ]
        if not partitions:
            missing = [Missing(f"function {asking.question.function}", reason)]
        tables = sorted(table for part in asking.parts for table in part.tables)
        self.gathered.append(StateGathered(asking.question.ticket, tuple(tables), tuple(missing), partitions, failure))
