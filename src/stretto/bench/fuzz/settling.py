"""What becomes of disagreements: they are confirmed, told apart from documented ones, made small and reported.

A documented difference is named only after a proof: the expression agrees with another answer that Spark itself gives,
or agrees once the part that differs as documented is replaced by Spark's own value of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregates import GROUPED, our_answer
from stretto.bench.fuzz.answers import Answer, Answered, Failure
from stretto.bench.fuzz.clock import with_today
from stretto.bench.fuzz.documented import (
    ANY_BYTES,
    CLOCK,
    MODES,
    PLANNING,
    SCALES,
    STEPS,
    Documented,
    fails_at_bytes,
    has_other_bytes,
)
from stretto.bench.fuzz.findings import Report
from stretto.bench.fuzz.judging import Disagreement, Kind, Verdict, judge
from stretto.bench.fuzz.plain import array_of
from stretto.bench.fuzz.shrinking import Case, StillWrong, shrink_all
from stretto.bench.fuzz.sparks import FAILED, Mode
from stretto.bench.fuzz.steps import overflows_on_the_way
from stretto.bench.fuzz.terms import COLUMN, DECIMAL, LITERAL, Term, column
from stretto.expressions import compile_scalar

Judged = Callable[[Sequence[Case]], list[Verdict]]
Asked = Callable[[Sequence[Case], Mode], list[Answer]]
"""Returns Spark's answers for expressions in a mode."""
Alone = Callable[[Case], Answer | None]
"""Returns Spark's answer for an expression of which each row is evaluated in a way of its own, if it has one."""
Wrong = tuple[Case, Disagreement]
Part = tuple[tuple[int, ...], Term]
"""A term in another one, with the path to it."""
LONG_SCALE_MAX = 18
"""Digits after the point of the decimals that Spark's arithmetic of longs has powers of ten for."""
_REPLACED = ("string", "int", "bigint", "float", "double", "boolean", "date", "timestamp")
"""Families of constants that become columns, to see what Spark does with what is no constant."""


class Settling:
    """Reports disagreements of expressions and aggregates."""

    def __init__(self, report: Report, asked: Asked, apart: Alone, in_branches: Alone) -> None:
        self._report = report
        self._asked = asked
        self._apart = apart
        self._in_branches = in_branches

    def settle(self, wrong: Sequence[Wrong], judged: Judged, judged_parts: Judged) -> None:
        """Makes what disagrees small, and reports it. Parts of an aggregate are expressions, and judged as such."""
        wrong = self._confirmed(self._planned(wrong, judged), (Mode.OPTIMIZED, Mode.EARLY))
        # Generated code costs most, so it is asked about what is left.
        wrong = self._confirmed(self._without_other_bytes(wrong, judged), (Mode.GENERATED,))
        wrong = self._without_known(self._alone(wrong), judged)
        if not wrong:
            return

        def still_wrong(candidates: list[tuple[int, Case]]) -> list[bool]:
            found = judged([case for _, case in candidates])
            like = [_is_like(wrong[number][1], verdict) for (number, _), verdict in zip(candidates, found, strict=True)]
            cases = [case for _, case in candidates]
            return self._in_no_mode(cases, self._not_planned(cases, found, like, judged))

        small = shrink_all(_started(wrong, still_wrong), still_wrong)
        verdicts = judged(small)
        for (case, disagreement), smaller, verdict in zip(wrong, small, verdicts, strict=True):
            meant = self._explained(smaller, judged, judged_parts)
            if meant is not None:
                self._report.documented[meant.name] += 1
                self._report.agreed += 1
            else:
                self._report.add(smaller, verdict.disagreement or disagreement, case.term.text)

    def _planned(self, wrong: Sequence[Wrong], judged: Judged) -> list[Wrong]:
        """Returns the disagreements; of what fails while Spark plans it, those that remain without constants."""
        left = []
        for case, disagreement in wrong:
            plain = self._without_constants(case) if _may_be_planned(case, disagreement) else case
            if plain.term == case.term:
                left.append((case, disagreement))
                continue
            found = judged([plain])[0].disagreement
            if found is None:
                self._report.documented[PLANNING.name] += 1
                self._report.agreed += 1
            else:
                still = found.kind in (Kind.PLANNING, Kind.REFUSED_BY_SPARK)
                left.append((case, disagreement) if still else (plain, found))
        return left

    def _without_constants(self, case: Case) -> Case:
        """Returns a case in which no constant is left, with Spark's own values of those that are calls: concat()."""
        plain, kept = without_constants(case), 0
        while len(calls := list(_constant_calls(plain))) > kept:
            path, call = calls[kept]
            replaced = self._with_sparks(plain, path, call, f"called{plain.rows.num_columns}")
            if replaced is None or ours.kind(_expression(replaced.term, path).text, replaced.rows.schema) is None:
                kept += 1
            else:
                plain = replaced
        return plain

    def _not_planned(
        self, cases: Sequence[Case], verdicts: Sequence[Verdict], disagree: list[bool], judged: Judged
    ) -> list[bool]:
        """Returns which cases of those that disagree do not so only because Spark fails while it plans them.

        Or else a disagreement would be made small to such a one."""
        left = list(disagree)
        for place, (case, verdict) in enumerate(zip(cases, verdicts, strict=True)):
            if not left[place] or verdict.disagreement is None or not _may_be_planned(case, verdict.disagreement):
                continue
            plain = self._without_constants(case)
            left[place] = plain.term == case.term or judged([plain])[0].disagreement is not None
        return left

    def _confirmed(self, wrong: Sequence[Wrong], modes: Sequence[Mode]) -> list[Wrong]:
        """Returns what differs from the answers that Spark itself has, by how it evaluates an expression."""
        agreed: dict[int, Documented] = {}
        left = [number for number, (case, _) in enumerate(wrong) if not _is_aggregate(case)]
        for mode in modes:
            answers = self._asked([wrong[number][0] for number in left], mode) if left else []
            same = {number for number, answer in zip(left, answers, strict=True) if _agrees(wrong[number][0], answer)}
            agreed |= dict.fromkeys(same, MODES)
            left = [number for number in left if number not in same]
        return self._counted(wrong, agreed)

    def _alone(self, wrong: Sequence[Wrong]) -> list[Wrong]:
        """Returns what differs from Spark's answers too where each row is evaluated alone, or where a sum overflows."""
        agreed: dict[int, Documented] = {}
        for number, (case, found) in enumerate(wrong):
            if _is_aggregate(case):
                if overflows_on_the_way(case.term, case.rows):
                    agreed[number] = STEPS
                continue
            if self._agrees_apart(case) or (found.kind is Kind.FAILS_IN_SPARK and self._agrees_in_branches(case)):
                agreed[number] = MODES
        return self._counted(wrong, agreed)

    def _agrees_in_branches(self, case: Case) -> bool:
        """Whether Spark has our answer if each row of an expression is evaluated in a branch of a condition."""
        answer = self._in_branches(case)
        return answer is not None and _agrees(case, answer)

    def _agrees_apart(self, case: Case) -> bool:
        """Whether Spark has our answer if each row of an expression with a map is evaluated alone, but for rows that
        fail here at bytes which are not UTF-8, if it has such."""
        if "map" not in case.term.text or _is_aggregate(case):
            return False
        rest = self._beside_other_bytes(case)
        alone = self._apart(rest) if rest.rows.num_rows else None
        return alone is not None and _agrees(rest, alone)

    def _counted(self, wrong: Sequence[Wrong], agreed: Mapping[int, Documented]) -> list[Wrong]:
        """Counts the documented differences at some places, and returns the others."""
        for meant in agreed.values():
            self._report.documented[meant.name] += 1
        self._report.agreed += len(agreed)
        return [each for number, each in enumerate(wrong) if number not in agreed]

    def _without_other_bytes(self, wrong: Sequence[Wrong], judged: Judged) -> list[Wrong]:
        """Returns the disagreements without the rows that fail here at bytes which are not UTF-8, if Spark has such."""
        left = []
        for case, found in wrong:
            rest = self._beside_other_bytes(case) if fails_at_bytes(found.ours) else case
            other = found if rest is case else judged([rest])[0].disagreement if rest.rows.num_rows else None
            if other is not None:
                left.append((rest, other))
                continue
            self._report.documented[ANY_BYTES.name] += 1
            self._report.agreed += 1
        return left

    def _beside_other_bytes(self, case: Case) -> Case:
        """Returns a case with the rows that do not fail; the case as it is, if no part of it has such bytes there."""
        aggregate = _is_aggregate(case)
        parts = [Case(part, case.rows) for path, part in case.term.places() if len(path) >= (2 if aggregate else 1)]
        answers = self._asked(parts, Mode.EARLY) if parts else []
        every = [each.rows for each in answers if isinstance(each, Answered) and each.comparable]
        proved = [any(map(has_other_bytes, row)) for row in zip(*every, strict=True)]
        if aggregate:  # It fails as a whole.
            return Case(case.term, case.rows.slice(0, 0)) if any(proved) else case
        mine = ours.answer(case.term.text, case.rows)
        failing = [fails_at_bytes(row) for row in mine.rows] if isinstance(mine, Answered) else []
        if len(proved) != len(failing) or not all(proof for proof, fails in zip(proved, failing, strict=True) if fails):
            return case
        return Case(case.term, case.rows.filter(pa.array([not fails for fails in failing])))

    def _in_no_mode(self, cases: Sequence[Case], disagree: list[bool]) -> list[bool]:
        """Returns which cases of those that disagree do so too with what Spark's optimizer leaves.

        Or else a disagreement would be made small to another one, which is Spark's with itself."""
        asked = [place for place, each in enumerate(disagree) if each and not _is_aggregate(cases[place])]
        answers = self._asked([cases[place] for place in asked], Mode.OPTIMIZED) if asked else []
        found = {place: _judged(cases[place], answer) for place, answer in zip(asked, answers, strict=True)}
        agreed = {place for place, other in found.items() if other is None or self._agrees_apart(cases[place])}
        agreed |= {
            place
            for place, other in found.items()
            if place not in agreed
            and other is not None
            and other.kind is Kind.FAILS_IN_SPARK
            and self._agrees_in_branches(cases[place])
        }
        return [each and place not in agreed for place, each in enumerate(disagree)]

    def _without_known(self, wrong: Sequence[Wrong], judged: Judged) -> list[Wrong]:
        """Returns the disagreements that are not those of a part whose like is known well; such ones are counted."""
        asked = [
            (number, part)
            for number, (case, disagreement) in enumerate(wrong)
            for part in (case.term, *case.term.inner())
            if self._report.knows(disagreement.kind, part)
        ]
        verdicts = judged([Case(part, wrong[number][0].rows) for number, part in asked])
        known: dict[int, Term] = {}
        for (number, part), verdict in zip(asked, verdicts, strict=True):
            if _is_like(wrong[number][1], verdict):
                known[number] = part
        for number, part in known.items():
            self._report.add_known(wrong[number][1].kind, part)
        return [each for number, each in enumerate(wrong) if number not in known]

    def _explained(self, case: Case, judged: Judged, judged_parts: Judged) -> Documented | None:
        """Returns the documented difference of a part of a term that is why the term differs, or None."""
        parts = list(_parts(case.term))
        verdicts = judged_parts([Case(part, case.rows) for _, part in parts])
        for (path, part), verdict in zip(parts, verdicts, strict=True):
            for meant in verdict.documented:
                replaced = self._with_sparks(case, path, part, "sparks")
                if replaced is None:
                    if meant in (ANY_BYTES, CLOCK):  # There is no such value here, so what is made of it differs too.
                        return meant
                elif judged([replaced])[0].disagreement is None:
                    return meant
        return (
            self._of_scales(case, parts, judged)
            or self._of_bytes(case, parts, judged)
            or self._of_clock(case, judged)
            or self._of_generated(case)
            or self._of_optimizer(case, parts, judged)
        )

    def _of_optimizer(self, case: Case, parts: Sequence[Part], judged: Judged) -> Documented | None:
        """Returns the documented difference if a part of an aggregate fails in Spark as it does here, and not when
        Spark optimizes it, as it does in each aggregate."""
        mine = our_answer(case.term, case.rows) if _is_aggregate(case) else None
        failed = isinstance(mine, Answered) and any(isinstance(row, Failure) for row in mine.rows)
        for path, part in parts if failed else ():
            inner = Case(part, case.rows)
            plain = self._asked([inner], Mode.EARLY)[0]
            fails = isinstance(plain, Answered) and any(isinstance(row, Failure) for row in plain.rows)
            replaced = (
                self._with_sparks(case, path, part, "optimized", Mode.OPTIMIZED)
                if fails and _agrees(inner, plain)
                else None
            )
            if replaced is not None and judged([replaced])[0].disagreement is None:
                return MODES
        return None

    def _of_clock(self, case: Case, judged: Judged) -> Documented | None:
        """Returns the documented difference if Spark's answer stays where a time names today, and is ours then."""
        dated = with_today(case)
        if dated is None or _is_aggregate(case) or judged([dated])[0].disagreement is not None:
            return None
        read, named = self._asked([case, dated], Mode.EARLY)
        both = isinstance(read, Answered) and isinstance(named, Answered)
        return CLOCK if both and judge(case.term, read, named).disagreement is None else None

    def _of_generated(self, case: Case) -> Documented | None:
        """Returns the documented difference if Spark's generated code has our answer; within others it may not run."""
        if _is_aggregate(case):
            return None
        return MODES if _agrees(case, self._asked([case], Mode.GENERATED)[0]) else None

    def _of_scales(self, case: Case, parts: Sequence[Part], judged: Judged) -> Documented | None:
        """Returns the documented difference if Spark fails at how it keeps a decimal, and not with a column of it."""
        for path, part in parts:
            kind = compile_scalar(part.text, case.rows.schema).type if part.family == DECIMAL else None
            if kind is None or kind.scale <= LONG_SCALE_MAX:
                continue
            replaced = self._with_sparks(case, path, part, "sparks")
            if replaced is not None and judged([replaced])[0].disagreement is None:
                return SCALES
        return None

    def _of_bytes(self, case: Case, parts: Sequence[Part], judged: Judged) -> Documented | None:
        """Returns the documented difference if a part fails here at bytes that Spark has, and its value explains it."""
        for path, part in parts:
            inner = Case(part, case.rows)
            mine = ours.answer(part.text, case.rows)
            if not isinstance(mine, Answered) or not any(map(fails_at_bytes, mine.rows)):
                continue
            replaced = (
                None if self._beside_other_bytes(inner) is inner else self._with_sparks(case, path, part, "sparks")
            )
            if replaced is not None and judged([replaced])[0].disagreement is None:
                return ANY_BYTES
        return None

    def _with_sparks(
        self, case: Case, path: tuple[int, ...], part: Term, name: str, mode: Mode = Mode.EARLY
    ) -> Case | None:
        """Returns the case with a column of Spark's values in place of a part, or None if Spark has none."""
        answer = self._asked([Case(part, case.rows)], mode)[0]
        if not isinstance(answer, Answered) or not answer.comparable:
            return None
        if any(isinstance(row, Failure) for row in answer.rows):
            return None
        try:
            values = array_of(answer.rows, compile_scalar(part.text, case.rows.schema).type)
        except (pa.ArrowException, UnicodeEncodeError):
            return None
        return Case(case.term.with_replaced(path, column(name, part.family)), _with_column(case.rows, name, values))


def _may_be_planned(case: Case, disagreement: Disagreement) -> bool:
    """Whether Spark fails, and maybe while it plans the query; an error in an aggregate does not tell when."""
    failed = disagreement.sparks == FAILED or disagreement.sparks == [FAILED]
    return disagreement.kind is Kind.PLANNING or (_is_aggregate(case) and failed)


def without_constants(case: Case) -> Case:
    """Returns a case in which literals are columns, but for those that must be constants here."""
    term, rows = case.term, case.rows
    for number, (path, leaf) in enumerate(list(term.places())):
        if leaf.label != LITERAL or leaf.family not in _REPLACED:
            continue
        answer = ours.answer(leaf.text, rows)
        assert isinstance(answer, Answered), leaf
        name = f"constant{number}"
        kind = compile_scalar(leaf.text, rows.schema).type
        wider = _with_column(rows, name, array_of(answer.rows, kind))
        replaced = term.with_replaced(path, column(name, leaf.family))
        if not leaf.fixed or ours.kind(_expression(replaced, path).text, wider.schema) is not None:
            term, rows = replaced, wider
    return Case(term, rows)


def _constant_calls(case: Case) -> Iterator[Part]:
    """Yields the calls in a term that read no column here, the outer ones first, with the paths to them."""
    depth = 2 if case.term.label == GROUPED else 1
    for path, part in case.term.places():
        if len(path) < depth or part.label in (LITERAL, COLUMN) or part.fixed or part.family not in _REPLACED:
            continue
        if ours.kind(part.text, case.rows.schema) and not compile_scalar(part.text, case.rows.schema).columns:
            yield path, part


def _expression(term: Term, path: tuple[int, ...]) -> Term:
    """Returns the expression that a path leads into: the term, or an argument of the call of an aggregate."""
    return term.arguments[path[0]].arguments[path[1]] if term.label == GROUPED and len(path) > 1 else term


def _with_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([*rows.columns, values], schema=rows.schema.append(pa.field(name, values.type)))


def _parts(term: Term) -> Iterator[Part]:
    """Yields the expressions in a term that are no leaves, with the paths to them; the call of an aggregate is none."""
    depth = 2 if term.label == GROUPED else 1
    for path, part in term.places():
        if part.arguments and len(path) >= depth:
            yield path, part


def _started(wrong: Sequence[Wrong], still_wrong: StillWrong) -> list[Case]:
    """Returns the cases with the row that disagrees alone, where that is enough to see it."""
    alone = [Case(case.term, case.rows.slice(each.row or 0, 1)) for case, each in wrong]
    enough = still_wrong(list(enumerate(alone)))
    return [single if holds else case for single, holds, (case, _) in zip(alone, enough, wrong, strict=True)]


def _judged(case: Case, answer: Answer) -> Disagreement | None:
    return judge(case.term, ours.answer(case.term.text, case.rows), answer).disagreement


def _agrees(case: Case, answer: Answer) -> bool:
    return _judged(case, answer) is None


def _is_aggregate(case: Case) -> bool:
    return case.term.label == GROUPED


def _is_like(known: Disagreement, verdict: Verdict) -> bool:
    return verdict.disagreement is not None and verdict.disagreement.kind is known.kind
