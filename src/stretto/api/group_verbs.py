"""The verbs that a stream has as a whole and with a key: windows, running aggregates, top, and functions with state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from stretto.actors.discipline import STATELESS
from stretto.actors.function import Function
from stretto.api import plan
from stretto.api.arguments import (
    AGGREGATES,
    COLUMN,
    COLUMNS,
    COUNT,
    FLAG,
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
from stretto.api.changes import check_spill
from stretto.api.grouping import Aggregate, grouping, refuse_arrival
from stretto.api.grouping_sets import GroupingSets
from stretto.api.join_verbs import STREAM
from stretto.api.pyspark_words import group_attribute
from stretto.api.ranking import By, RankName, ranking_of, top_fields
from stretto.api.spilling import Size, spill_of_function, spill_of_groups
from stretto.api.step import Step, declared_schema, keyed_parallelism, selected
from stretto.api.windowed_stream import WindowedStream
from stretto.errors import PlanError
from stretto.expressions import compile_scalar
from stretto.operators.windows import Window

if TYPE_CHECKING:
    from stretto.api.stream import AppliedStream, Stream


STREAMS = Kind("a dict of streams by the names of inputs", mapping_of(STREAM))
APPLIED = Kind(
    "a stretto.Function",
    lambda value: isinstance(value, Function),
    lambda value: "Subclass stretto.Function; for a plain Python function use map or flat_map.",
)


class AggregateVerbs:
    """The verbs that aggregate: over all rows, for each key, or for each grouping set."""

    _sets: GroupingSets | None = None

    def _grouped(self) -> tuple[Step, tuple[str, ...] | None]:
        """Returns the step of the stream, and its key if it has one."""
        raise NotImplementedError

    @takes(window=WINDOW)
    def window(self, window: Window) -> WindowedStream:
        """Returns event-time windows, per key if there is one; without it they are computed in one partition."""
        stream, keys = self._grouped()
        return WindowedStream(stream, keys or (), window, self._sets)

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
        return _running(stream, keys or (), self._sets, calls, named, name, parallelism, spill)


class GroupVerbs(AggregateVerbs):
    """The verbs that a stream has as a whole, and with a key for each key."""

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
        wanted = ranking_of(stream.node, k, by, ties, descending, rank, ranking)
        return stream.add(plan.TopNode, "top", name, **top_fields(stream.node, keys or (), None, wanted)).stream

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


class KeyedStream(GroupVerbs):
    """A stream with a key, for windows, running aggregates and functions with state."""

    def __init__(self, step: Step, keys: Sequence[str]) -> None:
        self._step = step
        self._keys = tuple(keys)

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise group_attribute(self, name)

    def _grouped(self) -> tuple[Step, tuple[str, ...] | None]:
        return self._step, self._keys


class GroupingSetsStream(AggregateVerbs):
    """A stream with several sets of keys, for aggregates in windows and running ones. Each result has all keys; those
    that are not in its set are NULL, which `grouping(key)` and `grouping_id()` tell from a NULL of the rows."""

    def __init__(self, step: Step, sets: GroupingSets) -> None:
        self._step = step
        self._sets = sets

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise group_attribute(self, name)

    def _grouped(self) -> tuple[Step, tuple[str, ...] | None]:
        return self._step, () if self._sets is None else self._sets.columns


def _running(
    stream: Step,
    keys: tuple[str, ...],
    sets: GroupingSets | None,
    calls: Sequence[Aggregate],
    named: Mapping[str, Aggregate],
    name: str | None,
    parallelism: int | None,
    spill: Size | None,
) -> Stream:
    """Returns a running aggregate per key; without keys, over all rows."""
    check_spill(stream.node, spill)
    time = None if stream.time is None else stream.time.column
    parsed = grouping(stream.name, stream.schema, [stream.schema.field(key) for key in keys], time, calls, named, sets)
    if stream.node.changes:
        refuse_arrival(stream.name, parsed.calls, "over rows that change")
    if not parsed.calls:
        raise PlanError(f"aggregate on '{stream.name}' computes nothing", None, 'Add one, such as "count(*)".')
    if spill is not None and not keys:
        raise PlanError("an aggregate without a key does not spill", "it has one group", "Remove spill.")
    aggregated = stream.add(
        plan.AggregateNode,
        "aggregate",
        name,
        schema=parsed.schema,
        time=None,
        parallelism=keyed_parallelism(parallelism, keys, stream.name, "an aggregate"),
        changes_by=keys,
        removes=stream.node.changes,
        keys=keys,
        calls=parsed.calls,
        spill_bytes=spill_of_groups(parsed.calls, spill),
    )
    return selected(aggregated, parsed).stream


def _apply(
    stream: Step,
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
    stream.only_added("apply")
    further = {input_name: other._step for input_name, other in (inputs or {}).items()}
    for other in further.values():
        stream.same_app(other)
        other.only_added("apply")
        for key in keys or ():
            compile_scalar(f"`{key}`", other.schema)
    if keys is None and parallelism is None and function.discipline is not STATELESS:
        # State without a key belongs together unless the user says otherwise.
        parallelism = 1
    declared = declared_schema(schema)
    applied = stream.add(
        plan.ApplyNode,
        "apply",
        name or stream.app.free_name(type(function).__name__),
        inputs=(stream.name, *(other.name for other in further.values())),
        schema=declared,
        time=stream.time_in(declared),
        parallelism=parallelism,
        function=function,
        keys=keys,
        input_names=("in", *further),
        outputs={output: declared_schema(text) for output, text in (outputs or {}).items()},
        spill_bytes=spill_of_function(function, spill),
        changes_by=upsert_columns(declared, upsert_key),
    )
    return cast("AppliedStream", applied.stream)


def upsert_columns(schema: pa.Schema, columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Returns the columns by which rows replace earlier ones, with the names that the schema has."""
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else columns
    if not names:
        raise PlanError("an upsert key has no column", None, "Name at least one, or leave upsert_key out.")
    return tuple(compile_scalar(f"`{name}`", schema).column or name for name in names)
