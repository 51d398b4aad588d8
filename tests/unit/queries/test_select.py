"""What a question gives, against plain Python over the same rows; tests/spark/test_queries.py compares with Spark."""

from __future__ import annotations

import datetime
from collections import defaultdict
from random import Random

import pyarrow as pa
import pytest

from stretto.bench.questions.rows import SCHEMA, random_rows, small_rows
from stretto.errors import ExpressionError, StrettoError
from stretto.queries.select import TableShape, compiled, read_question

ROWS = random_rows(Random(4), 300)
SMALL = small_rows(Random(4))
NOW_US = 1_767_300_000_000_000


def ask(text: str, pieces: int = 7) -> list[dict[str, object]]:
    """Answers in several parts that travel as bytes, as those of workers do."""
    select = read_question(text, NOW_US, "UTC")
    small = SMALL if select.join is not None else None
    evaluation = compiled(select, TableShape(SCHEMA, "start"), "UTC", small).evaluation
    size = -(-ROWS.num_rows // pieces)
    parts = [evaluation.packed(evaluation.part([batch])) for batch in ROWS.to_batches(max_chunksize=size)]
    found: list[dict[str, object]] = evaluation.finished([evaluation.unpacked(part) for part in parts]).to_pylist()
    return found


def test_sums_by_key_are_those_of_a_loop() -> None:
    sums: dict[str | None, int] = defaultdict(int)
    for row in ROWS.to_pylist():
        if row["bids"] is not None and row["bids"] > 10:
            sums[row["channel"]] += row["bids"]
    wanted = sorted(sums.items(), key=lambda each: -each[1])[:3]
    found = ask("SELECT channel, sum(bids) AS s FROM t WHERE bids > 10 GROUP BY channel ORDER BY s DESC LIMIT 3")
    assert [(row["channel"], row["s"]) for row in found] == wanted


def test_a_join_with_a_small_table_is_a_nested_loop() -> None:
    wanted = sorted(
        (row["id"], other["title"])
        for row in ROWS.to_pylist()
        for other in SMALL.to_pylist()
        if row["auction"] is not None and row["auction"] == other["auction"] and other["title"] is not None
    )
    found = ask("SELECT t.id, s.title FROM t JOIN s ON t.auction = s.auction WHERE title IS NOT NULL")
    assert sorted((row["id"], row["title"]) for row in found) == wanted


def test_now_is_when_the_question_was_asked() -> None:
    begin = datetime.datetime.fromtimestamp(NOW_US / 1e6, datetime.UTC) - datetime.timedelta(hours=30)
    wanted = sum(row["start"] >= begin for row in ROWS.to_pylist())
    assert ask("SELECT count(*) AS c FROM t WHERE start >= now() - INTERVAL 30 HOURS") == [{"c": wanted}]
    assert ask("SELECT DISTINCT current_date() AS d FROM t")[0]["d"] == datetime.date(2026, 1, 1)


def test_nothing_is_one_group_without_keys_and_none_with_keys() -> None:
    (row,) = ask("SELECT count(*) AS c, sum(bids) AS s, collect_list(id) AS l, bool_or(open) AS o FROM t WHERE id < 0")
    assert row == {"c": 0, "s": None, "l": [], "o": None}
    assert ask("SELECT channel, count(*) FROM t WHERE id < 0 GROUP BY channel") == []


@pytest.mark.parametrize(
    ("text", "fact", "place"),
    [
        ("SELECT id FROM t UNION SELECT id FROM t", "UNION is not supported", "position 18"),
        ("SELECT (SELECT 1) FROM t", "a query inside a query", "position 9"),
        ("SELECT rank() OVER (ORDER BY id) FROM t", "OVER (...) is not supported", "position 15"),
        ("SELECT id FROM t FULL JOIN s ON t.id = s.rank", "FULL JOIN is not supported", "position 18"),
        ("SELECT count(*) FROM t GROUP BY ROLLUP(id)", "ROLLUP is not supported", "position 33"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "a question must be a SELECT", "position 1"),
        ("SELECT id FROM t LIMIT x", "LIMIT takes a whole number", "position 24"),
        ("SELECT id FROM t, s", "several tables in FROM", "position 16"),
        ("SELECT id WHERE id = 1", "a question without FROM", "position 22"),
        ("SELECT auction FROM t JOIN s ON t.auction = s.auction", "column 'auction' is in both tables", "position 1"),
        ("SELECT channel, count(*) FROM t GROUP BY auction", "neither in GROUP BY nor in an aggregate", "channel"),
        ("SELECT id FROM t HAVING id > 1", "HAVING without GROUP BY", "HAVING"),
        ("SELECT nothing FROM t", "unknown column", "nothing"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_position(text: str, fact: str, place: str) -> None:
    with pytest.raises(StrettoError) as caught:
        ask(text)
    assert fact in caught.value.fact
    assert place in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t WHERE channel IS NOT DISTINCT FROM 'web'",
        "SELECT extract(hour FROM start) AS h, count(*) FROM t GROUP BY h",
        "SELECT * EXCEPT (id, start) FROM t LIMIT 1",
        "SELECT t.id AS `from`, 'SELECT FROM UNION' AS s FROM t AS t ORDER BY `from` LIMIT 1;",
        "SELECT upper(channel), count(*) FROM t GROUP BY upper(channel) HAVING count(*) > 1 ORDER BY max(id) + 1",
    ],
)
def test_words_of_the_grammar_may_be_elsewhere(text: str) -> None:
    assert ask(text)


def test_an_error_of_ansi_sql_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="zero"):
        ask("SELECT sum(bids / (auction - auction)) FROM t")


def test_order_has_nulls_where_they_are_asked_for() -> None:
    for direction, first in (("", True), (" NULLS LAST", False), (" DESC", False), (" DESC NULLS FIRST", True)):
        found = [row["bids"] for row in ask(f"SELECT bids FROM t ORDER BY bids{direction}")]
        assert (found[0] is None) is first
        plain = [each for each in found if each is not None]
        assert plain == sorted(plain, reverse="DESC" in direction)


def test_a_part_with_another_schema_is_refused() -> None:
    select = read_question("SELECT id FROM t", 0, "UTC")
    evaluation = compiled(select, TableShape(SCHEMA, "start"), "UTC").evaluation
    other = compiled(read_question("SELECT channel FROM t", 0, "UTC"), TableShape(SCHEMA), "UTC").evaluation
    with pytest.raises(ValueError, match="id"):
        evaluation.unpacked(other.packed(other.part([pa.RecordBatch.from_pylist([], schema=SCHEMA)])))
