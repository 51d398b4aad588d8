"""What SQL text is refused: what is wrong, the line and the column, and what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto import App, sinks, sources
from stretto.errors import PlanError, SqlError

BIDS = pa.table({"k": [1, 2], "v": [3, 4], "at": pa.array([0, 1_000_000], pa.timestamp("us", tz="UTC"))})
TABLES = {"b": sources.memory(BIDS), "names": pa.table({"k": [1], "name": ["one"]}), "gone": sinks.null()}
TIMED = "STREAM b WATERMARK at DELAY OF INTERVAL 1 SECOND"
ASOF = f"FROM {TIMED}\nASOF JOIN {TIMED} AS c MATCH_CONDITION"

# Text, the line and column, what is wrong, what to do.
MALFORMED = [
    ("SELEC k FROM STREAM b", (1, 1), "there is 'SELEC'", "CREATE, INSERT, SELECT"),
    ("SELECT 'abc", (1, 8), "a string is not closed", "at its end"),
    ("SELECT k FROM STREAM b /* x", (1, 24), "a comment is not closed", "*/"),
    ("SELECT k\nFROM STREAM b GROUP BY", (2, 23), "the end of the statement", ""),
    ("SELECT (k FROM STREAM b", (1, 24), "a bracket is not closed", ""),
    ("SELECT k FROM STREAM nope", (1, 15), "no table nope", "CREATE STREAMING TABLE"),
    ("SELECT k,\n  kk\nFROM STREAM b", (2, 3), "unknown column 'kk'", ""),
    ("SELECT upperr(k) FROM STREAM b", (1, 8), "unknown function upperr", "upper"),
    ("SELECT k + FROM STREAM b", (1, 8), "cannot parse", ""),
    ("SELECT k, count(*) AS n\nFROM STREAM b GROUP BY v", (1, 8), "neither in GROUP BY", "any_value(k)"),
    ("SELECT k FROM STREAM b x, STREAM b y WHERE x.k = y.k", (1, 8), "in several tables", "its table"),
    ("SELECT k FROM STREAM b WATERMARK ts DELAY OF INTERVAL 5 SECONDS", (1, 24), "no column ts", "a timestamp"),
    ("SELECT k FROM STREAM b WATERMARK at", (1, 36), "DELAY is expected", "INTERVAL 5 SECONDS"),
    ("SELECT k AS x, v AS x FROM STREAM b", (1, 1), "two columns are named 'x'", "AS name"),
    ("INSERT INTO nope SELECT k FROM STREAM b", (1, 1), "no table nope", ""),
    ("CREATE TABLE t USING csvv; INSERT INTO t SELECT k FROM STREAM b", (1, 28), "no format csvv", "csv"),
    ("CREATE STREAMING TABLE t USING parquet OPTIONS (pth = 'x');\nSELECT * FROM t", (2, 15), "no option pth", ""),
    ("CREATE VIEW x AS SELECT * FROM y; CREATE VIEW y AS SELECT * FROM x;\nSELECT * FROM y", None, "itself", "loop"),
    ("CREATE VIEW x AS SELECT 1; CREATE VIEW x AS SELECT 2", (1, 28), "a table x already", "OR REPLACE"),
    ("SET engine = warp", (1, 1), "warp", ""),
    ("SET speed = 3", (1, 1), "no setting speed", "latency"),
    ("SELECT k FROM STREAM b GROUP BY 3", (1, 33), "GROUP BY 3", ""),
    ("SELECT k FROM STREAM b UNION ALL SELECT string(k) FROM STREAM b", (1, 1), "columns differ", "CAST"),
    ("INSERT INTO b SELECT k FROM STREAM b", (1, 1), "b is not a sink", ""),
    ("CREATE TABLE t; INSERT INTO t SELECT k FROM b;\nINSERT INTO t SELECT k FROM b", (2, 1), "two queries", "UNION"),
    ("SELECT k FROM gone", (1, 15), "gone is a sink", "INSERT INTO gone"),
]
UNSUPPORTED = [
    (
        "SELECT k, percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS m FROM STREAM b GROUP BY k",
        (1, 11),
        "percentile_disc is not supported",
        "percentile_approx(x, fraction)",
    ),
    ("SELECT * FROM STREAM b\nORDER BY k", (2, 1), "ORDER BY at the end", "QUALIFY ROW_NUMBER()"),
    ("SELECT * FROM STREAM b LIMIT 5", (1, 24), "LIMIT", "QUALIFY ROW_NUMBER()"),
    ("SELECT * FROM STREAM b ASOF JOIN STREAM b c ON b.k = c.k", (1, 45), "MATCH_CONDITION", "(a.ts >= b.ts)"),
    (f"SELECT b.k {ASOF} (b.v >= c.v) ON b.k = c.k", (2, 82), "does not compare the event times", "of WATERMARK"),
    (f"SELECT b.k {ASOF} (b.at = c.at) ON b.k = c.k", (2, 82), "does not compare the event times", ">= b.ts"),
    (f"SELECT b.k {ASOF} (b.at <= c.at) ON b.k = c.k", (2, 82), "how long to wait", "<= a.ts + INTERVAL"),
    (f"SELECT b.k {ASOF} (b.at >= c.at)", None, "ON or USING is expected", "at least one equality"),
    ("SELECT * FROM STREAM b ASOF JOIN names c MATCH_CONDITION (b.at >= c.k) ON b.k = c.k", None, "two streams", ""),
    ("SELECT * FROM STREAM b CROSS JOIN names", (1, 24), "CROSS JOIN", "ON a.x = b.y"),
    ("SELECT * FROM STREAM b NATURAL JOIN names", (1, 24), "NATURAL JOIN", "USING"),
    ("SELECT b.k FROM STREAM b JOIN names n ON b.k < n.k", (1, 42), "has no key", "ON a.id = b.id"),
    ("SELECT n.name FROM names n LEFT JOIN STREAM b ON b.k = n.k", (1, 50), "right join with table", "table a stream"),
    ("SELECT * FROM STREAM b MATCH_RECOGNIZE (PATTERN (a))", (1, 24), "MATCH_RECOGNIZE", "stretto.Function"),
    ("SELECT * FROM STREAM b TABLESAMPLE (10 PERCENT)", (1, 24), "TABLESAMPLE", "hash(id)"),
    ("SELECT k FROM STREAM b INTERSECT SELECT k FROM STREAM b", (1, 24), "INTERSECT", "LEFT SEMI JOIN"),
    ("SELECT k FROM STREAM b EXCEPT SELECT k FROM STREAM b", (1, 24), "EXCEPT", "LEFT ANTI JOIN"),
    ("SELECT k, sum(v) OVER (ORDER BY at) FROM STREAM b", (1, 11), "function with OVER", "ROW_NUMBER()"),
    ("SELECT k, RANK() OVER (ORDER BY v) AS r FROM STREAM b", (1, 11), "rank 'r' has no bound", "WHERE r <= 10"),
    ("SELECT k FROM (SELECT k, RANK() OVER (ORDER BY v) AS r FROM STREAM b)", (1, 26), "no bound", "WHERE r <= 10"),
    ("SELECT k FROM STREAM b QUALIFY RANK() OVER (ORDER BY v) > 3", (1, 32), "no bound", "<= 10"),
    ("SELECT k FROM STREAM b QUALIFY RANK() OVER (ORDER BY v) < 1", (1, 32), "rank below 1", "begin with 1"),
    ("SELECT k FROM STREAM b WHERE k IN (SELECT k FROM names)", (1, 30), "a query after IN", "LEFT SEMI JOIN"),
    ("SELECT k FROM STREAM b WHERE count(*) > 1", (1, 30), "count is an aggregate", "HAVING"),
    ("SELECT window(at, '1 s') AS w FROM STREAM b", (1, 8), "needs event time", "WATERMARK at DELAY"),
    (f"SELECT window(at, '1 s') AS w FROM {TIMED}", (1, 8), "without GROUP BY", "TUMBLE"),
    (f"SELECT count(*) AS n FROM {TIMED} GROUP BY window(v, '1 s')", (1, 85), "another column", "window(at"),
    (f"SELECT count(*) AS n FROM {TIMED} GROUP BY window(at)", (1, 85), "a time and a duration", "10 seconds"),
    ("SELECT k FROM TUMBLE(TABLE b, at, INTERVAL '1' SECOND)", (1, 31), "DESCRIPTOR is expected", "TUMBLE(TABLE t"),
    ("SELECT k FROM HOP(TABLE b, DESCRIPTOR(at), INTERVAL '1' SECOND)", (1, 15), "HOP has no size", "the slide and"),
    ("SELECT k FROM TUMBLE(TABLE b, DESCRIPTOR(at), INTERVAL '1' MONTH)", (1, 47), "1 month", "days"),
    ("SELECT /*+ BROADCAST(n) */ k FROM STREAM b", (1, 8), "hints", "Leave the hint out"),
    ("SELECT 1 AS x", (1, 1), "has no stream", "STREAM"),
    ("DELETE FROM b WHERE k = 1", (1, 1), "DELETE", "INSERT INTO"),
    ("INSERT OVERWRITE t SELECT k FROM STREAM b", (1, 1), "INSERT OVERWRITE", "mode = 'overwrite'"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", (1, 6), "WITH RECURSIVE", "break the loop"),
    ("SHOW TABLES", (1, 1), "SHOW TABLES", "prompt"),
    ("SELECT k FROM STREAM b GROUP BY ALL", (1, 33), "GROUP BY ALL", "Name the columns"),
    ("SELECT explode_outer2(k) FROM flatten(b)", (1, 31), "table function flatten", "TUMBLE"),
    (
        "SELECT k FROM STREAM b WATERMARK at DELAY OF INTERVAL 1 SECOND\nUNION ALL "
        "SELECT k FROM STREAM b WATERMARK at DELAY OF INTERVAL 2 SECONDS",
        (2, 34),
        "two watermarks",
        "write the same one",
    ),
    (
        f"SELECT window_start FROM TUMBLE(TABLE {TIMED[7:]}, DESCRIPTOR(at), '1 s') GROUP BY window_start",
        (1, 114),
        "half of a window",
        "window_end",
    ),
]


@pytest.mark.parametrize(
    ("text", "place", "wrong", "fix"), [*MALFORMED, *UNSUPPORTED], ids=lambda value: str(value)[:40]
)
def test_a_text_is_refused_with_its_place(text: str, place: tuple[int, int] | None, wrong: str, fix: str) -> None:
    with pytest.raises(SqlError) as caught:
        App.sql(text, tables=TABLES)
    message = str(caught.value)
    assert wrong in message
    assert fix in message
    if place is not None:
        assert f"line {place[0]}, column {place[1]}" in message


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("SELECT k, count(*) AS n FROM STREAM b GROUP BY k", "cannot replace rows"),
        ("SELECT count(*) AS n FROM STREAM b GROUP BY k HAVING n > 1", "cannot remove rows"),
        ("SELECT * FROM STREAM b QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) <= 2", "cannot remove rows"),
        ("SELECT b.v, n.v AS m FROM STREAM b LEFT JOIN STREAM b n ON b.k = n.v", "cannot remove rows"),
    ],
)
def test_updates_are_refused_at_a_sink_that_only_adds_rows(query: str, wrong: str, tmp_path: object) -> None:
    script = f"CREATE TABLE files USING parquet OPTIONS (path = '{tmp_path}/out');\nINSERT INTO files {query}"
    with pytest.raises(SqlError, match=wrong) as caught:
        App.sql(script, tables=TABLES)
    assert "line 2, column 1" in str(caught.value)
    assert "changelog = '_change'" in str(caught.value)
    changed = script.replace("/out')", "/out', changelog = '_change')")
    assert App.sql(changed, tables=TABLES).plan().sinks


def test_explain_is_no_app_and_an_empty_text_neither() -> None:
    with pytest.raises(PlanError, match=r"app\.explain"):
        App.sql("EXPLAIN SELECT * FROM STREAM b", tables=TABLES)
    with pytest.raises(PlanError, match="has no query"):
        App.sql(" -- nothing\n;", tables=TABLES)


def test_an_objective_that_two_statements_contradict() -> None:
    query = "SELECT k FROM STREAM b OPTIONS (latency = '{}')"
    with pytest.raises(SqlError, match="two objectives for the latency: 1 s and 2 s"):
        App.sql(f"{query.format('1 s')};\n{query.format('2 s')}", tables=TABLES)
