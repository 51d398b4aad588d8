"""A session of SQL: declarations are kept, and each query becomes an app of its own with what it reads.

The session knows no terminal and no cluster: `run` gets an app and returns the rows of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stretto.api.app import App
from stretto.errors import StrettoError, UserError
from stretto.expressions import spark_type_name
from stretto.sql import Compiled, Formats, Script, columns_of, compiled, read_statements
from stretto.sql.tree import Ask, CreateFunction, CreateTable, Explain, Insert, Read, SessionQuestion, Setting, Wanted

Run = Callable[[App], Mapping[str, pa.Table]]
"""Runs an app to its end and returns the rows of the sinks that collect them."""


@dataclass(frozen=True)
class Said:
    """What a session answers: lines of text, tables by their names, and advice."""

    text: str = ""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


@dataclass
class Session:
    """The declarations so far, and how queries are run."""

    formats: Formats
    run: Run
    workers: int = 1
    _declared: dict[str, str] = field(default_factory=dict)
    _columns: dict[str, list[str]] = field(default_factory=dict)
    _queries: int = 0

    def answer(self, text: str) -> list[Said]:
        """Returns the answers of all statements of a text; the first mistake ends it."""
        return [self._answer(read) for read in read_statements(Script(text))]

    @property
    def tables(self) -> list[str]:
        """The names of the tables that have been declared."""
        return list(self._columns)

    @property
    def columns(self) -> list[str]:
        """The names of all their columns."""
        return sorted({name for names in self._columns.values() for name in names})

    def _answer(self, read: Read) -> Said:
        match read.statement:
            case CreateTable(name=name, replace=replace):
                return self._declare(name, read.text.text, replace)
            case CreateFunction(name=name):
                return self._keep(f"function {name.lower()}", read.text.text, f"function {name} is declared")
            case Setting(name=name, value=value):
                return self._keep(f"setting {name}", read.text.text, f"{name} is {value}")
            case SessionQuestion(wanted=wanted, name=asked):
                return self._about(wanted, asked)
            case Ask() | Insert() | Explain():
                return self._query(read.text.text)
        raise AssertionError(read)

    # Declarations.

    def _declare(self, name: str, text: str, replace: bool) -> Said:
        key = f"table {name.lower()}"
        if key in self._declared and not replace:
            raise UserError(f"there is a table {name} already", None, "Write CREATE OR REPLACE, or DROP TABLE first.")
        before = self._declared.get(key)
        self._declared[key] = text
        try:
            schema = columns_of(App("sql"), self._script(), self.formats, name)
        except StrettoError:
            self._restore(key, before)
            raise
        self._columns[name] = [] if schema is None else list(schema.names)
        return Said(f"table {name} is declared")

    def _restore(self, key: str, before: str | None) -> None:
        if before is None:
            del self._declared[key]
        else:
            self._declared[key] = before

    def _keep(self, key: str, text: str, said: str) -> Said:
        before = self._declared.get(key)
        self._declared[key] = text
        try:
            columns_of(App("sql"), self._script(), self.formats, None)
        except StrettoError:
            self._restore(key, before)
            raise
        return Said(said)

    def _script(self, text: str = "") -> str:
        """Returns a statement and all declarations, after it: so the places in errors are those of the statement."""
        return ";\n".join([text, *self._declared.values()])

    def _schema(self, name: str) -> pa.Schema | None:
        return columns_of(App("sql"), self._script(), self.formats, name)

    # Questions.

    def _about(self, wanted: Wanted, name: str | None) -> Said:
        if wanted is Wanted.TABLES:
            return Said("\n".join(self.tables) or "there is no table; write CREATE STREAMING TABLE")
        key = f"table {(name or '').lower()}"
        if key not in self._declared:
            raise UserError(f"there is no table {name}", f"there are {', '.join(self.tables) or 'none'}")
        assert name is not None
        if wanted is Wanted.DROP:
            del self._declared[key]
            self._columns = {each: names for each, names in self._columns.items() if each.lower() != name.lower()}
            return Said(f"table {name} is dropped")
        schema = self._schema(name)
        if schema is None:
            return Said(f"{name} is a sink")
        return Said("\n".join(f"{each.name} {spark_type_name(each.type)}" for each in schema))

    # Queries.

    def _query(self, text: str) -> Said:
        self._queries += 1
        app = App(f"sql-{self._queries}")
        done = self._compiled(app, text)
        advice = tuple(app.advice())
        if done.explains:
            return Said(app.explain(workers=self.workers), advice=advice)
        return Said(tables=dict(self.run(app)), advice=advice)

    def _compiled(self, app: App, text: str) -> Compiled:
        return compiled(app, self._script(text), self.formats, every_table=False)
