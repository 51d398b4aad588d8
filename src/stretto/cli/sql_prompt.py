"""The prompt of `stretto sql`: history, completion, and statements of several lines up to a semicolon."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from stretto.cli.sql_session import Said, Session
from stretto.errors import StrettoError
from stretto.expressions.aggregate_functions import FUNCTIONS as AGGREGATES
from stretto.expressions.functions import FUNCTIONS
from stretto.sql.script import Script
from stretto.sql.words import words_of

PROMPT, MORE = "stretto> ", "      -> "
QUIT = ("quit", "exit", r"\q")
HELP = """Statements end with a semicolon and may have several lines.
  CREATE STREAMING TABLE t USING parquet OPTIONS (path = '...')   declare what a query reads or writes
  SELECT ... FROM STREAM t WATERMARK ts DELAY OF INTERVAL 5 SECONDS ...   run a query and show its rows
  INSERT INTO t SELECT ...   run a query into a table
  EXPLAIN SELECT ...   show how a query runs, and what it keeps for ever
  SHOW TABLES; DESCRIBE t; DROP TABLE t; SET engine = actors;
  quit   end; Ctrl-C stops a running query
"""
_WORDS = """
    ALL AND ANTI AS BETWEEN BY CASE CAST CREATE CUBE CUMULATE DELAY DESC DESCRIBE DESCRIPTOR DISTINCT DROP
    ELSE END EXCEPT EXPLAIN FALSE FILTER FROM FULL GROUP GROUPING HAVING HOP IN INNER INSERT INTERVAL INTO IS
    JOIN LEFT LIKE NOT NULL OF ON OPTIONS OR ORDER OVER PARTITION PARTITIONED QUALIFY RANK REPLACE RIGHT
    ROLLUP ROW_NUMBER SELECT SEMI SESSION SET SETS SHOW STREAM STREAMING TABLE TABLES THEN TRUE TUMBLE UNION
    USING VALUES VIEW WATERMARK WHEN WHERE WITH
"""
WORDS = tuple(_WORDS.split())


class Names(Completer):
    """Completes keywords, and the names of tables, columns and functions."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._functions = sorted({*FUNCTIONS, *AGGREGATES, "window", "session_window", "span_window"})

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        begun = document.get_word_before_cursor()
        if not begun.strip():
            return
        start, lower = -len(begun), begun.lower()
        known = (
            (self._session.tables, "table"),
            (self._session.columns, "column"),
            (WORDS, "keyword"),
            (self._functions, "function"),
        )
        for names, kind in known:
            for name in names:
                if name.lower().startswith(lower) and name.lower() != lower:
                    shown = name.lower() if kind == "keyword" and begun.islower() else name
                    yield Completion(shown, start, display_meta=kind)


def is_whole(text: str) -> bool:
    """Whether a text is to be read as it is: a word for the prompt, or statements with a semicolon at the end."""
    bare = text.strip()
    if not bare or bare.lower() in (*QUIT, "help"):
        return True
    try:
        words = words_of(Script(bare))
    except StrettoError:
        return False  # A string or a comment goes on in the next line.
    return not words or words[-1].key == ";"


def prompted(
    session: Session, show: Callable[[Said], None], complain: Callable[[str], None], history: History | None = None,
    input: Input | None = None, output: Output | None = None,
) -> None:  # fmt: skip
    """Reads statements from a terminal until its end, and shows what the session answers."""
    prompt: PromptSession[str] = PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=MORE,
        completer=Names(session),
        complete_while_typing=False,
        history=history if history is not None else InMemoryHistory(),
        key_bindings=_keys(),
        input=input,
        output=output,
    )
    while True:
        try:
            text = prompt.prompt().strip()
        except KeyboardInterrupt:
            continue  # The line is given up, as in a shell.
        except EOFError:
            return
        if text.lower().rstrip(";") in QUIT:
            return
        if text.lower().rstrip(";") == "help":
            show(Said(HELP))
            continue
        try:
            for said in session.answer(text):
                show(said)
        except StrettoError as error:
            complain(str(error))
        except KeyboardInterrupt:
            complain("the query was stopped")


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return keys


def history_file() -> FileHistory | InMemoryHistory:
    """Returns the history of this user's prompts, or one in memory where there is no place for it."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    path = Path(base) / "stretto" / "sql_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
