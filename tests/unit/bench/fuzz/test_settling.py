"""Disagreements are named as documented only after a proof; what is wrong beside a documented difference is reported.

No Spark: answers are made up here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stretto.bench.fuzz import ours
from stretto.bench.fuzz.aggregates import grouped, our_answer
from stretto.bench.fuzz.answers import Answer, Answered, Refused
from stretto.bench.fuzz.clock import with_today
from stretto.bench.fuzz.documented import ANY_BYTES, CLOCK, MODES, PLANNING, SCALES
from stretto.bench.fuzz.findings import Report
from stretto.bench.fuzz.judging import Disagreement, Kind, Verdict, judge
from stretto.bench.fuzz.literals import simple_literals
from stretto.bench.fuzz.settling import Settling, without_constants
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.sparks import FAILED, Mode
from stretto.bench.fuzz.steps import overflows_on_the_way
from stretto.bench.fuzz.terms import Term, column, literal

ROWS = pa.record_batch({"x": pa.array([2.5]), "n": pa.array([1], pa.int64())})


def call(name: str, *arguments: Term, of: str = "double") -> Term:
    return Term(name, (f"{name}(", *[", "] * (len(arguments) - 1), ")"), arguments, of)


def nowhere(case: Case) -> None:
    """A Spark without another answer for single rows."""


class _Sparks:
    """A Spark that answers as stretto does, but for some texts, in some modes."""

    def __init__(self, others: dict[str, Any], only: Mode | None = None) -> None:
        self._others, self._only = others, only

    def asked(self, cases: Sequence[Case], mode: Mode) -> list[Answer]:
        return [self._answer(case, mode) for case in cases]

    def _answer(self, case: Case, mode: Mode) -> Answer:
        answer = ours.answer(case.term.text, case.rows)
        if case.term.text not in self._others or self._only not in (None, mode):
            return answer
        other = self._others[case.term.text]
        assert isinstance(answer, Answered)
        if case.rows.column(0).to_pylist() != [2.5]:  # A case that is made small may have another value.
            return answer
        return other if isinstance(other, Refused) else Answered(answer.kind, [other])

    def judged(self, cases: Sequence[Case]) -> list[Verdict]:
        answers = self.asked(cases, Mode.EARLY)
        pairs = zip(cases, answers, strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]


def settled(term: Term, sparks: _Sparks) -> Report:
    report = Report(1, "UTC")
    case = Case(term, ROWS)
    found = sparks.judged([case])[0].disagreement
    assert found is not None
    Settling(report, sparks.asked, nowhere, nowhere).settle([(case, found)], sparks.judged, sparks.judged)
    return report


TAN = call("tan", column("x", "double"))
SHOWN = Term("cast as string", ("CAST(", " AS string)"), (TAN,), "string")
NEAR = math.nextafter(math.tan(2.5), 0.0)


def test_a_part_that_differs_as_documented_explains_the_whole() -> None:
    report = settled(SHOWN, _Sparks({"tan(x)": NEAR, SHOWN.text: repr(NEAR)}))
    assert report.findings == []
    assert report.documented["transcendental functions within 4 ulp"] == 1


def test_a_part_that_differs_as_documented_does_not_hide_a_wrong_whole() -> None:
    wrong = {"tan(x)": NEAR, SHOWN.text: "0.5", "CAST(sparks AS string)": "0.5"}
    assert len(settled(SHOWN, _Sparks(wrong)).findings) == 1


def test_an_answer_that_spark_has_in_another_mode_is_named() -> None:
    report = settled(TAN, _Sparks({"tan(x)": 7.0}, only=Mode.EARLY))
    assert report.findings == []
    assert report.documented[MODES.name] == 1
    assert len(settled(TAN, _Sparks({"tan(x)": 7.0})).findings) == 1


PLANNED = call("coalesce", column("n", "bigint"), call("length", literal("'b'", "string"), of="int"), of="bigint")


def test_what_fails_in_planning_is_asked_without_constants() -> None:
    refused = Refused("[CAST_INVALID_INPUT]", crash=True)
    plain = without_constants(Case(PLANNED, ROWS))
    assert plain.term.text == "coalesce(n, length(constant2))"
    report = settled(PLANNED, _Sparks({PLANNED.text: refused}))
    assert report.documented[PLANNING.name] == 1
    assert report.findings == []
    both = _Sparks({PLANNED.text: refused, plain.term.text: 7})
    assert [found.kind for found in settled(PLANNED, both).findings] == [Kind.VALUE.value]


def test_a_time_of_today_is_proved_by_its_date() -> None:
    rows = pa.record_batch({"t": pa.array([0], pa.timestamp("us", "UTC")), "s": ["12:34"]})
    term = Term("try_subtract", ("try_subtract(", ", ", ")"), (column("t", "timestamp"), column("s", "string")))
    by_clock = _settled_by(term, rows, lambda dated: ours.answer(term.text, dated.rows))
    assert by_clock.findings == []
    assert by_clock.documented[CLOCK.name] == 1
    assert len(_settled_by(term, rows, lambda dated: Answered("interval day to second", [7])).findings) == 1


def _settled_by(term: Term, rows: pa.RecordBatch, other: Callable[[Case], Answer]) -> Report:
    """Returns what is reported if Spark has another answer for a time alone, made of the case with a date."""

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        dated = [(case, with_today(case)) for case in cases]
        return [ours.answer(case.term.text, case.rows) if named is None else other(named) for case, named in dated]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        pairs = zip(cases, asked(cases, Mode.EARLY), strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    report, case = Report(1, "UTC"), Case(term, rows)
    found = judged([case])[0].disagreement
    assert found is not None
    Settling(report, asked, nowhere, nowhere).settle([(case, found)], judged, judged)
    return report


MAX = 2**63 - 1


def total(name: str, of: str = "n", family: str = "bigint") -> Term:
    return Term("group", ("", ""), (call(name, column(of, family)),))


@pytest.mark.parametrize(
    ("name", "values", "overflows"),
    [
        ("sum", [MAX, 1, -1], True),
        ("sum", [MAX, -1, 1], False),
        ("sum", [MAX, 1, 1], False),
        ("count", [MAX, 1, -1], False),
    ],
)
def test_a_sum_overflows_on_the_way_only_if_its_total_fits(name: str, values: list[int], overflows: bool) -> None:
    rows = pa.record_batch({"n": pa.array(values, pa.int64())})
    assert overflows_on_the_way(total(name), rows) == overflows


def test_decimals_overflow_on_the_way() -> None:
    most = Decimal("9" * 38)
    rows = pa.record_batch({"k": pa.array([most, Decimal(1), Decimal(-1)], pa.decimal128(38, 0))})
    assert overflows_on_the_way(total("sum", "k", "decimal"), rows)


def test_a_disagreement_beside_a_sum_that_overflows_is_no_excuse_for_another_aggregate() -> None:
    rows = pa.record_batch({"n": pa.array([MAX, 1, -1], pa.int64())})
    report = Report(1, "UTC")
    found = Disagreement(Kind.VALUE, [(3,)], [(4,)])

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        return [Verdict(found if case.term.label == "group" else None) for case in cases]

    settling = Settling(report, lambda cases, mode: [], nowhere, nowhere)
    settling.settle([(Case(total("max"), rows), found)], judged, judged)
    assert len(report.findings) == 1


TEXT_OF_BYTES = Term("cast as string", ("CAST(", " AS string)"), (column("bin", "binary"),), "string")
LENGTH = call("length", TEXT_OF_BYTES, of="int")


@pytest.mark.parametrize(
    ("in_spark", "last", "findings"), [("a\udcff", 3, 0), (b"a\xff", 3, 0), ("abc", 3, 1), ("a\udcff", 4, 1)]
)
def test_a_failure_at_bytes_is_named_only_if_spark_has_such_bytes(in_spark: Any, last: int, findings: int) -> None:
    rows = pa.record_batch({"bin": pa.array([b"a\xff", b"abc"])})
    mine, report = ours.answer(LENGTH.text, rows), Report(1, "UTC")
    assert isinstance(mine, Answered)
    found = Disagreement(Kind.FAILS_HERE, mine.rows[0], 2, 0)

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        """Answers for each row whose bytes are those of the first or the last."""
        values = {LENGTH: (2, last), TEXT_OF_BYTES: (in_spark, "abc")}
        return [
            Answered("int", [values.get(case.term, (0, 0))[row == b"abc"] for row in case.rows.column(0).to_pylist()])
            for case in cases
        ]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        pairs = zip(cases, asked(cases, Mode.EARLY), strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    Settling(report, asked, nowhere, nowhere).settle([(Case(LENGTH, rows), found)], judged, judged)
    assert len(report.findings) == findings
    assert report.documented[ANY_BYTES.name] == (not findings)


def test_a_disagreement_is_not_made_small_to_one_that_fails_in_planning() -> None:
    def longest(of: Term) -> Term:
        return Term("group", ("", ""), (call("max", call("length", of, of="int"), of="int"),))

    wrong, planned = longest(SHOWN), longest(simple_literals("string")[0])
    value, failed = Disagreement(Kind.VALUE, [(1,)], [(2,)]), Disagreement(Kind.VALUE, [(1,)], [FAILED])

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        found = {wrong.text: value, planned.text: failed}
        return [Verdict(found.get(case.term.text) if case.term.label == "group" else None) for case in cases]

    report = Report(1, "UTC")
    Settling(report, lambda cases, mode: [], nowhere, nowhere).settle([(Case(wrong, ROWS), value)], judged, judged)
    assert [found.expression for found in report.findings] == [wrong.text]


@pytest.mark.parametrize(("scale", "name"), [(20, SCALES.name), (18, None)])
def test_a_failure_at_a_decimal_of_many_digits_is_proved_by_a_column(scale: int, name: str | None) -> None:
    far = Term(
        f"cast as decimal(20,{scale})", ("CAST(", f" AS decimal(20,{scale}))"), (literal("0.1", "decimal"),), "decimal"
    )
    whole = Term("cast as int", ("CAST(", " AS int)"), (far,), "int")
    # With another text in place of the decimal, Spark has stretto's answer.
    report = settled(whole, _Sparks({whole.text: FAILED}))
    assert report.disagreements == (name is None)
    assert name is None or report.documented[name] == 1


def test_constants_of_an_aggregate_become_columns_where_the_function_around_them_takes_one() -> None:
    inner = call("try_add", literal("','", "string", fixed=True), column("n", "bigint"), of="bigint")
    sequence = call("percentile_approx", inner, literal("1.0", "", fixed=True))
    plain = without_constants(Case(grouped(sequence, [column("x", "double")]), ROWS))
    assert plain.term.text == "percentile_approx(try_add(constant2, n), 1.0) BY x"


def test_constant_calls_of_an_aggregate_become_columns_of_sparks_values() -> None:
    zone = call("try_add", column("x", "double"), call("typeof", column("x", "double"), of="string"))
    term = Term("group", ("", ""), (call("max", zone),))
    plain = Term("group", ("", ""), (call("max", call("try_add", column("x", "double"), column("called2", "string"))),))
    failed = Disagreement(Kind.VALUE, [(1,)], [FAILED])
    seen: list[Any] = []

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        return [Answered("string", ["text of Spark"]) for case in cases]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        seen.extend(case for case in cases if case.term.text == plain.text)
        return [Verdict(failed if case.term == term else None) for case in cases]

    report = Report(1, "UTC")
    Settling(report, asked, nowhere, nowhere).settle([(Case(term, ROWS), failed)], judged, judged)
    assert report.documented[PLANNING.name] == 1
    assert [case.rows.column("called2").to_pylist() for case in seen] == [["text of Spark"]]


@pytest.mark.parametrize(("whole", "findings"), [(7, 0), (8, 1)])
def test_a_null_of_try_at_bytes_is_named_only_if_sparks_value_explains_it(whole: int, findings: int) -> None:
    rows = pa.record_batch({"bin": pa.array([b"a\xff"])})
    place = call("instr", column("bin", "binary"), literal("'a'", "string"), of="int")
    term = call("try_add", place, literal("'4'", "string"), of="bigint")
    replaced = term.with_replaced((0,), column("sparks", "int"))
    known = {place: Answered("int", [3]), term: Answered("bigint", [7]), replaced: Answered("bigint", [whole])}

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        """Answers otherwise than stretto where the bytes are those."""
        return [
            known[case.term]
            if case.term in known and case.rows.column("bin").to_pylist() == [b"a\xff"]
            else ours.answer(case.term.text, case.rows)
            for case in cases
        ]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        pairs = zip(cases, asked(cases, Mode.EARLY), strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    case, report = Case(term, rows), Report(1, "UTC")
    found = judged([case])[0].disagreement
    assert found is not None
    assert found.ours is None
    Settling(report, asked, nowhere, nowhere).settle([(case, found)], judged, judged)
    assert len(report.findings) == findings
    assert report.documented[ANY_BYTES.name] == (not findings)


def test_what_a_failed_row_leaves_in_a_map_is_no_smaller_form_of_another_disagreement() -> None:
    kind = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    rows = pa.record_batch({"e": pa.array([[(1, "x"), (None, "y")], []], kind), "x": [2.5, 2.5]})
    entries = call("map_from_entries", column("e", "array<struct<a:int,b:string>>"), of="map<int,string>")
    size = call("size", entries, of="int")
    wrong = {entries.text: [FAILED, [(1, "x")]], size.text: [FAILED, 5]}

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        kinds = {entries.text: "map<int,string>", size.text: "int"}
        return [
            Answered(kinds[case.term.text], wrong[case.term.text][: case.rows.num_rows])
            if case.term.text in wrong and case.rows.num_rows == 2
            else ours.answer(case.term.text, case.rows)
            for case in cases
        ]

    def apart(case: Case) -> Answer | None:
        answer = ours.answer(case.term.text, case.rows)
        assert isinstance(answer, Answered)
        return answer if case.term == entries else Answered("int", [FAILED, 5])

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        pairs = zip(cases, asked(cases, Mode.EARLY), strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    case, report = Case(size, rows), Report(1, "UTC")
    found = judged([case])[0].disagreement
    assert found is not None
    Settling(report, asked, apart, nowhere).settle([(case, found)], judged, judged)
    assert [each.expression for each in report.findings] == [size.text]


@pytest.mark.parametrize(("third", "findings"), [(b"a\xff", 0), (b"ab", 1)])
def test_a_spoiled_map_is_named_beside_bytes_that_are_not_utf8(third: bytes, findings: int) -> None:
    kind = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    entries = [[(1, "x"), (None, "y")], [], None]
    rows = pa.record_batch({"e": pa.array(entries, kind), "bin": pa.array([b"a", b"a", third])})
    made = call("map_from_entries", column("e", "array<struct<a:int,b:string>>"), of="map<int,string>")
    place = call("instr", column("bin", "binary"), literal("'a'", "string"), of="int")
    term = call("nvl", call("size", made, of="int"), place, of="int")

    def told(case: Case, spoiled: int) -> Answer:
        """Spark's answer, with what the first row leaves in the map of the second, and a value at any bytes."""
        if case.term != term:
            return ours.answer(case.term.text, case.rows)
        values = {None: 7, 0: spoiled, 2: FAILED}
        return Answered("int", [values[None if row is None else len(row)] for row in case.rows["e"].to_pylist()])

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        return [told(case, 1) for case in cases]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        answers = [told(case, 1) for case in cases]
        pairs = zip(cases, answers, strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    case, report = Case(term, rows), Report(1, "UTC")
    found = judged([case])[0].disagreement
    assert found is not None
    Settling(report, asked, lambda case: told(case, 0), nowhere).settle([(case, found)], judged, judged)
    assert (len(report.findings) > 0) == bool(findings)
    assert report.documented[MODES.name] == (not findings)


@pytest.mark.parametrize(("in_branch", "findings"), [(None, 0), (FAILED, 1), (7, 1)])
def test_what_fails_but_in_a_branch_is_named(in_branch: Any, findings: int) -> None:
    """A constant that fails beside a NULL is left out where it is in a branch of a condition."""
    term = Term("+", ("(", " + ", ")"), (column("n", "bigint"), literal("if(n = 1, NULL, NULL)", "void")), "bigint")

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        return [
            Answered("bigint", [FAILED]) if case.term == term else ours.answer(case.term.text, case.rows)
            for case in cases
        ]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        pairs = zip(cases, asked(cases, Mode.EARLY), strict=True)
        return [judge(case.term, ours.answer(case.term.text, case.rows), answer) for case, answer in pairs]

    case, report = Case(term, ROWS), Report(1, "UTC")
    found = judged([case])[0].disagreement
    assert found is not None
    branches = Answered("bigint", [in_branch])
    Settling(report, asked, nowhere, lambda case: branches).settle([(case, found)], judged, judged)
    assert len(report.findings) == findings
    assert report.documented[MODES.name] == 1 - findings


@pytest.mark.parametrize(("optimized", "findings"), [(["a"], 0), ([FAILED], 1), (["b"], 1)])
def test_what_the_optimizer_leaves_out_of_an_aggregate_is_named(optimized: list[Any], findings: int) -> None:
    """max(if(1 = 'U', s, s)) fails here; Spark leaves the condition out of an aggregate, and of nothing else."""
    failing = Term("if", ("if(1 = 'U', ", ", ", ")"), (column("s", "string"), column("s", "string")), "string")
    rows = pa.record_batch({"s": pa.array(["a"]), "r": pa.array([1], pa.int64())})
    term = grouped(Term("max", ("max(", ")"), (failing,), "string"), [])

    def asked(cases: Sequence[Case], mode: Mode) -> list[Answer]:
        made = Answered("string", optimized)
        return [
            made if mode is Mode.OPTIMIZED and case.term == failing else ours.answer(case.term.text, case.rows)
            for case in cases
        ]

    def judged(cases: Sequence[Case]) -> list[Verdict]:
        answers = [our_answer(case.term, case.rows) for case in cases]
        return [judge(case.term, mine, Answered("string", [("a",)])) for case, mine in zip(cases, answers, strict=True)]

    case, report = Case(term, rows), Report(1, "UTC")
    found = judged([case])[0].disagreement
    assert found is not None
    Settling(report, asked, nowhere, nowhere).settle([(case, found)], judged, judged)
    assert len(report.findings) == findings
    assert report.documented[MODES.name] == 1 - findings
