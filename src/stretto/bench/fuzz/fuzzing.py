"""Runs the fuzzer: rounds of random rows and expressions, answered by both sides, compared and made small."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stretto.bench.fuzz import aggregates as grouping
from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregate_forms import aggregate_forms
from stretto.bench.fuzz.answers import Answer, Answered, Refused
from stretto.bench.fuzz.columns import random_rows, schema
from stretto.bench.fuzz.findings import Report
from stretto.bench.fuzz.forms import Form, all_forms
from stretto.bench.fuzz.generator import Generator
from stretto.bench.fuzz.judging import Disagreement, Verdict, judge, judge_kind
from stretto.bench.fuzz.shrinking import Case, StillWrong, shrink_all
from stretto.bench.fuzz.sparks import SparkOracle
from stretto.bench.fuzz.terms import Term
from stretto.bench.fuzz.vocabulary import Refusal, Vocabulary, explore
from stretto.expressions.functions import FUNCTIONS
from stretto.expressions.zones import in_zone, zone_named

ROUND = 400
"""Expressions that share their rows and their query."""
ROWS = 16
AGGREGATES_SHARE = 0.05
"""Aggregates for each expression."""
AGGREGATES_ROUND, AGGREGATE_ROWS = 12, 60
REFUSALS_ASKED_MAX = 600
FILLINGS = 3
"""Arguments of a signature that Spark is asked about before the signature counts as refused."""

Progress = Callable[[str, float], None]
Judged = Callable[[Sequence[Case]], list[Verdict]]
Wrong = tuple[Case, Disagreement]


@dataclass(frozen=True, slots=True)
class Setup:
    """What to run: the number of expressions, the seed, the session's time zone, and the forms if not all."""

    expressions: int = 10_000
    seed: int = 1
    timezone: str = "UTC"
    only: tuple[str, ...] = ()

    def forms(self) -> list[Form]:
        """Returns the forms that expressions are made of."""
        return [form for form in all_forms() if not self.only or form.label in self.only]

    def aggregate_calls(self) -> list[Form]:
        """Returns the calls that aggregates are made of."""
        return [form for form in aggregate_forms() if not self.only or form.label in self.only]


def run(spark: SparkSession, setup: Setup, progress: Progress = lambda what, share: None) -> Report:
    """Returns what was found. Equal setups give equal expressions and rows."""
    with in_zone(zone_named(setup.timezone)):
        return _Fuzzing(spark, setup, progress).run()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Cases with stretto's answers, and Spark's answers for the cases at some places, which may be on their way."""

    cases: Sequence[Case]
    mine: list[Answer]
    places: list[int]
    theirs: Future[list[Answer]]

    def verdicts(self) -> list[Verdict]:
        found = [Verdict()] * len(self.cases)
        for place, answer in zip(self.places, self.theirs.result(), strict=True):
            found[place] = judge(self.cases[place].term, self.mine[place], answer)
        return found


def _at_once(answer: Callable[..., list[Answer]], *arguments: Any) -> Future[list[Answer]]:
    done: Future[list[Answer]] = Future()
    done.set_result(answer(*arguments))
    return done


class _Fuzzing:
    def __init__(self, spark: SparkSession, setup: Setup, progress: Progress) -> None:
        self._setup = setup
        self._progress = progress
        self._oracle = SparkOracle(spark, setup.timezone)
        self._optimized = SparkOracle(spark.newSession(), setup.timezone, optimized=True)
        self._schema = schema()
        self._report = Report(setup.seed, setup.timezone, functions=len(FUNCTIONS))

    def run(self) -> Report:
        began = time.monotonic()
        vocabulary = explore(
            self._setup.forms(),
            self._schema,
            self._rng("vocabulary"),
            lambda share: self._progress("trying arguments", share),
        )
        self._report.never_exercised = vocabulary.never
        self._leave_wrong(vocabulary)
        if vocabulary.signatures:
            self._expressions(vocabulary)
        self._aggregates(vocabulary)
        self._refusals(vocabulary.refusals)
        self._report.seconds = round(time.monotonic() - began, 1)
        return self._report

    def _rng(self, *names: object) -> Random:
        return Random("/".join(map(str, (self._setup.seed, *names))))

    def _leave_wrong(self, vocabulary: Vocabulary) -> None:
        """Reports the signatures that Spark refuses or gives another type, and leaves them out.

        With them, most of what is made of them would be refused."""
        rng = self._rng("signatures")
        rows = random_rows(self._schema, 1, rng)
        left = [(form, each) for form, signatures in vocabulary.signatures.items() for each in signatures]
        wrong: list[tuple[Case, Disagreement]] = []
        for filling in range(FILLINGS):  # Of some constants, only a few may be accepted.
            self._progress("comparing types", filling / FILLINGS)
            terms = [form.of(vocabulary.filled(signature.slots, rng), signature.result) for form, signature in left]
            verdicts = self._typed(terms, rows)
            found = [each for each in zip(left, terms, verdicts, strict=True) if each[2]]
            left = [pair for pair, _, _ in found]
            wrong = [(Case(term, rows), each) for _, term, each in found if each]
        for form, signature in left:
            vocabulary.remove(form, signature)
        for case, disagreement in wrong:
            self._report.add(case, disagreement, case.term.text)

    def _typed(self, terms: Sequence[Term], rows: pa.RecordBatch) -> list[Disagreement | None]:
        """Returns how the types of terms disagree, without evaluating them."""
        mine = [ours.kind(term.text, rows.schema) for term in terms]
        theirs = self._oracle.kinds([term.text for term in terms], rows)
        return [None if here is None else judge_kind(here, there) for here, there in zip(mine, theirs, strict=True)]

    def _expressions(self, vocabulary: Vocabulary) -> None:
        total = self._setup.expressions
        crashed = [refusal.term for refusal in vocabulary.crashes]
        with ThreadPoolExecutor(1) as pool:
            waiting: _Asked | None = None
            for start in range(0, total, ROUND):
                # While Spark answers a round, stretto answers the next one.
                asked = self._asked(self._cases(vocabulary, start, crashed), pool.submit)
                crashed = []
                if waiting is not None:
                    self._answered(waiting)
                waiting = asked
                self._progress("comparing expressions", min(start + ROUND, total) / total)
            if waiting is not None:
                self._answered(waiting)

    def _cases(self, vocabulary: Vocabulary, start: int, more: Sequence[Term]) -> list[Case]:
        """Returns the cases of the round that begins with this expression."""
        rng = self._rng("expressions", start)
        generator = Generator(vocabulary, rng)
        rows = random_rows(self._schema, ROWS, rng)
        terms = [generator.term() for _ in range(min(ROUND, self._setup.expressions - start))]
        self._report.expressions += len(terms)
        return [Case(term, rows) for term in (*terms, *more)]

    def _answered(self, asked: _Asked) -> None:
        verdicts = asked.verdicts()
        self._note(asked.mine, verdicts)
        self._settle(asked.cases, self._judged, verdicts)

    def _judged(self, cases: Sequence[Case]) -> list[Verdict]:
        """Returns the verdicts on cases: those of all cases over the rows of all, in one query."""
        return self._asked(cases, _at_once).verdicts()

    def _asked(self, cases: Sequence[Case], submit: Callable[..., Any]) -> _Asked:
        """Returns stretto's answers for cases, and those of Spark that are to come for what stretto does not refuse."""
        mine = [ours.answer(case.term.text, case.rows) for case in cases]
        asked = [place for place, each in enumerate(mine) if not isinstance(each, Refused) or each.crash]
        return _Asked(cases, mine, asked, submit(self._sparks, [cases[place] for place in asked]))

    def _sparks(self, cases: Sequence[Case], optimized: bool = False) -> list[Answer]:
        if not cases:
            return []
        starts: dict[int, int] = {}
        batches: list[pa.RecordBatch] = []
        for case in cases:
            if id(case.rows) not in starts:
                starts[id(case.rows)] = sum(batch.num_rows for batch in batches)
                batches.append(case.rows)
        table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        texts = list(dict.fromkeys(case.term.text for case in cases))
        oracle = self._optimized if optimized else self._oracle
        answers = dict(zip(texts, oracle.answers(texts, table), strict=True))
        return [_of_rows(answers[case.term.text], starts[id(case.rows)], case.rows.num_rows) for case in cases]

    def _note(self, mine: Sequence[Answer], verdicts: Sequence[Verdict]) -> None:
        for answer, verdict in zip(mine, verdicts, strict=True):
            if isinstance(answer, Refused):
                self._report.note_refusal(answer.reason)
                continue
            self._report.answers_compared += len(answer.rows)
            self._report.agreed += verdict.disagreement is None
            for meant in verdict.documented:
                self._report.documented[meant.name] += 1

    def _settle(self, cases: Sequence[Case], judged: Judged, verdicts: Sequence[Verdict]) -> None:
        """Makes what disagrees small, and reports it."""
        wrong = [
            (case, verdict.disagreement) for case, verdict in zip(cases, verdicts, strict=True) if verdict.disagreement
        ]
        if not wrong:
            return

        wrong = self._without_known(self._confirmed(wrong), judged)

        def still_wrong(candidates: list[tuple[int, Case]]) -> list[bool]:
            found = judged([case for _, case in candidates])
            return [_is_like(wrong[number][1], verdict) for (number, _), verdict in zip(candidates, found, strict=True)]

        small = shrink_all(_started(wrong, still_wrong), still_wrong)
        verdicts = judged(small)
        inner = iter(judged([Case(term, case.rows) for case in small for term in case.term.inner()]))
        for (case, disagreement), smaller, verdict in zip(wrong, small, verdicts, strict=True):
            meant = [known for _ in smaller.term.inner() for known in next(inner).documented]
            if meant:
                # What differs as documented within an expression may make it differ in any way.
                self._report.documented[meant[0].name] += 1
            else:
                self._report.add(smaller, verdict.disagreement or disagreement, case.term.text)

    def _confirmed(self, wrong: Sequence[Wrong]) -> list[Wrong]:
        """Returns what differs from all answers that Spark itself has.

        Spark has two: with and without its optimizer, which leaves out what needs not be evaluated and could fail. And
        a map's builder keeps the entries of a row that failed, so such rows are asked about alone."""
        asked = [number for number, (case, _) in enumerate(wrong) if not _is_aggregate(case)]
        answers = self._sparks([wrong[number][0] for number in asked], optimized=True)
        agreed = {number for number, answer in zip(asked, answers, strict=True) if _agrees(wrong[number][0], answer)}
        for number in set(asked) - agreed:
            case, found = wrong[number]
            alone = Case(case.term, case.rows.slice(found.row or 0, 1))
            if "map" in case.term.text and _agrees(alone, self._oracle.answers([case.term.text], alone.rows)[0]):
                agreed.add(number)
        self._report.agreed += len(agreed)
        return [each for number, each in enumerate(wrong) if number not in agreed]

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

    # Aggregates

    def _aggregates(self, vocabulary: Vocabulary) -> None:
        calls = self._setup.aggregate_calls()
        total = int(self._setup.expressions * AGGREGATES_SHARE) if calls else 0
        refused: set[Form] = set()
        for start in range(0, total, AGGREGATES_ROUND):
            rng = self._rng("aggregates", start)
            rows = grouping.aggregate_rows(self._schema, AGGREGATE_ROWS, rng)
            generator = grouping.AggregateGenerator(Generator(vocabulary, rng), rows.schema, rng, calls)
            generator.refused = refused
            keys = generator.keys()
            terms = [generator.term(keys) for _ in range(min(AGGREGATES_ROUND, total - start))]
            cases = [Case(term, rows) for term in terms]
            mine = [grouping.our_answer(term, rows) for term in terms]
            theirs = grouping.spark_answers(self._oracle, terms, rows)
            verdicts = [judge(*each) for each in zip(terms, mine, theirs, strict=True)]
            self._note(mine, verdicts)
            self._settle(cases, self._judged_aggregates, verdicts)
            self._report.aggregates += len(terms)
            self._progress("comparing aggregates", (start + len(terms)) / total)
        accepted = {form.label for form in calls if form not in refused}
        never = [f"aggregate {label}" for label in sorted({form.label for form in refused} - accepted)]
        self._report.never_exercised = [*self._report.never_exercised, *never]

    def _judged_aggregates(self, cases: Sequence[Case]) -> list[Verdict]:
        """Returns the verdicts on aggregates; those of the same rows and keys are asked in one query."""
        verdicts = [Verdict()] * len(cases)
        together: dict[tuple[Any, ...], list[int]] = {}
        mine = [grouping.our_answer(case.term, case.rows) if _is_aggregate(case) else None for case in cases]
        for place, (case, answer) in enumerate(zip(cases, mine, strict=True)):
            if answer is not None and (not isinstance(answer, Refused) or answer.crash):
                together.setdefault((id(case.rows), *case.term.arguments[1:]), []).append(place)
        for places in together.values():
            terms = [cases[place].term for place in places]
            theirs = grouping.spark_answers(self._oracle, terms, cases[places[0]].rows)
            for place, answer in zip(places, theirs, strict=True):
                own = mine[place]
                assert own is not None
                verdicts[place] = judge(cases[place].term, own, answer)
        return verdicts

    # Refusals

    def _refusals(self, refusals: Sequence[Refusal]) -> None:
        """Asks Spark about a sample of what stretto refuses."""
        rng = self._rng("refusals")
        count = min(len(refusals), REFUSALS_ASKED_MAX, self._setup.expressions)
        asked = rng.sample(list(refusals), count)
        rows = random_rows(self._schema, 1, rng)
        answers = self._oracle.kinds([refusal.term.text for refusal in asked], rows)
        for refusal, answer in zip(asked, answers, strict=True):
            if not isinstance(answer, Refused):
                self._report.note_accepted_by_spark(refusal.reason, refusal.term.text)


def _of_rows(answer: Answer, start: int, count: int) -> Answer:
    if isinstance(answer, Refused) or not answer.comparable:
        return answer
    return Answered(answer.kind, answer.rows[start : start + count])


def _started(wrong: Sequence[tuple[Case, Disagreement]], still_wrong: StillWrong) -> list[Case]:
    """Returns the cases with the row that disagrees alone, where that is enough to see it."""
    alone = [Case(case.term, case.rows.slice(each.row or 0, 1)) for case, each in wrong]
    enough = still_wrong(list(enumerate(alone)))
    return [single if holds else case for single, holds, (case, _) in zip(alone, enough, wrong, strict=True)]


def _agrees(case: Case, answer: Answer) -> bool:
    return judge(case.term, ours.answer(case.term.text, case.rows), answer).disagreement is None


def _is_aggregate(case: Case) -> bool:
    return case.term.label == grouping.GROUPED


def _is_like(known: Disagreement, verdict: Verdict) -> bool:
    return verdict.disagreement is not None and verdict.disagreement.kind is known.kind
