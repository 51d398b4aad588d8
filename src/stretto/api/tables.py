"""Tables: bounded inputs beside the streams, such as the names of categories, which streams are joined with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from stretto.api.conditions import Condition
from stretto.errors import PlanError
from stretto.operators.join_kinds import JoinKind

if TYPE_CHECKING:
    from stretto.api.app import App
    from stretto.api.plan import Node, Refresh

TABLE_BYTES_MAX = 256 << 20
"""Of a table that is refreshed: every worker holds it in its own memory, with its index."""

BROADCAST_BYTES_MAX = 256 << 20
"""Larger tables are partitioned, unless the app says otherwise."""

Distribution = Literal["auto", "broadcast", "partitioned"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table of an app, for `stream.join(table, on)`. Its rows are those of the moment when it was declared, unless it
    has a `refresh`."""

    app: App
    name: str
    data: pa.Table
    refresh: Refresh | None = None
    how: Distribution = "auto"

    def is_partitioned(self, stream: Node) -> bool:
        """Whether its rows, and those of a stream that is joined with it, are partitioned by the key."""
        if self.how == "partitioned" and stream.changes:
            raise PlanError(
                f"join on '{stream.name}' cannot be with table '{self.name}'",
                "the table is partitioned, and rows of the stream change: they could overtake each other",
                'Leave out how="partitioned", or join before the rows change.',
            )
        large = self.how == "auto" and self.refresh is None and self.data.nbytes > BROADCAST_BYTES_MAX
        return self.how == "partitioned" or (large and not stream.changes)

    @property
    def schema(self) -> pa.Schema:
        return self.data.schema

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {self.data.num_rows} rows)"


def table_kind(how: str, stream: str, table: str) -> JoinKind:
    """Returns the kind of a join with a table; those that send rows of the table alone are refused, as by Spark."""
    kind = JoinKind.named(how, f"join on '{stream}'")
    if kind.tracks_right:
        other = "left" if kind is JoinKind.RIGHT else "full"
        raise PlanError(
            f"join on '{stream}' cannot be a {kind.value} join with table '{table}'",
            f"how={how!r}: whether a row of the table has a match is known only at the end of the stream; Spark's "
            "streams refuse it too",
            f"Make the table a stream: app.source({table!r}, sources.memory(rows)).join({stream}, on, how={other!r}) "
            "sends a row without a match at once, and removes it when one comes. "
            'Or use "inner", "left", "semi" or "anti".',
        )
    return kind


def changes_after(
    stream: Node, table: Table, condition: Condition, kind: JoinKind
) -> tuple[tuple[str, ...] | None, bool]:
    """Returns `changes_by` and `removes` of the rows of a stream after they are joined with a table."""
    if table.refresh is not None and stream.changes:
        raise PlanError(
            f"join on '{stream.name}' cannot be with table '{table.name}'",
            "the table is refreshed, and rows of the stream change: one that was joined with other rows of the table "
            "could not be removed",
            "Leave out refresh, or join before the rows change.",
        )
    keys = stream.changes_by
    if keys is None:
        return None, stream.removes
    if kind.sends_pairs and _has_duplicates(table, condition):
        return None, True  # One row becomes several, which have the same key.
    if kind is JoinKind.LEFT:
        return keys, stream.removes  # One row for each row.
    read = {column for key, _ in condition.keys for column in key.columns}
    if condition.residual is not None:
        read |= condition.residual.columns & set(stream.schema.names)
    # A new version of a row may have no match where the one before had.
    return keys, stream.removes or not read <= set(keys)


def _has_duplicates(table: Table, condition: Condition) -> bool:
    batches = table.data.combine_chunks().to_batches()
    if not batches:
        return False
    keys = pa.table({str(i): key.evaluate(batches[0]) for i, (_, key) in enumerate(condition.keys)})
    for column in keys.columns:
        keys = keys.filter(pc.is_valid(column)) if column.null_count else keys
    return bool(keys.group_by(keys.column_names).aggregate([]).num_rows < keys.num_rows)


def checked_table(app: App, name: str, data: pa.Table, refresh: Refresh | None, how: str) -> Table:
    """Returns a table of an app. One that is refreshed must fit into the memory of each worker."""
    if how not in ("auto", "broadcast", "partitioned"):
        raise PlanError(
            f"table '{name}' cannot be distributed so", f"how={how!r}", 'Write "auto", "broadcast" or "partitioned".'
        )
    if refresh is not None:
        check_size(name, data)
        if how == "partitioned":
            raise PlanError(
                f"table '{name}' cannot be partitioned",
                "it is refreshed, and each worker reads all of it again",
                "Leave out how= or refresh=.",
            )
    return Table(app, name, data, refresh, cast(Distribution, how))


def check_size(name: str, data: pa.Table) -> None:
    """Refuses a table that is too large to be read into the memory of every worker."""
    if data.nbytes > TABLE_BYTES_MAX:
        raise PlanError(
            f"table '{name}' is too large to be refreshed",
            f"it has {data.nbytes:,} bytes; every worker would hold all of them, and the limit is {TABLE_BYTES_MAX:,}",
            "Leave out refresh (a table that is read once has no limit), select the columns and rows that are needed, "
            "or read it as a source and use join.",
        )
