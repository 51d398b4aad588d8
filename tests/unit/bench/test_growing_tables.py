"""What `bench queries` asks of tables that grow: the rows come in their time, and answers with less are noticed."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from stretto.bench.questions import freshness, killing
from stretto.bench.questions.rows import BEGIN
from stretto.bench.questions.ticking import SCHEMA, Ticks
from stretto.errors import ClusterError

MS = 1_000_000


def test_rows_come_one_by_one_in_their_time_and_those_that_are_due_come_at_once() -> None:
    reader = Ticks(20).reader(1, 2)
    first = reader.read(100 * MS, 10)
    assert first.batch is not None
    assert first.batch.schema == SCHEMA
    assert first.batch.to_pylist()[0]["at"] == BEGIN
    assert (first.batch.num_rows, first.next_ns) == (1, 120 * MS)
    early = reader.read(119 * MS, 10)
    assert (early.batch, early.next_ns) == (None, 120 * MS)
    late = reader.read(205 * MS, 3)
    assert late.batch is not None
    assert late.batch.column("place").to_pylist() == [1, 2, 3]
    assert set(late.batch.column("part").to_pylist()) == {1}
    again = Ticks(20).reader(1, 2)
    again.seek(2)
    resumed = again.read(500 * MS, 10)
    assert resumed.batch is not None
    assert [(row["place"], row["at"]) for row in resumed.batch.to_pylist()] == [
        (row["place"], row["at"]) for row in late.batch.to_pylist()[1:2]
    ]


class Asked:
    """A cluster whose answers are given, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, datetime | None]] = []

    def query(self, text: str, *, timeout: float, at_least: datetime | None = None) -> pa.Table:
        self.asked.append((text, at_least))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return pa.Table.from_pylist(answer)


@pytest.mark.parametrize(
    ("rows", "is_less"),
    [
        ([{"part": 0, "c": 3}, {"part": 1, "c": 3}], False),
        ([{"part": 0, "c": 3}, {"part": 1, "c": 2}], True),
        ([{"part": 0, "c": 3}], True),
        ([{"part": 0, "c": 3}, {"part": 1, "c": 4}], True),
    ],
)
def test_an_answer_with_less_than_was_asked_for_is_noticed(rows: list[Any], is_less: bool) -> None:
    cluster, report = Asked(rows), freshness.Freshness()
    freshness._ask_at_least(cluster, 3, report)  # type: ignore[arg-type]
    assert bool(report.less) == is_less
    assert cluster.asked[0][1] is not None


def test_the_age_of_a_row_is_taken_in_the_first_answer_that_has_it() -> None:
    cluster = Asked([{"part": 0, "place": 6, "arrived_us": 0}, {"part": 0, "place": 7, "arrived_us": 0}])
    report = freshness.Freshness()
    assert freshness._ask_new(cluster, [5, 9], report) == [7, 9]  # type: ignore[arg-type]
    assert len(report.ages_ms) == 2
    assert "(part = 0 AND place > 5) OR (part = 1 AND place > 9)" in cluster.asked[0][0]


@pytest.mark.parametrize(
    ("answer", "failed", "wrong"),
    [
        ([{"part": 0, "c": 5, "first": 0, "last": 4}], 0, 0),
        ([{"part": 0, "c": 6, "first": 0, "last": 4}], 0, 1),
        ([{"part": 0, "c": 4, "first": 0, "last": 4}], 0, 1),
        ([{"part": 0, "c": 4, "first": 1, "last": 4}], 0, 1),
        ([{"part": each, "c": 1, "first": 0, "last": 0} for each in (0, 1)], 0, 1),
        (ClusterError("the answer is not complete"), 1, 0),
    ],
)
def test_a_client_notices_questions_that_fail_and_rows_that_are_missing_or_twice(
    answer: Any, failed: int, wrong: int
) -> None:
    ended, report = threading.Event(), killing.Killing(partitions=1)

    class Once(Asked):
        def query(self, text: str, *, timeout: float, at_least: datetime | None = None) -> pa.Table:
            ended.set()
            return super().query(text, timeout=timeout)

    killing._client(Once(answer), ended, threading.Lock(), report)  # type: ignore[arg-type]
    assert (report.questions, len(report.failed), len(report.wrong)) == (1, failed, wrong)
    assert report.match == (failed == wrong == 0)
