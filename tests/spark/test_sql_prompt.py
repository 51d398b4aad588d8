"""The prompt of `stretto sql`, through a terminal that the test types into: queries run by workers in virtual time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.sql_runs import simulated

from stretto.api.app import App
from stretto.cli.sql_prompt import prompted
from stretto.cli.sql_session import Said, Session
from stretto.formats import FORMATS

TABLE = "CREATE STREAMING TABLE t (id BIGINT, name STRING) AS VALUES (1, 'a'), (2, 'b'), (3, 'b');"


def run(app: App) -> dict[str, pa.Table]:
    return {node.name: simulated(app, node.name) for node in app.plan().sinks if node.sink.collects}


@pytest.fixture
def session() -> Session:
    return Session(FORMATS, run)


class Typed:
    """What a session shows for the keys that were typed."""

    def __init__(self, session: Session, keys: str) -> None:
        self.said: list[Said] = []
        self.complaints: list[str] = []
        self.history = InMemoryHistory()
        with create_pipe_input() as terminal:
            terminal.send_text(keys)
            prompted(session, self.said.append, self.complaints.append, self.history, terminal, DummyOutput())

    @property
    def rows(self) -> list[dict[str, object]]:
        return [row for said in self.said for table in said.tables.values() for row in table.to_pylist()]


def test_a_statement_of_several_lines_ends_with_a_semicolon(session: Session) -> None:
    typed = Typed(session, f"{TABLE}\rSELECT id\rFROM t\rWHERE name = 'a';\rquit\r")
    assert typed.complaints == []
    assert typed.said[0].text == "table t is declared"
    assert typed.rows == [{"id": 1}]
    entries = typed.history.get_strings()
    assert entries[1] == "SELECT id\nFROM t\nWHERE name = 'a';"


def test_a_mistake_is_told_and_the_prompt_goes_on(session: Session) -> None:
    typed = Typed(session, f"{TABLE}\rSELECT\r  nam FROM t;\rSELECT count(*) AS n FROM t;\rexit;\r")
    (complaint,) = typed.complaints
    assert "unknown column 'nam': line 2, column 3" in complaint
    assert typed.rows == [{"n": 3}]


def test_the_end_of_the_input_and_a_given_up_line(session: Session) -> None:
    typed = Typed(session, f"SELECT 1 +\x03{TABLE}\r\x04")
    assert [said.text for said in typed.said] == ["table t is declared"]
