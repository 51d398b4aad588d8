"""A session of SQL without its terminal: declarations, questions, queries; completion; what is a whole text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from tests.sql_runs import simulated

from stretto.api.app import App
from stretto.cli.sql_prompt import Names, is_whole
from stretto.cli.sql_session import Session
from stretto.errors import StrettoError
from stretto.formats import FORMATS

TABLE = "CREATE STREAMING TABLE t (id BIGINT, name STRING) AS VALUES (1, 'a'), (2, 'b'), (3, 'b');"


def run(app: App) -> dict[str, pa.Table]:
    return {node.name: simulated(app, node.name) for node in app.plan().sinks if node.sink.collects}


@pytest.fixture
def session() -> Session:
    return Session(FORMATS, run)


def test_what_is_completed(session: Session) -> None:
    session.answer("CREATE STREAMING TABLE bids (bidder BIGINT) AS VALUES (1);")

    def found(text: str) -> dict[str, str]:
        given = Names(session).get_completions(Document(text), CompleteEvent())
        return {each.text: each.display_meta_text for each in given}

    assert found("SELECT bid") == {"bids": "table", "bidder": "column"}
    assert found("sel") == {"select": "keyword"}
    assert found("SELECT session_w") == {"session_window": "function"}
    assert "approx_count_distinct" in found("SELECT approx_c")
    assert found("SELECT ") == {}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1", False),
        ("SELECT 'a;", False),
        ("SELECT ';'", False),
        ("/* ;", False),
        ("", True),
        ("quit", True),
        ("HELP", True),
    ],
)
def test_when_a_text_is_whole(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


def test_questions(session: Session) -> None:
    (said,) = session.answer(TABLE)
    session.answer("CREATE VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name; CREATE TABLE o USING console;")
    assert [said.text for said in session.answer("SHOW TABLES; DESCRIBE v; DESC o; DESCRIBE TABLE t")] == [
        "t\nv\no",
        "name string\nn bigint",
        "o is a sink",
        "id bigint\nname string",
    ]
    (said,) = session.answer("EXPLAIN SELECT * FROM v WHERE n > 1")
    assert "running aggregate, keys (name)" in said.text
    assert "keeps every name for ever" in said.advice[0]
    assert not said.tables
    (said,) = session.answer("SELECT * FROM v WHERE n > 1")
    assert said.tables["result"].to_pylist() == [{"name": "b", "n": 2}]
    (said,) = session.answer("DROP VIEW v")
    assert session.tables == ["t", "o"]
    with pytest.raises(StrettoError, match="no table v"):
        session.answer("SELECT * FROM v")


def test_a_declaration_that_fails_is_not_kept(session: Session) -> None:
    session.answer(TABLE)
    with pytest.raises(StrettoError, match="a table t already"):
        session.answer(TABLE)
    with pytest.raises(StrettoError, match="unknown column 'x'"):
        session.answer("CREATE VIEW bad AS SELECT x FROM t")
    assert session.tables == ["t"]
    with pytest.raises(StrettoError, match="no setting speed"):
        session.answer("SET speed = 9")
    session.answer("SET parallelism = 2; CREATE OR REPLACE VIEW t AS VALUES (7)")
    (said,) = session.answer("SELECT * FROM STREAM t")
    assert said.tables["result"].to_pylist() == [{"col1": 7}]
