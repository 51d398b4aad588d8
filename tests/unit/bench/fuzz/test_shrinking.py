"""Disagreements are made small: the expression, the rows and the values. No Spark: a predicate plays the judge."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from stretto.bench.fuzz.columns import random_rows, schema
from stretto.bench.fuzz.findings import select_text
from stretto.bench.fuzz.plain import array_of, plain_values
from stretto.bench.fuzz.shrinking import Case, StillWrong, shrink_all
from stretto.bench.fuzz.terms import Term, column, literal

SCHEMA = schema()
ROWS = random_rows(SCHEMA, 12, Random(4))


def call(name: str, *arguments: Term, of: str = "int") -> Term:
    return Term(name, (f"{name}(", *[", "] * (len(arguments) - 1), ")"), arguments, of)


DEEP = call(
    "concat",
    call("upper", call("lower", column("s2", "string"), of="string"), of="string"),
    call("string", call("abs", call("least", column("i2", "int"), literal("77", "int")))),
    of="string",
)


def judge(is_wrong: object) -> StillWrong:
    assert callable(is_wrong)
    return lambda candidates: [bool(is_wrong(case)) for _, case in candidates]


def shrunk(term: Term, is_wrong: object, rows: pa.RecordBatch = ROWS) -> Case:
    (case,) = shrink_all([Case(term, rows)], judge(is_wrong))
    return case


def test_the_wrong_part_remains_with_a_leaf_and_a_row() -> None:
    case = shrunk(DEEP, lambda case: any(node.label == "abs" for node in case.term.nodes()))
    assert case.term.text == "abs(i)"
    assert case.rows.num_rows == 1
    assert plain_values(case.rows.column("i")) == [None]


def test_values_become_as_simple_as_the_disagreement_allows() -> None:
    def is_wrong(case: Case) -> bool:
        values = [each for each in plain_values(case.rows.column("s2")) if each is not None]
        return "lower(s2)" in case.term.text and any(len(each) > 0 for each in values)

    case = shrunk(DEEP, is_wrong)
    assert case.term.text == "lower(s2)"
    assert plain_values(case.rows.column("s2")) == ["a"]


def test_two_rows_stay_if_both_are_needed() -> None:
    case = shrunk(DEEP, lambda case: case.rows.num_rows >= 2)
    assert case.rows.num_rows in (2, 3)


def test_what_cannot_be_made_smaller_stays() -> None:
    case = Case(DEEP, ROWS)
    assert shrink_all([case], judge(lambda candidate: False)) == [case]


def test_cases_are_made_small_side_by_side() -> None:
    asked: list[int] = []

    def still_wrong(candidates: list[tuple[int, Case]]) -> list[bool]:
        asked.append(len({number for number, _ in candidates}))
        wanted = {0: "abs", 1: "upper"}
        return [any(node.label == wanted[number] for node in case.term.nodes()) for number, case in candidates]

    small = shrink_all([Case(DEEP, ROWS), Case(DEEP, ROWS)], still_wrong)
    assert [case.term.text for case in small] == ["abs(i)", "upper(s)"]
    assert max(asked) == 2


def test_a_case_is_shown_as_a_query_that_can_be_pasted() -> None:
    arrays = {"x": [float("nan")], "d": [None], "s": ["it's\n"], "t": [-1], "dt": [3], "ai": [[1, None]]}
    columns = [array_of(values, SCHEMA.field(name).type) for name, values in arrays.items()]
    rows = pa.record_batch(columns, schema=pa.schema([SCHEMA.field(name) for name in arrays]))
    term = call("coalesce", *(column(name, "") for name in arrays))
    assert select_text(Case(term, rows)) == (
        "SELECT coalesce(x, d, s, t, dt, ai) FROM VALUES (double('NaN'), CAST(NULL AS decimal(10,2)), 'it\\'s\\n', "
        "timestamp_micros(-1), date_from_unix_date(3), CAST(array(CAST('1' AS int), CAST(NULL AS int)) AS array<int>)) "
        "AS t(x, d, s, t, dt, ai)"
    )
