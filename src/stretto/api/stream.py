"""Streams and their verbs. A verb checks its arguments at once, adds one node to the plan, and returns a stream.

Nothing runs here. A stream's event time follows its rows: `select` must keep the time column if a window comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from stretto.actors.discipline import STATELESS
from stretto.actors.function import Function
from stretto.actors.sink import Sink
from stretto.api import plan
from stretto.api.arguments import (
    AGGREGATES,
    COLUMN,
    COLUMNS,
    COUNT,
    DURATION,
    EXPRESSION,
    EXPRESSIONS,
    FLAG,
    FUNCTION,
    NAMES,
    ORDERS,
    SCHEMA,
    SCHEMAS,
    SIZE,
    TEXT,
    WINDOW,
    Kind,
    mapping_of,
    takes,
)
from stretto.api.changes import check_only_added, check_sink, check_spill, filter_removes, selected_changes
from stretto.api.columns import renamed, star_replaced, with_columns, without
from stretto.api.grouping import Aggregate, Grouping, grouping, keys_of, refuse_arrival
from stretto.api.join_verbs import STREAM, JoinVerbs
from stretto.api.pyspark_words import group_attribute, stream_attribute
from stretto.api.ranking import By, RankName, first_fields, last_fields, ranking_of, top_fields
from stretto.api.spilling import Size, spill_of_function, spill_of_groups
from stretto.api.windowing import TIMESTAMP
from stretto.errors import PlanError
from stretto.expressions import (
    compile_predicate,
    compile_projection,
    compile_scalar,
    parse_schema,
)
from stretto.expressions.scalar import quoted
from stretto.operators.changes.weights import weighted_schema
from stretto.operators.windows import Duration, EventTime, Session, Span, Window, duration_us
from stretto.rendering import error_text

if TYPE_CHECKING:
    from stretto.api.app import App


STREAMS = Kind("a dict of streams by the names of inputs", mapping_of(STREAM))
SINK = Kind(
    "a sink, such as sinks.collect()",
    lambda value: isinstance(value, Sink),
    lambda value: f"For files use sinks.parquet({value!r})." if isinstance(value, str) else None,
)
APPLIED = Kind(
    "a stretto.Function",
    lambda value: isinstance(value, Function),
    lambda value: "Subclass stretto.Function; for a plain Python function use map or flat_map.",
)


class GroupVerbs:
    """The verbs that a stream has as a whole, and with a key for each key."""

    def _grouped(self) -> tuple[Stream, tuple[str, ...] | None]:
        """Returns the stream, and its key if it has one."""
        raise NotImplementedError

    @takes(window=WINDOW)
    def window(self, window: Window) -> WindowedStream:
        """Returns event-time windows, per key if there is one; without it they are computed in one partition."""
        stream, keys = self._grouped()
        return WindowedStream(stream, keys or (), window)

    @takes(calls=AGGREGATES, named=AGGREGATES, spill=SIZE.optional())
    def aggregate(
        self,
        *calls: Aggregate,
        name: str | None = None,
        parallelism: int | None = None,
        spill: Size | None = None,
        **named: Aggregate,
    ) -> Stream:
        """Returns a running aggregate per key, without windows: each change emits the key's new row. Without a key, it
        is one row over all rows, in one partition. With `spill`, such as "256 MB", the groups take about that much
        memory in each partition, and the rest spills to its worker's disk."""
        stream, keys = self._grouped()
        return _running(stream, keys or (), calls, named, name, parallelism, spill)

    @takes(k=COUNT, by=ORDERS, ties=FLAG, descending=FLAG, rank=COLUMN.optional(), ranking=TEXT.optional())
    def top(
        self,
        k: int,
        by: By,
        *,
        ties: bool = True,
        descending: bool = True,
        rank: str | None = None,
        ranking: RankName | None = None,
        name: str | None = None,
    ) -> Stream:
        """Returns the rows of each key, or of all rows, that rank at most `k` by expressions such as "price DESC".

        If the rows have window_start and window_end, they are ranked per window, when it closes. Otherwise the rows
        are ranked among all so far, and a row that is overtaken is removed, as a running aggregate replaces rows.

        `ranking` is "rank" (rows that tie share a rank, and all of them are kept), "dense_rank" (without gaps) or
        "row_number" (exactly k rows; those that tie are ordered by all their columns, in the direction of the first
        expression). Without it, `ties` chooses rank or row_number. `rank` names a column that gets it. The highest come
        first, unless an expression ends with ASC or `descending` is false."""
        stream, keys = self._grouped()
        wanted = ranking_of(stream._node, k, by, ties, descending, rank, ranking)
        return stream._add(plan.TopNode, "top", name, **top_fields(stream._node, keys or (), None, wanted))

    @takes(
        function=APPLIED,
        schema=SCHEMA,
        outputs=SCHEMAS.optional(),
        inputs=STREAMS.optional(),
        spill=SIZE.optional(),
        upsert_key=COLUMNS.optional(),
    )
    def apply(
        self,
        function: Function,
        schema: pa.Schema | str,
        *,
        outputs: Mapping[str, pa.Schema | str] | None = None,
        inputs: Mapping[str, Stream] | None = None,
        name: str | None = None,
        parallelism: int | None = None,
        spill: Size | None = None,
        upsert_key: str | Sequence[str] | None = None,
    ) -> AppliedStream:
        """Applies your own function to batches, with state, timers and critical messages (see `stretto.Function`).

        `schema` is that of the output "out". `outputs` names further outputs, read with `.output(name)`. `inputs` names
        further input streams; `ctx.input` is the name of the current one (this stream is "in"). With `spill`, such as
        "256 MB", each map state takes about that much memory in each partition, and spills the rest to its worker's
        disk. With `upsert_key`, a row of "out" replaces earlier rows with the same values in these columns, as in a
        running aggregate: `results()` has the last ones. The rows of one upsert key must come from one partition.

        After `key_by`, all rows of one key are at the same instance."""
        return _apply(*self._grouped(), function, schema, outputs, inputs, name, parallelism, spill, upsert_key)


class Stream(JoinVerbs, GroupVerbs):
    """A named stream of rows: the rows of a source, or the result of a verb on other streams."""

    def __init__(self, app: App, node: plan.Node) -> None:
        self._app = app
        self._node = node

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise stream_attribute(self, name)

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def schema(self) -> pa.Schema:
        return self._node.schema

    @property
    def time(self) -> EventTime | None:
        """The event-time column, or None if the rows have none (any more)."""
        return self._node.time

    @takes(expressions=EXPRESSION, named=EXPRESSION)
    def select(
        self, *expressions: str, name: str | None = None, parallelism: int | None = None, **named: str
    ) -> Stream:
        """Returns columns of SQL expressions: `select("auction", "2 * price AS twice")`, `select(twice="2 * price")`.

        An expression with the name of a column replaces it in `*`: `select("*", price="2 * price")`."""
        texts = [*expressions, *(f"{text} AS {quoted(alias)}" for alias, text in named.items())]
        if not texts:
            raise PlanError(
                f"select on '{self.name}' has no expressions", None, 'Name columns, or "*" for all of them.'
            )
        texts = star_replaced(f"select on '{self.name}'", self.schema, texts)
        return self._projected("select", texts, name, parallelism)

    @takes(column=COLUMN, expression=EXPRESSION)
    def with_column(
        self, column: str, expression: str, *, name: str | None = None, parallelism: int | None = None
    ) -> Stream:
        """Returns all columns and one more, or with one replaced: `with_column("euros", "0.9 * price")`"""
        texts = with_columns(f"with_column on '{self.name}'", self.schema, {column: expression})
        return self._projected("with_column", texts, name, parallelism)

    @takes(columns=EXPRESSIONS.optional(), named=EXPRESSION)
    def with_columns(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
        **named: str,
    ) -> Stream:
        """Returns all columns, some of them replaced, and new ones: `with_columns({"euros": "0.9 * price"})`. The
        expressions are over the columns as they were."""
        texts = with_columns(f"with_columns on '{self.name}'", self.schema, {**(columns or {}), **named})
        return self._projected("with_columns", texts, name, parallelism)

    @takes(columns=COLUMNS)
    def drop(self, *columns: str | Sequence[str], name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns all columns but these."""
        texts = without(f"drop on '{self.name}'", self.schema, _flat(columns))
        return self._projected("drop", texts, name, parallelism)

    @takes(columns=NAMES)
    def rename(self, columns: Mapping[str, str], *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns all columns, some under new names: `rename({"old": "new"})`"""
        texts = renamed(f"rename on '{self.name}'", self.schema, columns)
        return self._projected("rename", texts, name, parallelism)

    def _projected(self, verb: str, texts: Sequence[str], name: str | None, parallelism: int | None) -> Stream:
        projection = compile_projection(texts, self.schema)
        kept: dict[str, str] = {}
        for output, source in projection.passthrough.items():
            if source not in kept or output == source:
                kept[source] = output
        time = self.time
        if time is not None:
            time = EventTime(kept[time.column], time.offset_us) if time.column in kept else None
        if self._node.changes and projection.generator is not None:
            raise PlanError(
                f"{verb} on '{self.name}' makes rows of rows that change",
                projection.generator.text,
                "One new row could not replace many: make rows before the aggregate.",
            )
        changes_by, removes = selected_changes(self._node, kept)
        return self._add(
            plan.SelectNode,
            verb,
            name,
            schema=projection.schema,
            time=time,
            parallelism=parallelism,
            changes_by=changes_by,
            removes=removes,
            projection=projection,
        )

    @takes(expression=EXPRESSION)
    def filter(self, expression: str, *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """Returns the rows for which a Spark SQL expression is true. After a running aggregate it is SQL's HAVING."""
        predicate = compile_predicate(expression, self.schema)
        return self._add(
            plan.FilterNode,
            "filter",
            name,
            parallelism=parallelism,
            predicate=predicate,
            removes=filter_removes(self._node, predicate.columns),
        )

    @takes(function=FUNCTION, schema=SCHEMA.optional())
    def map(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        schema: pa.Schema | str | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Applies a Python function from a record batch to a record batch with as many rows.

        Without `schema`, the function is called once, now, with an empty batch to infer its schema."""
        return self._python("map", function, schema, name, parallelism)

    @takes(function=FUNCTION, schema=SCHEMA.optional())
    def flat_map(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: pa.Schema | str | None = None,
        *,
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Applies a Python function from a record batch to a batch, or an iterable of batches, of any size."""
        return self._python("flat_map", function, schema, name, parallelism)

    def _python(
        self,
        verb: str,
        function: Callable[[pa.RecordBatch], Any],
        schema: pa.Schema | str | None,
        name: str | None,
        parallelism: int | None,
    ) -> Stream:
        self._only_added(verb)
        if name is None:
            named = getattr(function, "__name__", verb)
            name = self._app.free_name(named if named.isidentifier() else f"{self.name}.{verb}")
        declared = declared_schema(schema) if schema is not None else self._learn_schema(verb, name, function)
        return self._add(
            plan.MapNode,
            verb,
            name,
            schema=declared,
            time=self._time_in(declared),
            parallelism=parallelism,
            function=function,
            rows_kept=verb == "map",
        )

    def _learn_schema(self, verb: str, name: str, function: Callable[[pa.RecordBatch], Any]) -> pa.Schema:
        empty = pa.RecordBatch.from_pylist([], schema=self.schema)
        try:
            result = function(empty)
            if not isinstance(result, pa.RecordBatch | pa.Table) and isinstance(result, Iterable):
                result = next(iter(result), None)
        except Exception as error:
            raise PlanError(
                f"{verb} function '{name}' has no schema, and calling it with an empty batch raised",
                error_text(error),
                "Pass schema='column type, ...', or let the function accept an empty batch.",
            ) from error
        if not isinstance(result, pa.RecordBatch | pa.Table):
            raise PlanError(
                f"{verb} function '{name}' has no schema, and none can be inferred from an empty batch",
                f"it returned {type(result).__name__}",
                "Pass schema='column type, ...'.",
            )
        return result.schema

    def _time_in(self, schema: pa.Schema) -> EventTime | None:
        time = self.time
        if time is None or time.column not in schema.names:
            return None
        return time if pa.types.is_timestamp(schema.field(time.column).type) else None

    @takes(columns=COLUMNS)
    def key_by(self, *columns: str | Sequence[str]) -> KeyedStream:
        """Returns the same rows with a key: rows of one key are processed in one partition, in order.

        A key is a column or an expression, which becomes a column: `key_by("auction", "lower(name) AS name_lower")`.
        """
        names = _flat(columns)
        if not names:
            raise PlanError(f"key_by on '{self.name}' names no column", None, "Name at least one column.")
        keys, texts = keys_of(f"key_by on '{self.name}'", self.schema, names)
        return KeyedStream(self if texts is None else self._projected("key_by", texts, None, None), keys)

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
            fields = last_fields(self._node, _flat(columns), within)
            return self._add(plan.TopNode, "drop_duplicates", name, parallelism=parallelism, **fields)
        if within is not None:
            self._event_time("drop_duplicates within a time")
        fields = first_fields(self._node, _flat(columns), within)
        return self._add(plan.DistinctNode, "drop_duplicates", name, parallelism=parallelism, **fields)

    @takes(others=STREAM)
    def union(self, *others: Stream, name: str | None = None) -> Stream:
        """Returns the rows of all these streams, which must have equal columns."""
        for other in others:
            self._same_app(other)
            if not other.schema.equals(self.schema):
                raise PlanError(
                    f"union of '{self.name}' and '{other.name}': their columns differ",
                    f"{_columns(self.schema)} and {_columns(other.schema)}",
                    "Use select to give both the same columns, names and types.",
                )
        if not others:
            raise PlanError(f"union on '{self.name}' has no other stream")
        time = self.time if all(other.time == self.time for other in others) else None
        return self._add(
            plan.UnionNode,
            "union",
            name,
            inputs=(self.name, *(other.name for other in others)),
            time=time,
            # Two streams may have rows of the same key, so that one cannot replace those of the other.
            changes_by=None,
            removes=any(stream._node.changes for stream in (self, *others)),
        )

    @takes(sink=SINK)
    def sink(self, sink: Sink, *, name: str | None = None, parallelism: int | None = None) -> Stream:
        """End the stream in a sink; returns the stream, so that more sinks and verbs can follow."""
        check_sink(self._node, sink)
        sink.check(weighted_schema(self.schema) if self._node.removes else self.schema)
        self._add(plan.SinkNode, "sink", name, parallelism=parallelism, sink=sink)
        return self

    def _add(self, kind: type[plan.Node], verb: str, name: str | None, **fields: Any) -> Stream:
        return Stream(self._app, self._node_for(kind, verb, name, **fields))

    def _node_for(self, kind: type[plan.Node], verb: str, name: str | None, **fields: Any) -> plan.Node:
        fields.setdefault("inputs", (self.name,))
        fields.setdefault("schema", self.schema)
        fields.setdefault("time", self.time)
        fields.setdefault("changes_by", self._node.changes_by)
        fields.setdefault("removes", self._node.removes)
        _positive_parallelism(fields.get("parallelism"), name or verb)
        node: plan.Node = kind(name=name or self._app.free_name(f"{self.name}.{verb}"), **fields)
        return self._app.add_node(node)

    def _grouped(self) -> tuple[Stream, tuple[str, ...] | None]:
        return self, None

    def _event_time(self, verb: str) -> EventTime:
        if self.time is None:
            raise PlanError(
                f"{verb} needs event time, and stream '{self.name}' has none",
                "its source names no time column, or a select or map dropped it",
                "Give time='column' at the source and keep that column.",
            )
        return self.time

    def _only_added(self, verb: str) -> None:
        check_only_added(self._node, verb)

    def _same_app(self, other: Stream) -> None:
        if other._app is not self._app:
            raise PlanError(f"streams '{self.name}' and '{other.name}' belong to different apps")


class AppliedStream(Stream):
    """The first output of an applied function; `output` returns the others."""

    @takes(name=TEXT, upsert_key=COLUMNS.optional())
    def output(self, name: str, *, upsert_key: str | Sequence[str] | None = None) -> Stream:
        """Returns a further output. `upsert_key` is as in `apply`."""
        node = self._node
        assert isinstance(node, plan.ApplyNode)
        if name not in node.outputs:
            known = ", ".join(sorted(node.outputs)) or "none"
            raise PlanError(f"function '{self.name}' has no output '{name}'", f"declared outputs: {known}")
        schema = node.outputs[name]
        return self._add(
            plan.OutputNode,
            name,
            None,
            schema=schema,
            time=self._time_in(schema),
            output=name,
            changes_by=_upsert_key(schema, upsert_key),
        )


class KeyedStream(GroupVerbs):
    """A stream with a key, for windows, running aggregates and functions with state."""

    def __init__(self, stream: Stream, keys: Sequence[str]) -> None:
        self._stream = stream
        self._keys = tuple(keys)

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise group_attribute(self, name)

    def _grouped(self) -> tuple[Stream, tuple[str, ...] | None]:
        return self._stream, self._keys


class WindowedStream:
    """A stream divided into windows, with or without a key, for `aggregate` or `top`."""

    def __init__(self, stream: Stream, keys: tuple[str, ...], window: Window, lateness_us: int = 0) -> None:
        stream._only_added("window")
        if isinstance(window, Span):
            for column in (window.start, window.end):
                scalar = compile_scalar(f"`{column}`", stream.schema)
                if not pa.types.is_timestamp(scalar.type):
                    raise PlanError(f"a span needs timestamps, and '{column}' is {scalar.type}")
            self._time: EventTime | None = stream.time
        else:
            self._time = stream._event_time("a window")
        self._stream = stream
        self._keys = keys
        self._window = window
        self._lateness_us = lateness_us

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise group_attribute(self, name)

    @takes(lateness=DURATION)
    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keep windows for this long after they close; a late row emits the updated result of its window again."""
        lateness_us = duration_us(lateness, "the allowed lateness")
        if lateness_us < 0:
            raise PlanError("the allowed lateness is negative", repr(lateness), "Give zero or a positive duration.")
        return WindowedStream(self._stream, self._keys, self._window, lateness_us)

    @takes(calls=AGGREGATES, named=AGGREGATES, spill=SIZE.optional())
    def aggregate(
        self,
        *calls: Aggregate,
        name: str | None = None,
        parallelism: int | None = None,
        spill: Size | None = None,
        **named: Aggregate,
    ) -> Stream:
        """Returns one row per key and window, when the window closes: keys, window_start, window_end, the aggregates.

        Without aggregates, it returns the distinct keys of each window."""
        stream = self._stream
        if spill is not None:
            raise PlanError(
                "windows do not spill",
                f"spill={spill!r}",
                "Remove spill: a closed window is dropped.",
            )
        window = [pa.field("window_start", TIMESTAMP), pa.field("window_end", TIMESTAMP)]
        leading = [*(stream.schema.field(key) for key in self._keys), *window]
        time = None if self._time is None else self._time.column
        parsed = grouping(stream.name, stream.schema, leading, time, calls, named)
        refuse_arrival(stream.name, parsed.calls)
        keyed_by_window = (*self._keys, "window_start", "window_end")
        aggregated = stream._add(
            plan.WindowAggregateNode,
            "window",
            name,
            schema=parsed.schema,
            # A session may still grow when the watermark has just reached its end, so it is emitted one step later.
            time=EventTime("window_end", 0 if isinstance(self._window, Session) else 1),
            parallelism=_keyed_parallelism(parallelism, self._keys, stream.name),
            changes_by=keyed_by_window if self._lateness_us else None,
            keys=self._keys,
            window=self._window,
            calls=parsed.calls,
            lateness_us=self._lateness_us,
        )
        return _selected(aggregated, parsed)

    @takes(k=COUNT, by=ORDERS, ties=FLAG, descending=FLAG, rank=COLUMN.optional(), ranking=TEXT.optional())
    def top(
        self,
        k: int,
        by: By,
        *,
        ties: bool = True,
        descending: bool = True,
        rank: str | None = None,
        ranking: RankName | None = None,
        name: str | None = None,
    ) -> Stream:
        """Returns the rows ranked at most `k` (see `KeyedStream.top`), per key and window, when the window closes."""
        if self._lateness_us:
            raise PlanError("top does not take allowed lateness", None, "Aggregate with lateness first, or drop it.")
        stream = self._stream
        wanted = ranking_of(stream._node, k, by, ties, descending, rank, ranking)
        return stream._add(plan.TopNode, "top", name, **top_fields(stream._node, self._keys, self._window, wanted))


def _flat(columns: Sequence[str | Sequence[str]]) -> list[str]:
    """Returns the names of columns that are given one by one or in lists."""
    return [name for given in columns for name in ([given] if isinstance(given, str) else given)]


def declared_schema(schema: pa.Schema | str) -> pa.Schema:
    return parse_schema(schema) if isinstance(schema, str) else schema


def _running(
    stream: Stream,
    keys: tuple[str, ...],
    calls: Sequence[Aggregate],
    named: Mapping[str, Aggregate],
    name: str | None,
    parallelism: int | None,
    spill: Size | None,
) -> Stream:
    """Returns a running aggregate per key; without keys, over all rows."""
    check_spill(stream._node, spill)
    time = None if stream.time is None else stream.time.column
    parsed = grouping(stream.name, stream.schema, [stream.schema.field(key) for key in keys], time, calls, named)
    if stream._node.changes:
        refuse_arrival(stream.name, parsed.calls, "over rows that change")
    if not parsed.calls:
        raise PlanError(f"aggregate on '{stream.name}' computes nothing", None, 'Add one, such as "count(*)".')
    if spill is not None and not keys:
        raise PlanError("an aggregate without a key does not spill", "it has one group", "Remove spill.")
    aggregated = stream._add(
        plan.AggregateNode,
        "aggregate",
        name,
        schema=parsed.schema,
        time=None,
        parallelism=_keyed_parallelism(parallelism, keys, stream.name, "an aggregate"),
        changes_by=keys,
        removes=stream._node.changes,
        keys=keys,
        calls=parsed.calls,
        spill_bytes=spill_of_groups(parsed.calls, spill),
    )
    return _selected(aggregated, parsed)


def _selected(aggregated: Stream, parsed: Grouping) -> Stream:
    """Returns the results of what is more than a call, by a select after the aggregate."""
    return aggregated if parsed.select is None else aggregated._projected("select", parsed.select, None, None)


def _apply(
    stream: Stream,
    keys: tuple[str, ...] | None,
    function: Function,
    schema: pa.Schema | str,
    outputs: Mapping[str, pa.Schema | str] | None,
    inputs: Mapping[str, Stream] | None,
    name: str | None,
    parallelism: int | None,
    spill: Size | None,
    upsert_key: str | Sequence[str] | None,
) -> AppliedStream:
    stream._only_added("apply")
    further = dict(inputs or {})
    for other in further.values():
        stream._same_app(other)
        other._only_added("apply")
        for key in keys or ():
            compile_scalar(f"`{key}`", other.schema)
    if keys is None and parallelism is None and function.discipline is not STATELESS:
        # State without a key belongs together unless the user says otherwise.
        parallelism = 1
    declared = declared_schema(schema)
    node = stream._node_for(
        plan.ApplyNode,
        "apply",
        name or stream._app.free_name(type(function).__name__),
        inputs=(stream.name, *(other.name for other in further.values())),
        schema=declared,
        time=stream._time_in(declared),
        parallelism=parallelism,
        function=function,
        keys=keys,
        input_names=("in", *further),
        outputs={output: declared_schema(text) for output, text in (outputs or {}).items()},
        spill_bytes=spill_of_function(function, spill),
        changes_by=_upsert_key(declared, upsert_key),
    )
    return AppliedStream(stream._app, node)


def _upsert_key(schema: pa.Schema, columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Returns the columns by which rows replace earlier ones, with the names that the schema has."""
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else columns
    if not names:
        raise PlanError("an upsert key has no column", None, "Name at least one, or leave upsert_key out.")
    return tuple(compile_scalar(f"`{name}`", schema).column or name for name in names)


def _positive_parallelism(parallelism: int | None, name: str) -> None:
    if parallelism is not None and parallelism < 1:
        raise PlanError(f"the parallelism of '{name}' must be at least 1", f"it is {parallelism}")


def _keyed_parallelism(
    parallelism: int | None, keys: tuple[str, ...], stream: str, what: str = "a window"
) -> int | None:
    if parallelism is not None and parallelism > 1 and not keys:
        raise PlanError(
            f"{what} without a key on '{stream}' has one partition",
            f"a parallelism of {parallelism} was requested",
            "Key the stream with key_by, or remove the parallelism.",
        )
    return parallelism


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"
