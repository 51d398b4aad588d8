"""What was read: statements, queries and what they read from. Expressions are pieces of text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from stretto.sql.script import Piece

# What a query reads.


@dataclass(frozen=True, slots=True)
class Watermark:
    """WATERMARK column DELAY OF INTERVAL ...: the delay as text."""

    column: str
    delay: str
    start: int


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by its name; `stream` says that STREAM is before it."""

    name: str
    stream: bool
    alias: str | None
    watermark: Watermark | None
    start: int


@dataclass(frozen=True, slots=True)
class Subquery:
    """A query in parentheses."""

    query: Query
    alias: str | None
    columns: tuple[str, ...]
    start: int


class Shape(Enum):
    """The table functions that divide rows into windows."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class WindowedTable:
    """A window function over a table: `sizes` are durations by their names."""

    shape: Shape
    table: Source
    time: str
    sizes: dict[str, str]
    partition_by: tuple[str, ...]
    alias: str | None
    start: int


@dataclass(frozen=True, slots=True)
class Rows:
    """VALUES (...), (...), or the numbers of range(...) as one expression over `id`."""

    rows: tuple[tuple[Piece, ...], ...]
    columns: tuple[str, ...]
    alias: str | None
    start: int
    numbers: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A join of what is on its left with one more source. `match` is the MATCH_CONDITION of an ASOF join."""

    kind: str
    left: Source
    right: Source
    on: Piece | None
    using: tuple[str, ...]
    start: int
    match: Piece | None = None


Source = TableName | Subquery | WindowedTable | Rows | Join


# Queries.


@dataclass(frozen=True, slots=True)
class Ranked:
    """ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...), or another rank."""

    function: str
    keys: tuple[Piece, ...]
    orders: tuple[Piece, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Item:
    """One of a select list: an expression, which has its alias in its text, or a rank."""

    piece: Piece
    ranked: Ranked | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class RankBound:
    """A QUALIFY whose rank is written out: the rank, and the condition with `name` in its place."""

    ranked: Ranked
    condition: Piece
    name: str


@dataclass(frozen=True, slots=True)
class Grouping:
    """One element of GROUP BY: its sets of expressions; an ordinary expression is one set of one."""

    sets: tuple[tuple[Piece, ...], ...]
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class Select:
    """SELECT ... FROM ... and its clauses."""

    items: tuple[Item, ...]
    distinct: bool
    source: Source | None
    where: Piece | None
    groups: tuple[Grouping, ...] | None
    having: Piece | None
    qualify: Piece | RankBound | None
    start: int


@dataclass(frozen=True, slots=True)
class Union:
    """Queries whose rows are put together."""

    parts: tuple[Body, ...]
    distinct: bool
    start: int


Body = Select | Union | Rows


@dataclass(frozen=True, slots=True)
class CommonTable:
    """WITH name AS (query)."""

    name: str
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query, with what it declares before."""

    body: Body
    tables: tuple[CommonTable, ...] = ()


# Statements.

Options = dict[str, str]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [STREAMING] TABLE, or a view: what is stored where, or what is computed."""

    name: str
    streaming: bool
    is_view: bool
    columns: str | None
    format: str | None
    options: Options
    partition_by: tuple[str, ...]
    watermark: Watermark | None
    query: Query | None
    start: int
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE FUNCTION name AS 'module:function'."""

    name: str
    target: str
    start: int


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO table query."""

    table: str
    columns: tuple[str, ...]
    by_name: bool
    query: Query
    options: Options
    start: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A query as a statement."""

    query: Query
    options: Options
    start: int


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query or of a statement."""

    statement: Statement
    start: int


@dataclass(frozen=True, slots=True)
class Setting:
    """SET name = value."""

    name: str
    value: str
    start: int


class Wanted(Enum):
    """What a statement asks of a session."""

    TABLES = "SHOW TABLES"
    COLUMNS = "DESCRIBE"
    DROP = "DROP"


@dataclass(frozen=True, slots=True)
class SessionQuestion:
    """SHOW TABLES, DESCRIBE table, DROP TABLE table: for a session, not for an app."""

    wanted: Wanted
    name: str | None
    start: int


Statement = CreateTable | CreateFunction | Insert | Ask | Explain | Setting | SessionQuestion


@dataclass(frozen=True, slots=True)
class Read:
    """A statement and its text."""

    statement: Statement
    text: Piece = field(default_factory=lambda: Piece("", 0))
