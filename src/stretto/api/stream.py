"""Streams. Their verbs are in modules of their own, by what they do: columns, Python functions, joins, groups.

Nothing runs here. A stream's event time follows its rows: `select` must keep the time column if a window comes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stretto.actors.sink import Sink
from stretto.api import plan
from stretto.api.arguments import COLUMNS, DURATION, SETS, TEXT, Kind, takes
from stretto.api.changes import check_sink
from stretto.api.column_verbs import ColumnVerbs
from stretto.api.columns import flat
from stretto.api.entity_verbs import EntityVerbs
from stretto.api.group_verbs import GroupingSetsStream, GroupVerbs, KeyedStream, upsert_columns
from stretto.api.grouping import keys_of
from stretto.api.grouping_sets import copied, cubed, keys_in, rolled_up
from stretto.api.join_verbs import STREAM, JoinVerbs
from stretto.api.publishing import published_sink
from stretto.api.pyspark_words import stream_attribute
from stretto.api.python_verbs import PythonVerbs
from stretto.api.ranking import first_fields, last_fields
from stretto.api.step import Step
from stretto.api.windowed_stream import WindowedStream
from stretto.errors import PlanError
from stretto.operators.changes.weights import weighted_schema
from stretto.operators.windows import Duration

__all__ = ["AppliedStream", "GroupVerbs", "GroupingSetsStream", "KeyedStream", "Stream", "WindowedStream"]

SINK = Kind(
    "a sink, such as sinks.collect()",
    lambda value: isinstance(value, Sink),
    lambda value: f"For files use sinks.parquet({value!r})." if isinstance(value, str) else None,
)


class Stream(ColumnVerbs, PythonVerbs, JoinVerbs, GroupVerbs, EntityVerbs):
    """A named stream of rows: the rows of a source, or the result of a verb on other streams."""

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise stream_attribute(self, name)

    @takes(columns=COLUMNS)
    def key_by(self, *columns: str | Sequence[str]) -> KeyedStream:
        """Returns the same rows with a key: rows of one key are processed in one partition, in order.

        A key is a column or an expression, which becomes a column: `key_by("auction", "lower(name) AS name_lower")`.
        """
        names = flat(columns)
        if not names:
            raise PlanError(f"key_by on '{self.name}' names no column", None, "Name at least one column.")
        keys, texts = keys_of(f"key_by on '{self.name}'", self.schema, names)
        return KeyedStream(self._step if texts is None else self._step.projected("key_by", texts, None, None), keys)

    @takes(columns=COLUMNS)
    def rollup(self, *columns: str | Sequence[str]) -> GroupingSetsStream:
        """Returns the rows with several keys at once: all columns, all but the last one, and so on, and no key at all.

        `rollup("country", "city").window(...).aggregate("sum(price)")` has sums per city, per country and of all rows.
        Keys may be expressions, as in `key_by`."""
        keys = flat(columns)
        return GroupingSetsStream(*copied(self._step, "rollup", keys, rolled_up(keys)))

    @takes(columns=COLUMNS)
    def cube(self, *columns: str | Sequence[str]) -> GroupingSetsStream:
        """Returns the rows with several keys at once: every subset of the columns. Each row is copied as often."""
        keys = flat(columns)
        return GroupingSetsStream(*copied(self._step, "cube", keys, cubed(keys)))

    @takes(sets=SETS, columns=COLUMNS)
    def grouping_sets(self, sets: Sequence[Sequence[str] | str], *columns: str | Sequence[str]) -> GroupingSetsStream:
        """Returns the rows with several keys at once, each a list of columns: `grouping_sets([["a", "b"], ["b"], []])`.
        The columns, in the order that the result has them, are those of the sets unless they are named."""
        keys = keys_in(sets, columns)
        return GroupingSetsStream(*copied(self._step, "grouping_sets", keys, [flat([each]) for each in sets]))

    @takes(columns=COLUMNS, keep=TEXT, within=DURATION.optional())
    def drop_duplicates(
        self,
        *columns: str | Sequence[str],
        keep: Literal["first", "last"] = "first",
        within: Duration | None = None,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns one row of each key, or of equal rows without `columns`.

        The first one that arrives is kept, and the keys are remembered for ever. With `within`, such as "1 hour", rows
        of a key are duplicates if their event times are at most that far apart; keys are forgotten as the watermark
        passes, and rows behind it are dropped. keep="last" keeps the row with the greatest event time, of those the
        greatest by all columns; a later one replaces it, as in a running aggregate."""
        if keep not in ("first", "last"):
            raise PlanError(
                f"drop_duplicates on '{self.name}' does not know keep={keep!r}", None, 'Write "first" or "last".'
            )
        if keep == "last":
            fields = last_fields(self._step.node, flat(columns), within)
            return self._step.add(plan.TopNode, "drop_duplicates", name, parallelism=parallelism, **fields).stream
        if within is not None:
            self._step.event_time("drop_duplicates within a time")
        fields = first_fields(self._step.node, flat(columns), within)
        return self._step.add(plan.DistinctNode, "drop_duplicates", name, parallelism=parallelism, **fields).stream

    @takes(others=STREAM)
    def union(self, *others: Stream, name: str | None = None) -> Stream:
        """Returns the rows of all these streams, which must have equal columns."""
        for other in others:
            self._step.same_app(other._step)
            if not other.schema.equals(self.schema):
                raise PlanError(
                    f"union of '{self.name}' and '{other.name}': their columns differ",
                    f"{_columns(self.schema)} and {_columns(other.schema)}",
                    "Use select to give both the same columns, names and types.",
                )
        if not others:
            raise PlanError(f"union on '{self.name}' has no other stream")
        time = self.time if all(other.time == self.time for other in others) else None
        return self._step.add(
            plan.UnionNode,
            "union",
            name,
            inputs=(self.name, *(other.name for other in others)),
            time=time,
            # Two streams may have rows of the same key, so that one cannot replace those of the other.
            changes_by=None,
            removes=any(stream._step.node.changes for stream in (self, *others)),
        ).stream

    @takes(sink=SINK)
    def sink(self, sink: Sink, *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """End the stream in a sink; returns the stream, so that more sinks and verbs can follow."""
        check_sink(self._step.node, sink)
        sink.check(weighted_schema(self.schema) if self._step.node.removes else self.schema)
        self._step.add(plan.SinkNode, "sink", name, parallelism=parallelism, sink=sink)
        return self

    @takes(table=TEXT, time=TEXT.optional(), segment=DURATION, keep=DURATION.optional())
    def publish(
        self,
        table: str,
        *,
        time: str | None = None,
        segment: Duration = "1 hour",
        keep: Duration | None = None,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Publish the rows as a table that `cluster.query` can ask while the app runs; returns the stream.

        Rows are in segments by `time`, a timestamp column, by default that of the stream's event time. They are in the
        memory of the workers that publish them, and can be asked for at once. With a checkpoint directory, they are
        also Parquet files in `tables/<table>` below it, exactly once, and what of them is in memory may change; without
        one, they are in memory only, and are gone with the cluster. Segments older than `keep`, by the newest one, are
        forgotten and their files are removed; None keeps all.

        A table's rows are never replaced: of a running aggregate, publish what a window closes."""
        time = time or (None if self._step.time is None else self._step.time.column)
        return self._published(published_sink(self._step, table, time, segment, keep), name, parallelism)

    def _published(self, sink: Sink, name: str | None, parallelism: int | None) -> Stream:
        check_sink(self._step.node, sink)
        sink.check(self.schema)
        self._step.add(plan.SinkNode, "publish", name, parallelism=parallelism, sink=sink)
        return self

    def _grouped(self) -> tuple[Step, tuple[str, ...] | None]:
        return self._step, None


class AppliedStream(Stream):
    """The first output of an applied function; `output` returns the others."""

    @takes(name=TEXT, upsert_key=COLUMNS.optional())
    def output(self, name: str, *, upsert_key: str | Sequence[str] | None = None) -> Stream:
        """Returns a further output. `upsert_key` is as in `apply`."""
        node = self._step.node
        assert isinstance(node, plan.ApplyNode)
        if name not in node.outputs:
            known = ", ".join(sorted(node.outputs)) or "none"
            raise PlanError(f"function '{self.name}' has no output '{name}'", f"declared outputs: {known}")
        schema = node.outputs[name]
        return self._step.add(
            plan.OutputNode,
            name,
            None,
            schema=schema,
            time=self._step.time_in(schema),
            output=name,
            changes_by=upsert_columns(schema, upsert_key),
        ).stream


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"
