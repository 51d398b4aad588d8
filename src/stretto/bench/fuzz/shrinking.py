"""Makes a disagreement small: a smaller expression, fewer rows, simpler values, as long as it stays one of its kind.

A case is made small by a generator, which yields candidates and is told which of them still disagree. So many cases are
made small side by side, and all their candidates are asked in one query.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stretto.bench.fuzz.literals import simple_literals
from stretto.bench.fuzz.plain import array_of, plain_values
from stretto.bench.fuzz.terms import COLUMN, Term, column, family, literal
from stretto.bench.fuzz.values import simple_values

ROUNDS_MAX = 12
CANDIDATES_MAX = 24
_DROPPED_MAX = 8
"""Rows of a case from which on single rows are left out."""


@dataclass(frozen=True, slots=True)
class Case:
    """A term and rows on which both sides disagree."""

    term: Term
    rows: pa.RecordBatch


Shrinking = Generator[list[Case], list[bool], Case]
StillWrong = Callable[[list[tuple[int, Case]]], list[bool]]
"""Which candidates still disagree; each comes with the number of the case that it is to replace."""


def shrink(case: Case) -> Shrinking:
    """Yields candidates, is sent which of them still disagree, and returns the smallest case found."""
    for _ in range(ROUNDS_MAX):
        before = case
        for simpler in (_inner_terms, _fewer_rows, _leaves, _simple_leaves, _simple_values):
            candidates = list(simpler(case))[:CANDIDATES_MAX]
            if candidates:
                verdicts = yield candidates
                case = next((each for each, wrong in zip(candidates, verdicts, strict=True) if wrong), case)
        if case is before:
            break
    return case


def shrink_all(cases: Sequence[Case], still_wrong: StillWrong) -> list[Case]:
    """Returns each case made small; the candidates of all cases are judged together."""
    results = list(cases)
    running = {number: shrink(case) for number, case in enumerate(cases)}
    waiting: dict[int, list[Case]] = {}
    for number, shrinking in list(running.items()):
        _advance(number, shrinking, None, running, waiting, results)
    while running:
        asked = [(number, each) for number, candidates in waiting.items() for each in candidates]
        verdicts = iter(still_wrong(asked))
        told = {number: [next(verdicts) for _ in candidates] for number, candidates in waiting.items()}
        for number, shrinking in list(running.items()):
            _advance(number, shrinking, told[number], running, waiting, results)
    return results


def _advance(
    number: int,
    shrinking: Shrinking,
    told: list[bool] | None,
    running: dict[int, Shrinking],
    waiting: dict[int, list[Case]],
    results: list[Case],
) -> None:
    try:
        waiting[number] = next(shrinking) if told is None else shrinking.send(told)
    except StopIteration as done:
        results[number] = done.value
        waiting.pop(number, None)
        del running[number]


def _inner_terms(case: Case) -> Iterator[Case]:
    """The terms within the term, the smallest first."""
    for term in sorted(case.term.inner(), key=lambda term: term.size):
        yield Case(term, case.rows)


def _fewer_rows(case: Case) -> Iterator[Case]:
    count = case.rows.num_rows
    if count > 1:
        for row in range(min(count, CANDIDATES_MAX - 2)):
            yield Case(case.term, case.rows.slice(row, 1))
        yield Case(case.term, case.rows.slice(0, count // 2))
        yield Case(case.term, case.rows.slice(count // 2))
    if 2 < count <= _DROPPED_MAX:
        for row in range(count):
            kept = [place for place in range(count) if place != row]
            yield Case(case.term, case.rows.take(pa.array(kept)))


def _leaves(case: Case) -> Iterator[Case]:
    """Arguments that are terms, replaced by columns or literals of their families; the largest first."""
    inner = [(path, term) for path, term in case.term.places() if term.arguments]
    for path, term in sorted(inner, key=lambda each: -each[1].size):
        for leaf in (*_columns(case, term.family)[:2], *simple_literals(term.family)[:1], literal("NULL", "void")):
            yield Case(case.term.with_replaced(path, leaf), case.rows)


def _simple_leaves(case: Case) -> Iterator[Case]:
    """Literals replaced by simpler ones or columns, and columns by the first of their family."""
    for path, term in case.term.places():
        if term.arguments or term.fixed:
            continue
        simple = simple_literals(term.family)
        rank = [leaf.text for leaf in simple].index(term.text) if term in simple else len(simple)
        if term.label != COLUMN:
            for leaf in simple[:rank]:
                yield Case(case.term.with_replaced(path, leaf), case.rows)
        elif (first := _columns(case, term.family)[:1]) and first[0].text < term.text:
            yield Case(case.term.with_replaced(path, first[0]), case.rows)


def _columns(case: Case, of: str) -> list[Term]:
    return [column(field.name, of) for field in case.rows.schema if family(field.type) == of]


def _simple_values(case: Case) -> Iterator[Case]:
    """One row with a simpler value in one column."""
    if case.rows.num_rows != 1:
        return
    for name in case.term.columns():
        place = case.rows.schema.get_field_index(name)
        kind = case.rows.schema.field(place).type
        value = plain_values(case.rows.column(place))[0]
        for simple in [None, *simple_values(kind)]:
            if repr(simple) == repr(value):
                break
            arrays = list(case.rows.columns)
            arrays[place] = array_of([simple], kind)
            yield Case(case.term, pa.record_batch(arrays, schema=case.rows.schema))
