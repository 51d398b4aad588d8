"""The fuzzer against real Spark: it agrees with itself on simple forms, and catches a function that is planted wrong.

The pure twins are tests/unit/bench/fuzz.
"""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stretto.bench.fuzz import aggregates as grouping
from stretto.bench.fuzz import fuzzing, ours
from stretto.bench.fuzz.alone import Alone
from stretto.bench.fuzz.answers import Answered, Failure, Refused, same
from stretto.bench.fuzz.columns import random_rows, schema
from stretto.bench.fuzz.documented import MODES
from stretto.bench.fuzz.findings import Report
from stretto.bench.fuzz.forms import all_forms
from stretto.bench.fuzz.fuzzing import Setup
from stretto.bench.fuzz.judging import judge
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.sparks import FAILED, Mode, SparkOracle
from stretto.bench.fuzz.terms import literal
from stretto.expressions.functions import FUNCTIONS

FORMS = ("IS NULL", "IS NOT NULL", "length", "rtrim", "isnull")


@pytest.fixture
def few_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small vocabulary, in which everything agrees."""
    few = [form for form in all_forms() if form.label in FORMS and form.arity == 1]
    monkeypatch.setattr(fuzzing, "all_forms", lambda: few)


def run(spark: SparkSession, seed: int = 1, expressions: int = 60) -> Report:
    report = fuzzing.run(spark, Setup(expressions, seed))
    report.seconds = 0.0
    return report


def test_values_nulls_failures_and_refusals_are_told_apart(spark: SparkSession) -> None:
    rows = pa.record_batch({"i": pa.array([0, None, 2], pa.int32()), "s": pa.array(["1", "x", None])})
    texts = ["10 div i", "i +", "no_such(i)", "cast(s as int)", "struct(i, s)", "interval 1 month", "null"]
    found = SparkOracle(spark).answers(texts, rows)
    kinds = [each.kind if isinstance(each, Answered) else "" for each in found]
    assert kinds == ["bigint", "", "", "int", "struct<i:int,s:string>", "interval month", "void"]
    first, fourth = found[0], found[3]
    assert isinstance(first, Answered)
    assert [isinstance(row, Failure) for row in first.rows] == [True, False, False]
    assert first.rows[1:] == [None, 5]
    assert isinstance(fourth, Answered)
    assert [isinstance(row, Failure) for row in fourth.rows] == [False, True, False]
    assert isinstance(found[1], Refused)
    assert isinstance(found[2], Refused)


def test_a_constant_that_fails_is_left_out_in_a_branch(spark: SparkSession) -> None:
    """In `if(false, 0, <it>)` Spark answers what fails in a query of its own, and in the wrapping of others."""
    oracles = {mode: SparkOracle(spark.newSession(), mode=mode) for mode in Mode}
    rows = pa.record_batch({"n": pa.array([1, None, 3], pa.int64())})
    text = "if(1 = 'U', n, 2) + if(n = 1, NULL, NULL)"
    for mode in Mode:
        assert oracles[mode].answers([text], rows) == [Answered("bigint", [FAILED] * 3)]
    alone = Alone(oracles)
    assert alone.in_branches(Case(literal(text, ""), rows)) == Answered("bigint", [None] * 3)
    assert ours.answer(text, rows) == Answered("bigint", [None] * 3)
    assert alone.in_branches(Case(literal("n div 0 + n", ""), rows)) == Answered("bigint", [FAILED, None, FAILED])


def test_a_cast_that_sparks_optimizer_leaves_out_of_an_aggregate_is_named(spark: SparkSession) -> None:
    """It makes double(n) of double(float(n)), which is another number."""
    rows = pa.record_batch({"n": pa.array([16_777_217, 3], pa.int64()), "r": pa.array([0, 1], pa.int64())})
    term = grouping.grouped(literal("sum(double(float(n)))", "double"), [])
    mine = grouping.our_answer(term, rows)
    (theirs,) = grouping.spark_answers(SparkOracle(spark.newSession()), [term], [mine], rows)
    assert judge(term, mine, theirs).disagreement is not None
    fuzzed = fuzzing._Fuzzing(spark, Setup(1), lambda text, share: None, lambda finding: None)
    verdict = fuzzed._judged_aggregate(term, mine, theirs, rows)
    assert (verdict.disagreement, verdict.documented) == (None, (MODES,))


def test_equal_seeds_find_the_same(spark: SparkSession, few_forms: None) -> None:
    first, second = run(spark, 3), run(spark, 3)
    assert first.as_dict() == second.as_dict()
    assert first.answers_compared > 500


def test_a_planted_fault_is_caught_and_made_small(
    spark: SparkSession, few_forms: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = run(spark)
    assert healthy.findings == []
    monkeypatch.setitem(FUNCTIONS, "rtrim", FUNCTIONS["lower"])
    # rtrim takes values of two dozen types, and the fault shows in the texts of a few: it takes some expressions more.
    report = run(spark, expressions=400)
    assert {found.head.split("(")[0] for found in report.findings} == {"rtrim"}
    found = next(found for found in report.findings if found.expression == "rtrim(s)")
    assert found.shape == "rtrim(string)"
    (row,) = spark.sql(found.select).collect()
    assert repr(row[0]) == found.sparks
    assert found.ours != found.sparks


def test_a_query_leaves_no_memory_outside_of_javas_heap(spark: SparkSession) -> None:
    """A few megabytes for each would end a run of 100,000 expressions after a third of it."""
    jvm = spark._jvm
    assert jvm is not None
    arrow = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = arrow.getAllocatedMemory()
    answers = SparkOracle(spark.newSession()).answers(["n + 1", "n div 0"], pa.record_batch({"n": pa.array([1, 2])}))
    assert answers == [Answered("bigint", [2, 3]), Answered("bigint", [FAILED] * 2)]
    assert arrow.getAllocatedMemory() == before


def test_all_rows_reach_spark_as_they_are(spark: SparkSession) -> None:
    rows = random_rows(schema(), 40, Random(7))
    oracle = SparkOracle(spark)
    back = oracle.answers([field.name for field in rows.schema], rows)
    for field, sparks in zip(rows.schema, back, strict=True):
        mine = ours.answer(field.name, rows)
        assert isinstance(sparks, Answered), field
        assert isinstance(mine, Answered)
        assert mine.kind == sparks.kind
        assert same(mine.rows, sparks.rows), field


def test_an_interrupt_ends_with_what_was_found_so_far(spark: SparkSession, few_forms: None) -> None:
    def interrupt(what: str, share: float) -> None:
        if what == "comparing expressions":
            raise KeyboardInterrupt

    report = fuzzing.run(spark, Setup(60, 1), interrupt)
    assert report.interrupted
    assert report.expressions == 60
    assert report.aggregates == 0
