"""What controllers decide about a running job, as it happens: a line when something is decided, and one when it is
known what that brought.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TextIO

from stretto.elasticity.records import DecisionRecord, Outcome


class Moment(Enum):
    """Why a line is printed."""

    DECIDED = "decided"
    EFFECT = "effect"
    """Its effect was measured, or it was refused or failed, so that there is none."""
    REVERTED = "reverted"


class DecisionNews:
    """Reads the records of a job, and yields each as often as there is something new to say of it."""

    def __init__(self, decisions: Callable[[], list[DecisionRecord]]) -> None:
        self._decisions = decisions
        self._said: dict[int, set[Moment]] = {}

    def news(self) -> Iterator[tuple[Moment, DecisionRecord]]:
        """Yields what is new since the last call, in the order of the decisions."""
        records = self._decisions()
        self._said = {record.number: self._said.get(record.number, set()) for record in records}
        for record in records:
            said = self._said[record.number]
            for moment in _moments(record):
                if moment not in said:
                    said.add(moment)
                    yield moment, record


def _moments(record: DecisionRecord) -> Iterator[Moment]:
    yield Moment.DECIDED
    is_known = record.effect is not None and record.outcome is not Outcome.PENDING
    if is_known or record.outcome in (Outcome.REFUSED, Outcome.FAILED):
        yield Moment.EFFECT
    if record.reverted_ns is not None:
        yield Moment.REVERTED


def news_line(moment: Moment, record: DecisionRecord) -> str:
    """Returns one line for people: who decided what and why, or what it brought."""
    head = f"#{record.number} {moment.value:<8} [{record.controller}] {record.where}:"
    if moment is Moment.DECIDED:
        what = "nothing" if record.decision is None else str(record.decision)
        back = f" (takes #{record.reverts} back)" if record.reverts is not None else ""
        return f"{head} {what}{back}, because {record.because}{_values(dict(record.seen))}"
    if moment is Moment.REVERTED:
        return f"{head} {record.decision} was taken back"
    outcome = record.outcome.value + (f": {record.outcome_reason}" if record.outcome_reason else "")
    if record.effect is None:
        return f"{head} {outcome}"
    changes = [_change(name, record.seen.get(name), after) for name, after in record.effect.items()]
    return f"{head} {outcome}, {', '.join(changes)}"


def _change(name: str, before: float | None, after: float) -> str:
    words = name.replace("_", " ")
    return f"{words} {after:.4g}" if before is None else f"{words} {before:.4g} -> {after:.4g}"


def _values(values: dict[str, float]) -> str:
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in values.items())
    return f" ({shown})" if shown else ""


def news_json(moment: Moment, record: DecisionRecord) -> dict[str, Any]:
    """Returns the object that `--json` prints."""
    return {"event": moment.value, "decision": record.plain()}


def print_news_json(out: TextIO, moment: Moment, record: DecisionRecord) -> None:
    """Prints one JSON object on one line."""
    print(json.dumps(news_json(moment, record), default=str), file=out, flush=True)
