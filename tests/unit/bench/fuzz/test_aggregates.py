"""Random aggregates: what they are made of, and how stretto's side answers them. Spark's side is in tests/spark."""

from __future__ import annotations

from random import Random

import pyarrow as pa

from stretto.bench.fuzz.aggregate_forms import aggregate_forms
from stretto.bench.fuzz.aggregates import AggregateGenerator, aggregate_rows, grouped, in_order, our_answer
from stretto.bench.fuzz.answers import Answered, Refused
from stretto.bench.fuzz.columns import schema
from stretto.bench.fuzz.findings import select_text
from stretto.bench.fuzz.forms import calls_of
from stretto.bench.fuzz.generator import Generator
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.terms import Term, column
from stretto.bench.fuzz.vocabulary import explore
from stretto.expressions.aggregate_functions import FUNCTIONS

SCHEMA = schema()
SUM = Term("sum", ("sum(", ")"), (column("i", "int"),))


def test_terms_are_accepted_and_equal_for_equal_seeds() -> None:
    vocabulary = explore(calls_of("isnull"), SCHEMA, Random(1))
    rows = aggregate_rows(SCHEMA, 30, Random(2))
    made = []
    for _ in range(2):
        rng = Random(3)
        generator = AggregateGenerator(Generator(vocabulary, rng), rows.schema, rng)
        keys = generator.keys()
        terms = [generator.term(keys) for _ in range(10)]
        assert not any(isinstance(our_answer(term, rows), Refused) for term in terms)
        made.append([term.text for term in terms])
    assert made[0] == made[1]


def test_every_aggregate_of_the_registry_is_made() -> None:
    assert {form.label for form in aggregate_forms()} == FUNCTIONS.keys()
    rows = aggregate_rows(SCHEMA, 30, Random(2))
    vocabulary = explore(calls_of("isnull"), SCHEMA, Random(1))
    for form in aggregate_forms():
        rng = Random(4)
        generator = AggregateGenerator(Generator(vocabulary, rng), rows.schema, rng, [form])
        generator.term([])
        generator.term([])
        assert generator.refused == set(), form


def test_clauses_and_keys_vary() -> None:
    rng = Random(5)
    vocabulary = explore(calls_of("isnull"), SCHEMA, Random(1))
    generator = AggregateGenerator(Generator(vocabulary, rng), aggregate_rows(SCHEMA, 30, Random(2)).schema, rng)
    texts = [generator.term(generator.keys()).text for _ in range(60)]
    assert any("DISTINCT" in text for text in texts)
    assert any("FILTER (WHERE" in text for text in texts)
    assert any(" BY " not in text for text in texts)


def test_the_last_row_of_each_key_counts() -> None:
    rows = pa.record_batch({"i": pa.array([1, 2, None, 4], pa.int32()), "s": ["a", "b", "a", None], "r": [0, 1, 2, 3]})
    answer = our_answer(grouped(SUM, [column("s", "string")]), rows)
    assert answer == Answered("bigint", [("a", 1), ("b", 2), (None, 4)])


def test_keys_that_spark_groups_together_are_one() -> None:
    assert in_order([(-0.0, 1)], 1) == in_order([(0.0, 1)], 1)


def test_an_unknown_aggregate_is_refused() -> None:
    rows = aggregate_rows(SCHEMA, 3, Random(1))
    unknown = Term("no_such", ("no_such(", ")"), (column("i", "int"),))
    assert isinstance(our_answer(grouped(unknown, [column("s", "string")]), rows), Refused)


def test_a_case_is_shown_with_its_group_by() -> None:
    rows = pa.record_batch({"i": pa.array([7], pa.int32()), "s": ["a"], "r": [0]})
    shown = select_text(Case(grouped(SUM, [column("s", "string")]), rows))
    assert shown == (
        "SELECT s, sum(i) FROM VALUES (CAST('7' AS int), 'a', CAST('0' AS bigint)) AS t(i, s, r) GROUP BY s"
    )
