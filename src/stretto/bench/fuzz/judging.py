"""Compares stretto's answer with Spark's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused, same
from stretto.bench.fuzz.documented import Documented, documented, without_ranges
from stretto.bench.fuzz.terms import Term


class Kind(Enum):
    """How the two sides disagree."""

    VALUE = "other value"
    TYPE = "other type"
    FAILS_HERE = "fails here, Spark has an answer"
    FAILS_IN_SPARK = "fails in Spark, has an answer here"
    CRASH = "raises an error that is not ours"
    REFUSED_BY_SPARK = "Spark refuses it"
    EMPTY_BATCH = "fails on an empty batch"
    PLANNING = "fails while Spark plans the query, has an answer here"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """How two answers differ, with what both say. `row` is the first row where they do, if it is about a row."""

    kind: Kind
    ours: Any
    sparks: Any
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison finds: a disagreement or none, and the documented differences at other rows."""

    disagreement: Disagreement | None = None
    documented: tuple[Documented, ...] = ()


def judge(term: Term, ours: Answer, sparks: Answer) -> Verdict:
    """Returns the verdict on a term. An expression that stretto refuses on purpose is no disagreement."""
    if isinstance(ours, Refused):
        if ours.crash and isinstance(sparks, Answered):
            return Verdict(Disagreement(Kind.CRASH, ours.reason, sparks.kind))
        return Verdict()
    if isinstance(sparks, Refused) and sparks.crash:
        # A constant that fails may fail a query of Spark's while it is planned.
        return Verdict() if _fails_on_every_row(ours) else Verdict(Disagreement(Kind.PLANNING, ours, sparks.reason))
    typed = judge_kind(ours.kind, sparks if isinstance(sparks, Refused) else sparks.kind)
    if typed is not None or isinstance(sparks, Refused):
        return Verdict(typed)
    verdict = _compare_rows(term, ours.rows, sparks.rows) if sparks.comparable else Verdict()
    if ours.on_nothing is None or verdict.disagreement is not None or _fails_on_every_row(ours):
        return verdict
    return Verdict(Disagreement(Kind.EMPTY_BATCH, ours.on_nothing.text, "no rows"))


def judge_kind(ours: str, sparks: str | Refused) -> Disagreement | None:
    """Returns how the types of an expression that stretto accepts disagree."""
    if isinstance(sparks, Refused):
        if sparks.crash:  # It is no matter of types: `judge` decides.
            return None
        return Disagreement(Kind.REFUSED_BY_SPARK, ours, sparks.reason)
    same_type = ours.lower() == without_ranges(sparks.lower())
    return None if same_type else Disagreement(Kind.TYPE, ours, sparks)


def _fails_on_every_row(ours: Answered) -> bool:
    """Whether it is a constant that fails, such as 1 / 0: such a one fails a query of Spark's before it reads a row."""
    return all(isinstance(row, Failure) and not row.crash for row in ours.rows)


def _compare_rows(term: Term, ours: list[Any], sparks: list[Any]) -> Verdict:
    if len(ours) != len(sparks):  # An aggregate that fails has one failure, whatever the number of groups.
        meant = documented(term, ours[0] if ours else None, sparks[0] if sparks else None)
        return Verdict(None, (meant,)) if meant else Verdict(Disagreement(Kind.VALUE, ours, sparks))
    known: list[Documented] = []
    for row, (mine, theirs) in enumerate(zip(ours, sparks, strict=True)):
        kind = _difference(mine, theirs)
        if kind is None:
            continue
        meant = documented(term, mine, theirs) if kind is not Kind.CRASH else None
        if meant is None:
            return Verdict(Disagreement(kind, mine, theirs, row), tuple(known))
        known.append(meant)
    return Verdict(None, tuple(known))


def _difference(mine: Any, theirs: Any) -> Kind | None:
    if isinstance(mine, Failure):
        if mine.crash:
            return Kind.CRASH
        return None if isinstance(theirs, Failure) else Kind.FAILS_HERE
    if isinstance(theirs, Failure):
        return Kind.FAILS_IN_SPARK
    return None if same(mine, theirs) else Kind.VALUE
