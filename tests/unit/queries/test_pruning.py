"""Which segments a question is about: never fewer than those with rows that it is true for."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from stretto.bench.questions.asking import Asking, Names
from stretto.bench.questions.rows import SCHEMA, random_rows
from stretto.expressions import compile_predicate
from stretto.queries.clauses import clauses
from stretto.queries.pruning import EVERY, Span, span_asked

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("where", "span"),
    [
        (None, EVERY),
        ("start >= timestamp_micros(5) AND bids > 3", Span(first_us=5)),
        ("timestamp_micros(9) > start AND (start >= timestamp_micros(5))", Span(5, 9)),
        ("start BETWEEN timestamp_micros(5) AND timestamp_micros(7)", Span(5, 7)),
        ("start = timestamp '1970-01-01 00:00:01Z'", Span(1_000_000, 1_000_000)),
        (
            "start > '1970-01-02' AND start < timestamp_micros(5) + INTERVAL 3 DAYS",
            Span(24 * HOUR_US, 72 * HOUR_US + 5),
        ),
        ("start >= timestamp_micros(5) OR bids > 3", EVERY),
        ("NOT start >= timestamp_micros(5)", EVERY),
        ("start >= timestamp_micros(bids)", EVERY),
        ("start > NULL", EVERY),
    ],
)
def test_bounds_of_the_time_column_are_read(where: str | None, span: Span) -> None:
    assert span_asked(where, "start") == span


def test_no_row_that_a_condition_is_true_for_is_left_out() -> None:
    rng = Random(11)
    (rows,) = random_rows(rng, 400).combine_chunks().to_batches()
    times = rows.column("start").cast(pa.int64()).to_pylist()
    asking, narrowed = Asking(Names("t"), rng), 0
    for _ in range(150):
        where = clauses(asking.question()).where
        if where is None:
            continue
        span = span_asked(where, "start")
        narrowed += span != EVERY
        mask = compile_predicate(where, SCHEMA).mask(rows)
        assert all(span.first_us <= time <= span.last_us for time, true in zip(times, mask, strict=True) if true), where
    assert narrowed > 20


def test_rows_without_a_time_are_only_in_questions_without_one() -> None:
    earliest = -(2**63)
    assert EVERY.meets_segment(earliest, HOUR_US)
    assert not Span(last_us=0).meets_segment(earliest, HOUR_US)
    assert Span(0, 0).meets_segment(0, HOUR_US)
    assert not Span(HOUR_US, HOUR_US).meets_segment(0, HOUR_US)
