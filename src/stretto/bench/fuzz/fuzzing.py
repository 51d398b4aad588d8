"""Runs the fuzzer: rounds of random rows and expressions, answered by both sides, compared and made small."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from stretto.bench.fuzz import aggregates as grouping
from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregate_forms import aggregate_forms
from stretto.bench.fuzz.alone import Alone
from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused
from stretto.bench.fuzz.columns import random_rows, schema
from stretto.bench.fuzz.divisions import with_other_divisions
from stretto.bench.fuzz.documented import DIVIDED, MODES, ORDER
from stretto.bench.fuzz.findings import Finding, Report
from stretto.bench.fuzz.forms import Form, all_forms
from stretto.bench.fuzz.generator import Generator
from stretto.bench.fuzz.judging import Disagreement, Kind, Verdict, judge, judge_kind
from stretto.bench.fuzz.nearness import with_near
from stretto.bench.fuzz.ours import Unfinished
from stretto.bench.fuzz.settling import Settling, Wrong
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.sparks import Mode, SparkOracle
from stretto.bench.fuzz.terms import Term
from stretto.bench.fuzz.vocabulary import Refusal, Vocabulary, explore
from stretto.expressions.functions import FUNCTIONS
from stretto.expressions.zones import in_zone, zone_named

ROUND = 400
"""Expressions that share their rows and their query."""
ROWS = 16
AGGREGATES_SHARE = 0.05
"""Aggregates for each expression."""
AGGREGATES_ROUND, AGGREGATE_ROWS = 24, 60
REFUSALS_ASKED_MAX = 200
GENERATED_EVERY, GENERATED = 10, 20
"""Of so many rounds, so many expressions of one are asked of Spark's generated code, which costs far more than its
interpreter. Whatever differs from the one is asked of the other, too (`settling.py`)."""
_OTHER_WAYS = (Mode.GENERATED, Mode.EVERY_CAST)
"""Ways in which Spark may have another answer for an aggregate: its interpreter and its generated code differ in
levenshtein('b', 'a', NULL), and its optimizer makes double(n) of double(float(n)), which is another number."""
SETTLED_TOGETHER = 30
"""Disagreements that are made small side by side, since each step of it is a query."""
FILLINGS = 3
"""Arguments of a signature that Spark is asked about before the signature counts as refused."""

Progress = Callable[[str, float], None]
Found = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """What to run: the number of expressions, the seed, the session's time zone, and the forms if not all.

    Several processes can share a run: each asks about every n-th round from its own first one (`part` of `parts`, from
    1). Together they try the expressions of the whole run, and as many aggregates."""

    expressions: int = 10_000
    seed: int = 1
    timezone: str = "UTC"
    only: tuple[str, ...] = ()
    part: int = 1
    parts: int = 1

    def forms(self) -> list[Form]:
        """Returns the forms that expressions are made of."""
        return [form for form in all_forms() if not self.only or form.label in self.only]

    def starts(self, total: int, size: int) -> range:
        """Returns where the rounds of this part begin."""
        return range((self.part - 1) * size, total, self.parts * size)

    def aggregate_calls(self) -> list[Form]:
        """Returns the calls that aggregates are made of."""
        return [form for form in aggregate_forms() if not self.only or form.label in self.only]


def run(
    spark: SparkSession,
    setup: Setup,
    progress: Progress = lambda what, share: None,
    found: Found = lambda finding: None,
) -> Report:
    """Returns what was found; a Ctrl-C ends the run with what was found so far. Equal setups give equal expressions and
    rows. `found` is called with each finding at once."""
    with in_zone(zone_named(setup.timezone)):
        return _Fuzzing(spark, setup, progress, found).run()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Cases with stretto's answers, and Spark's answers for the cases at some places, which may be on their way."""

    cases: Sequence[Case]
    mine: list[Answer | Unfinished]
    places: list[int]
    theirs: Future[list[Answer]]

    def compared(self) -> tuple[list[Answer], list[Verdict]]:
        """Returns stretto's answers, with the verdicts on them."""
        sparks = dict(zip(self.places, self.theirs.result(), strict=True))
        mine = [_finished(answer, sparks.get(place)) for place, answer in enumerate(self.mine)]
        verdicts = [
            judge(case.term, answer, sparks[place]) if place in sparks else Verdict()
            for place, (case, answer) in enumerate(zip(self.cases, mine, strict=True))
        ]
        return mine, verdicts


def _finished(mine: Answer | Unfinished, sparks: Answer | None) -> Answer:
    """Returns stretto's answer, where Spark's says which rows fail."""
    if not isinstance(mine, Unfinished):
        return mine
    told = sparks.rows if isinstance(sparks, Answered) and sparks.comparable else []
    return mine.finished([isinstance(row, Failure) for row in told] or [True] * mine.rows.num_rows)


def _at_once(answer: Callable[..., list[Answer]], *arguments: Any) -> Future[list[Answer]]:
    done: Future[list[Answer]] = Future()
    done.set_result(answer(*arguments))
    return done


class _Fuzzing:
    def __init__(self, spark: SparkSession, setup: Setup, progress: Progress, found: Found) -> None:
        self._setup = setup
        self._progress = progress
        self._oracles = {mode: SparkOracle(spark.newSession(), setup.timezone, mode) for mode in Mode}
        self._oracle = self._oracles[Mode.EARLY]
        self._schema = schema()
        self._report = Report(setup.seed, setup.timezone, functions=len(FUNCTIONS), found=found)
        alone = Alone(self._oracles)
        self._settling = Settling(self._report, self._sparks, alone.apart, alone.in_branches)
        self._wrong: list[Wrong] = []
        """Disagreements of expressions that are not settled yet."""

    def run(self) -> Report:
        began = time.monotonic()
        try:
            self._compare()
        except KeyboardInterrupt:
            self._report.interrupted = True
            self._report.unsettled = [case.term.text for case, _ in self._wrong]
        self._report.seconds = round(time.monotonic() - began, 1)
        return self._report

    def _compare(self) -> None:
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
        if self._setup.part == 1:
            self._refusals(vocabulary.refusals)

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
        for case, disagreement in wrong if self._setup.part == 1 else ():
            self._report.add(case, disagreement, case.term.text)

    def _typed(self, terms: Sequence[Term], rows: pa.RecordBatch) -> list[Disagreement | None]:
        """Returns how the types of terms disagree, without evaluating them."""
        mine = [ours.kind(term.text, rows.schema) for term in terms]
        theirs = self._oracle.kinds([term.text for term in terms], rows)
        return [None if here is None else judge_kind(here, there) for here, there in zip(mine, theirs, strict=True)]

    def _expressions(self, vocabulary: Vocabulary) -> None:
        total = self._setup.expressions
        crashed = [refusal.term for refusal in vocabulary.crashes] if self._setup.part == 1 else []
        with ThreadPoolExecutor(1) as pool:
            waiting: _Asked | None = None
            for start in self._setup.starts(total, ROUND):
                # While Spark answers a round, stretto answers the next one.
                number = start // ROUND
                generated = GENERATED if number % GENERATED_EVERY == GENERATED_EVERY - 1 else 0
                asked = self._asked(self._cases(vocabulary, start, crashed), pool.submit, generated)
                crashed = []
                if waiting is not None:
                    self._answered(waiting)
                waiting = asked
                self._progress("comparing expressions", min(start + ROUND, total) / total)
            if waiting is not None:
                self._answered(waiting)
        self._settle()

    def _cases(self, vocabulary: Vocabulary, start: int, more: Sequence[Term]) -> list[Case]:
        """Returns the cases of the round that begins with this expression."""
        rng = self._rng("expressions", start)
        generator = Generator(vocabulary, rng)
        rows = random_rows(self._schema, ROWS, rng)
        terms = [generator.term() for _ in range(min(ROUND, self._setup.expressions - start))]
        self._report.expressions += len(terms)
        return [Case(term, rows) for term in (*terms, *more)]

    def _answered(self, asked: _Asked) -> None:
        mine, verdicts = asked.compared()
        self._note(mine, verdicts)
        self._wrong += _disagreements(asked.cases, verdicts)
        if len(self._wrong) >= SETTLED_TOGETHER:
            self._settle()

    def _settle(self) -> None:
        self._settling.settle(self._wrong, self._judged, self._judged)
        self._wrong = []

    def _judged(self, cases: Sequence[Case]) -> list[Verdict]:
        """Returns the verdicts on cases: those of all cases over the rows of all, in one query."""
        return self._asked(cases, _at_once).compared()[1]

    def _asked(self, cases: Sequence[Case], submit: Callable[..., Any], generated: int = 0) -> _Asked:
        """Returns stretto's answers for cases, and those of Spark that are to come for what stretto does not refuse.

        The first so many cases are asked of Spark's generated code."""
        mine = [ours.begun(case.term.text, case.rows) for case in cases]
        asked = [place for place, each in enumerate(mine) if not isinstance(each, Refused) or each.crash]
        first = sum(place < generated for place in asked)
        return _Asked(cases, mine, asked, submit(self._sparks_partly, [cases[place] for place in asked], first))

    def _sparks_partly(self, cases: Sequence[Case], generated: int) -> list[Answer]:
        return [*self._sparks(cases[:generated], Mode.GENERATED), *self._sparks(cases[generated:], Mode.EARLY)]

    def _sparks(self, cases: Sequence[Case], mode: Mode) -> list[Answer]:
        """Returns Spark's answers; cases whose rows have the same columns share their queries."""
        together: dict[tuple[str, ...], list[int]] = {}
        for place, case in enumerate(cases):
            together.setdefault(tuple(case.rows.schema.names), []).append(place)
        found: dict[int, Answer] = {}
        for places in together.values():
            answers = self._sparks_of([cases[place] for place in places], mode)
            found |= dict(zip(places, answers, strict=True))
        return [found[place] for place in range(len(cases))]

    def _sparks_of(self, cases: Sequence[Case], mode: Mode) -> list[Answer]:
        starts: dict[int, int] = {}
        batches: list[pa.RecordBatch] = []
        count = 0
        for case in cases:
            if id(case.rows) not in starts:
                starts[id(case.rows)] = count
                count += case.rows.num_rows
                batches.append(case.rows)
        table = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        texts = list(dict.fromkeys(case.term.text for case in cases))
        answers = dict(zip(texts, self._oracles[mode].answers(texts, table), strict=True))
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

    # Aggregates

    def _aggregates(self, vocabulary: Vocabulary) -> None:
        calls = self._setup.aggregate_calls()
        total = int(self._setup.expressions * AGGREGATES_SHARE) if calls else 0
        refused: set[Form] = set()
        for start in self._setup.starts(total, AGGREGATES_ROUND):
            rng = self._rng("aggregates", start)
            rows = grouping.aggregate_rows(self._schema, AGGREGATE_ROWS, rng)
            generator = grouping.AggregateGenerator(Generator(vocabulary, rng), rows.schema, rng, calls)
            generator.refused = refused
            keys = generator.keys()
            terms = [generator.term(keys) for _ in range(min(AGGREGATES_ROUND, total - start))]
            cases = [Case(term, rows) for term in terms]
            mine = [grouping.our_answer(term, rows) for term in terms]
            theirs = grouping.spark_answers(self._oracle, terms, mine, rows)
            verdicts = [self._judged_aggregate(*each, rows) for each in zip(terms, mine, theirs, strict=True)]
            self._note(mine, verdicts)
            wrong = _disagreements(cases, verdicts)
            self._settling.settle(wrong, self._judged_aggregates, self._judged)
            self._report.aggregates += len(terms)
            self._progress("comparing aggregates", (start + len(terms)) / total)
        accepted = {form.label for form in calls if form not in refused}
        never = [f"aggregate {label}" for label in sorted({form.label for form in refused} - accepted)]
        self._report.never_exercised = [*self._report.never_exercised, *never]

    def _judged_aggregates(self, cases: Sequence[Case]) -> list[Verdict]:
        """Returns the verdicts on aggregates; those of the same rows and keys are asked in one query."""
        verdicts = [Verdict()] * len(cases)
        together: dict[tuple[Any, ...], list[int]] = {}
        mine = [
            grouping.our_answer(case.term, case.rows) if case.term.label == grouping.GROUPED else None for case in cases
        ]
        for place, (case, answer) in enumerate(zip(cases, mine, strict=True)):
            if answer is not None and (not isinstance(answer, Refused) or answer.crash):
                together.setdefault((id(case.rows), *case.term.arguments[1:]), []).append(place)
        for places in together.values():
            terms = [cases[place].term for place in places]
            own = [answer for place in places if (answer := mine[place]) is not None]
            theirs = grouping.spark_answers(self._oracle, terms, own, cases[places[0]].rows)
            for place, answer, sparks in zip(places, own, theirs, strict=True):
                verdicts[place] = self._judged_aggregate(cases[place].term, answer, sparks, cases[place].rows)
        return verdicts

    def _judged_aggregate(self, term: Term, mine: Answer, theirs: Answer, rows: pa.RecordBatch) -> Verdict:
        """Returns the verdict, after a look at what rounding explains, and at Spark's answers for other divisions."""
        verdict = judge(term, mine, theirs)
        if verdict.disagreement is None or verdict.disagreement.kind not in (Kind.VALUE, Kind.FAILS_HERE):
            return verdict
        near = judge(term, mine, with_near(term, rows, mine, theirs))
        if near.disagreement != verdict.disagreement:
            verdict = replace(near, documented=(*near.documented, ORDER))
        if verdict.disagreement is None:
            return verdict
        ask = partial(grouping.spark_answer, self._oracle)
        divided = judge(term, mine, with_other_divisions(term, rows, mine, with_near(term, rows, mine, theirs), ask))
        if divided.disagreement is None:
            return replace(divided, documented=(*verdict.documented, *divided.documented, DIVIDED))
        for mode in _OTHER_WAYS:
            other = judge(term, mine, grouping.spark_answer(self._oracles[mode], term, rows))
            if other.disagreement is None:
                return replace(other, documented=(*other.documented, MODES))
        return verdict

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


def _disagreements(cases: Sequence[Case], verdicts: Sequence[Verdict]) -> list[Wrong]:
    pairs = zip(cases, verdicts, strict=True)
    return [(case, verdict.disagreement) for case, verdict in pairs if verdict.disagreement is not None]
