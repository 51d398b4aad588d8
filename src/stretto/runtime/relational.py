"""The relational part of a plan as Spark DataFrames: one lowering for the batch twin and for micro-batches.

Every node becomes DataFrame operations over the frames of its inputs. Expressions are already Spark SQL, so this module
only decides shapes: how a window groups, how a top-k ranks, how two streams join. It never reads a source or starts a
query; `spark_sources.py` and `microbatch.py` do.

Results are those of ANSI mode and of the plan's time zone, independent of the session, because Spark fixes both when it
analyses an expression, and `to_dataframes` sets them while it builds.

Micro-batches need one more thing: Spark closes a window by the watermark only when the grouping column is marked as
event time, and the mark is lost by Python functions, by `window_end - 1 us`, and by windows of an earlier step. So each
stateful step marks its own time column again (`_timed`), and clears all other marks: Spark refuses more than one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import window as W
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from stretto import errors
from stretto.api.memory import canonical_schema, conform
from stretto.api.plan import (
    AggregateNode,
    DistinctNode,
    FilterNode,
    JoinNode,
    MapNode,
    Node,
    Plan,
    SelectNode,
    SinkNode,
    SourceNode,
    TableJoinNode,
    TopNode,
    UnionNode,
    WindowAggregateNode,
)
from stretto.api.relational import unsupported
from stretto.errors import EngineError, FunctionError, InvariantError, StrettoError
from stretto.expressions import AggregateCall
from stretto.expressions.scalar import quoted
from stretto.expressions.types import canonical, is_orderable
from stretto.expressions.udf import Udf
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Direction, Nearness
from stretto.operators.ranking import RankKind
from stretto.operators.stateless import PythonStep
from stretto.operators.user_aggregate import UserAggregate, value_column
from stretto.operators.windows import EventTime, Hopping, Session, Span, Tumbling, Window
from stretto.rendering import error_text, rows_shown, traceback_of
from stretto.runtime.code_store import local_modules

_TIME = "__stretto_time"
_WINDOW = "__stretto_window"
_ROWS = "__stretto_rows"
_RIGHT = "__stretto_right_"
_KEY = "__stretto_key"
_WINDOW_START, _WINDOW_END = "window_start", "window_end"

# Spark's own metadata keys: the first marks a column as event time for stateful operators; the second as a window.
_EVENT_TIME = {"spark.watermarkDelayMs": 0}
_EVENT_WINDOW = {"spark.watermarkDelayMs": 0, "spark.timeWindow": True}
_NO_MARK = {"stretto.plain": True}

_SPARK_KINDS = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "left",
    JoinKind.RIGHT: "right",
    JoinKind.FULL: "full",
    JoinKind.SEMI: "left_semi",
    JoinKind.ANTI: "left_anti",
}
_RANKS = {RankKind.ROW_NUMBER: F.row_number, RankKind.RANK: F.rank, RankKind.DENSE_RANK: F.dense_rank}
_ACTORS_INSTEAD = 'Run it with engine="actors".'


def to_dataframes(
    plan: Plan, spark: SparkSession, frames: dict[str, DataFrame], streaming: bool
) -> dict[str, DataFrame]:
    """Returns the DataFrame of each sink's rows, by name. `frames` has one DataFrame per source, by name.

    Raises an EngineError that names the node which Spark cannot express.
    """
    reason = unsupported(plan, streaming)
    if reason is not None:
        engine = "micro-batches" if streaming else "a batch DataFrame"
        raise EngineError(f"app '{plan.app}' cannot run as {engine}", reason, _ACTORS_INSTEAD)
    lowering = _Lowering(plan, frames, streaming)
    settings = {"spark.sql.session.timeZone": plan.zone, "spark.sql.ansi.enabled": "true"}
    with session_settings(spark, settings), shipped_by_value(*_functions(plan)), _registered(plan, spark):
        for node in plan.nodes.values():
            lowering.add(node)
    return {node.name: lowering.frames[node.name] for node in plan.sinks}


@contextmanager
def session_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Sets settings of a session for the time of a block, and restores them afterwards."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


@contextmanager
def shipped_by_value(*things: Any) -> Iterator[None]:
    """Pickles by value, for the time of a block, the modules that define these functions or the classes of these
    objects, since a Python process of Spark may not be able to import them."""
    names = {getattr(thing, "__module__", None) for thing in things}
    known = cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    modules = [module for module in local_modules({n for n in names if n}) if module.__name__ not in known]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


@contextmanager
def _registered(plan: Plan, spark: SparkSession) -> Iterator[None]:
    """Makes the app's functions known to Spark's analyser while the DataFrames are built; they refer to the functions
    themselves afterwards."""
    udfs = plan.udfs.values()
    for udf in udfs:
        if spark.catalog.functionExists(udf.name):
            raise EngineError(
                f"app '{plan.app}' cannot give its function '{udf.name}' to Spark",
                "the session has a function of this name",
                "Rename one of them.",
            )
    try:
        for udf in udfs:
            spark.udf.register(udf.name, _as_arrow_udf(udf))
        yield
    finally:
        for udf in udfs:
            spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quoted(udf.name)}")


def _as_arrow_udf(udf: Udf) -> Any:
    """Returns a user's scalar function as Spark's. Its columns have the types that it gets from actors."""

    def run(*columns: pa.Array) -> pa.Array:
        plain = [column.cast(canonical(column.type)) for column in columns]
        return udf.evaluate(plain, len(plain[0]))

    # Spark derives its kind from the type hints; the stubs require an argument, which is deprecated.
    made: Any = arrow_udf
    return made(run, from_arrow_type(udf.type, False))


def _functions(plan: Plan) -> Iterator[Any]:
    yield from (udf.function for udf in plan.udfs.values())
    for node in plan.nodes.values():
        match node:
            case MapNode():
                yield node.function
            case WindowAggregateNode() | AggregateNode():
                for call in node.calls:
                    if isinstance(call, UserAggregate):
                        yield from (call.init, call.add, call.combine, call.finish)


class _Lowering:
    """Builds the DataFrame of each node in topological order."""

    def __init__(self, plan: Plan, frames: dict[str, DataFrame], streaming: bool) -> None:
        self.plan = plan
        self.sources = frames
        self.streaming = streaming
        self.frames: dict[str, DataFrame] = {}

    def add(self, node: Node) -> None:
        try:
            frame = self._lower(node, [self.frames[name] for name in node.inputs])
            self.frames[node.name] = frame.select(*(_column(name) for name in node.schema.names))
        except AnalysisException as error:
            raise EngineError(
                f"Spark cannot express '{node.name}'", str(error).split("\n")[0], _ACTORS_INSTEAD
            ) from error

    def _lower(self, node: Node, inputs: list[DataFrame]) -> DataFrame:
        match node:
            case SourceNode():
                return self.sources[node.name]
            case SelectNode():
                return inputs[0].selectExpr(*node.projection.sql)
            case FilterNode():
                return inputs[0].filter(F.expr(node.predicate.sql))
            case MapNode():
                return self._map(node, inputs[0])
            case UnionNode():
                frame, *others = inputs
                for other in others:
                    frame = frame.unionByName(other)
                return frame
            case WindowAggregateNode():
                frame, window = self._windowed(inputs[0], node.window, self._time(node))
                return self._aggregated(node, frame, [window], node.keys)
            case AggregateNode():
                return self._aggregated(node, inputs[0], [], node.keys)
            case TopNode():
                return self._top(node, inputs[0])
            case DistinctNode():
                return self._distinct(node, inputs[0])
            case JoinNode():
                return self._join(node, *inputs)
            case TableJoinNode():
                return self._table_join(node, inputs[0])
            case SinkNode():
                return inputs[0]
        raise InvariantError(f"no lowering for a {type(node).__name__}", f"'{node.name}'")

    def _time(self, node: Node, side: int = 0) -> EventTime | None:
        return self.plan.nodes[node.inputs[side]].time

    def _map(self, node: MapNode, frame: DataFrame) -> DataFrame:
        step = PythonStep(node.name, node.function, node.schema, node.rows_kept)
        given = self.plan.nodes[node.inputs[0]].schema
        return frame.mapInArrow(_over_batches(step, given), spark_schema(node.schema))

    def _windowed(self, frame: DataFrame, window: Window | None, time: EventTime | None) -> tuple[DataFrame, Column]:
        """Returns the frame and the column to group by. Without a window, rows have window_start and window_end from an
        earlier step."""
        if window is None or isinstance(window, Span):
            span = window or Span(_WINDOW_START, _WINDOW_END)
            start, end = _column(span.start), _column(span.end)
            bounds = F.struct(start.alias("start"), end.alias("end")).alias(_WINDOW, metadata=_EVENT_WINDOW)
            return _timed(frame.filter(start.isNotNull() & end.isNotNull()), bounds), _column(_WINDOW)
        if time is None:
            raise InvariantError("a window over rows without event time")
        frame = _timed(frame, _event_time(time).alias(_TIME, metadata=_EVENT_TIME))
        if isinstance(window, Session):
            return frame, F.session_window(_TIME, _micros(window.gap_us)).alias(_WINDOW)
        return frame, _time_window(window)

    def _aggregated(
        self, node: WindowAggregateNode | AggregateNode, frame: DataFrame, windows: list[Column], keys: Sequence[str]
    ) -> DataFrame:
        given = self.plan.nodes[node.inputs[0]].schema
        # The count makes a grouping without calls valid, and lets an empty input have no row, also without keys.
        wanted = [F.count(F.lit(1)).alias(_ROWS), *(self._call(call) for call in node.calls)]
        grouped = frame.groupBy(*map(_column, keys), *windows).agg(*wanted).filter(_column(_ROWS) > 0)
        values = [
            _over_rows(call, given)(_column(call.name)).alias(call.name)
            if isinstance(call, UserAggregate)
            else _column(call.name)
            for call in node.calls
        ]
        bounds = [_column(f"{_WINDOW}.{part}", 1).alias(f"window_{part}") for part in ("start", "end") if windows]
        return grouped.select(*map(_column, keys), *bounds, *values)

    def _call(self, call: AggregateCall | UserAggregate) -> Column:
        if isinstance(call, UserAggregate):
            return F.collect_list(F.struct(*map(_column, call.columns))).alias(call.name)
        if self.streaming and call.function == "count_distinct" and call.argument is not None:
            return F.expr(f"CAST(size(collect_set({call.argument.sql})) AS bigint)").alias(call.name)
        return F.expr(call.sql).alias(call.name)

    def _top(self, node: TopNode, frame: DataFrame) -> DataFrame:
        """Lowers a top-k. Ties are kept, or broken by the other columns in their order and in the direction of the
        first expression."""
        names = self.plan.nodes[node.inputs[0]].schema.names
        window: list[Column] = []
        if not node.running:
            frame, column = self._windowed(frame, node.window, self._time(node))
            if self.streaming or isinstance(node.window, Session):
                return _top_of_lists(node, frame, column, names)
            frame = frame if node.window is None or isinstance(node.window, Span) else frame.select("*", column)
            window = [_column(_WINDOW)]
        ranking = node.ranking
        orders = [(F.expr(order.by.sql), order.descending) for order in ranking.orders]
        if ranking.kind is RankKind.ROW_NUMBER:
            orders += [(_column(name), ranking.directions[0]) for name in names]
        ordered = [column.desc() if descending else column.asc() for column, descending in orders]
        over = W.Window.partitionBy(*map(_column, node.keys), *window).orderBy(*ordered)
        ranked = frame.select("*", _RANKS[ranking.kind]().over(over).alias(_ROWS)).filter(_column(_ROWS) <= ranking.k)
        rank = [] if ranking.column is None else [_column(_ROWS).alias(ranking.column)]
        return ranked.select(*map(_column, names), *([] if node.running else _bounds(names)), *rank)

    def _distinct(self, node: DistinctNode, frame: DataFrame) -> DataFrame:
        if node.within_us is None:
            return frame.dropDuplicates(list(node.keys))
        return _marked(frame, self._time(node)).dropDuplicatesWithinWatermark(list(node.keys))

    def _join(self, node: JoinNode, left: DataFrame, right: DataFrame) -> DataFrame:
        left_time, right_time = node.left_time or self._time(node), node.right_time or self._time(node, 1)
        visible = [len(frame.columns) - hidden for frame, hidden in zip((left, right), node.hidden, strict=True)]
        # New names for all columns of the right side: nothing is ambiguous, even in a self-join.
        renamed = dict(zip(right.columns[: visible[1]], node.pair.names[visible[0] :], strict=False))
        conditions = [_column(one) == _column(renamed.get(other, _RIGHT + other)) for one, other in node.on]
        if node.window is not None or node.windowed:
            left, right = self._in_windows(node, left, left_time), self._in_windows(node, right, right_time)
            conditions.append(_column(_WINDOW) == _column(_RIGHT + _WINDOW))
        else:
            left, right = _marked(left, left_time), _marked(right, right_time)
        if node.lower is not None or node.upper is not None:
            assert right_time is not None
            conditions += _interval(node, EventTime(renamed[right_time.column], right_time.offset_us))
        if node.residual is not None:
            conditions.append(F.expr(node.residual.sql))
        right = right.select(*(_column(name).alias(renamed.get(name, _RIGHT + name)) for name in right.columns))
        if node.nearness is not None:
            assert left_time is not None
            assert right_time is not None
            times = _event_time(left_time), _event_time(EventTime(renamed[right_time.column], right_time.offset_us))
            left = left.withColumn(_ROWS, F.monotonically_increasing_id())
            conditions += _near(node.nearness, *times)
        joined = left.join(right, reduce(Column.__and__, conditions), _SPARK_KINDS[node.how])
        if node.nearness is not None:
            joined = _nearest_only(joined, node.nearness, *times, list(node.pair)[visible[0] :])
        return joined.select(*self._joined_columns(node))

    def _joined_columns(self, node: JoinNode) -> list[Column]:
        """Returns the columns of a join's result. The window is that of either side, if the other one is missing."""
        columns = [_column(name) for name in node.schema.names]
        if node.window is None:
            return columns
        window = _column(_WINDOW)
        if node.how.tracks_right:
            window = F.coalesce(window, _column(_RIGHT + _WINDOW))
        return columns[:-2] + [window.getField(part).alias(f"window_{part}") for part in ("start", "end")]

    def _table_join(self, node: TableJoinNode, left: DataFrame) -> DataFrame:
        """Lowers a join with a table. Keys are columns of their own, since their texts name the columns of one side."""
        width = len(left.columns) - node.hidden
        left = left.select(*map(_column, left.columns[:width])) if node.hidden else left
        right = left.sparkSession.createDataFrame(node.table, spark_schema(node.table.schema))
        names = dict(zip(right.columns, node.pair.names[width:], strict=True))
        lefts, rights = ([F.expr(key[side].sql) for key in node.keys] for side in (0, 1))
        left = left.select("*", *(key.alias(f"{_KEY}{i}") for i, key in enumerate(lefts)))
        right = right.select(
            *(_column(name).alias(new) for name, new in names.items()),
            *(key.alias(f"{_RIGHT}{_KEY}{i}") for i, key in enumerate(rights)),
        )
        conditions = [_column(f"{_KEY}{i}") == _column(f"{_RIGHT}{_KEY}{i}") for i in range(len(node.keys))]
        if node.residual is not None:
            conditions.append(F.expr(node.residual.sql))
        right = right if node.partition_by is not None else F.broadcast(right)
        return left.join(right, reduce(Column.__and__, conditions), _SPARK_KINDS[node.how])

    def _in_windows(self, node: JoinNode, frame: DataFrame, time: EventTime | None) -> DataFrame:
        framed, window = self._windowed(frame, node.window, time)
        return framed if node.window is None else framed.select("*", window)


# Columns


def _column(name: str, struct_fields: int = 0) -> Column:
    """Returns a column by its exact name; with `struct_fields`, the last dots lead into a struct."""
    parts = name.rsplit(".", struct_fields) if struct_fields else [name]
    return F.col(".".join(quoted(part) for part in parts))


def _micros(amount_us: int) -> str:
    return f"{amount_us} microseconds"


def _event_time(time: EventTime) -> Column:
    column = _column(time.column)
    return column - F.expr(f"INTERVAL {time.offset_us} MICROSECONDS") if time.offset_us else column


def _time_window(window: Tumbling | Hopping) -> Column:
    slide_us = window.slide_us
    start = _micros(window.origin_us % slide_us)
    return F.window(_TIME, _micros(window.size_us), _micros(slide_us), start).alias(_WINDOW)


def _unmarked(frame: DataFrame) -> list[Column]:
    return [_column(name).alias(name, metadata=_NO_MARK) for name in frame.columns]


def _timed(frame: DataFrame, time: Column) -> DataFrame:
    """Returns the frame with one more column, the only one that is event time."""
    return frame.select(*_unmarked(frame), time)


def _marked(frame: DataFrame, time: EventTime | None) -> DataFrame:
    """Returns the frame with its own time column, if it has a plain one, as the only one that is event time."""
    marks = {time.column: _EVENT_TIME} if time is not None and not time.offset_us else {}
    return frame.select(*(_column(name).alias(name, metadata=marks.get(name, _NO_MARK)) for name in frame.columns))


def _bounds(names: Sequence[str]) -> list[Column]:
    """Returns the window's bounds, unless the input has them."""
    return [
        _column(f"{_WINDOW}.{part}", 1).alias(f"window_{part}")
        for part in ("start", "end")
        if f"window_{part}" not in names
    ]


def _top_of_lists(node: TopNode, frame: DataFrame, window: Column, names: Sequence[str]) -> DataFrame:
    """Returns a top-k by an aggregation, because streams have no window functions: it sorts each group's rows and keeps
    the best."""
    # A struct compares field by field: the order first, then the rest, which breaks ties.
    ranking = node.ranking
    order = F.struct(*(F.expr(each.by.sql).alias(f"o{place}") for place, each in enumerate(ranking.orders)))
    entry = F.struct(order.alias("o"), F.struct(*map(_column, names)).alias("r"))
    ranked = F.sort_array(F.collect_list(entry), asc=not ranking.directions[0]).alias(_ROWS)
    ties = f"OR x.o <=> {_ROWS}[{ranking.k - 1}].o" if ranking.kind is RankKind.RANK else ""
    kept = F.expr(f"filter({_ROWS}, (x, i) -> i < {ranking.k} {ties})")
    grouped = frame.groupBy(*map(_column, node.keys), window).agg(ranked)
    exploded = grouped.select(_column(_WINDOW), F.explode(kept).alias(_ROWS))
    rows = [F.col(f"{_ROWS}.r.{quoted(name)}").alias(name) for name in names]
    return exploded.select(_column(_WINDOW), *rows).select(*map(_column, names), *_bounds(names))


def _interval(node: JoinNode, right: EventTime) -> list[Column]:
    time = _event_time(right)
    conditions = []
    if node.lower is not None:
        conditions.append(time >= F.expr(node.lower.sql))
    if node.upper is not None:
        upper = F.expr(node.upper.sql)
        conditions.append(time <= upper if node.upper_inclusive else time < upper)
    return conditions


def _near(nearness: Nearness, left: Column, right: Column) -> list[Column]:
    """Returns when a right time is near enough to a left one."""
    conditions = []
    if nearness.direction is Direction.BACKWARD:
        conditions.append(right <= left)
    if nearness.direction is Direction.FORWARD:
        conditions.append(right >= left)
    if not nearness.exact:
        conditions.append(right != left)
    if nearness.tolerance_us is not None:
        reach = F.expr(f"INTERVAL {nearness.tolerance_us} MICROSECONDS")
        conditions += [right >= left - reach, right <= left + reach]
    return conditions


def _nearest_only(
    pairs: DataFrame, nearness: Nearness, left: Column, right: Column, rights: Sequence[pa.Field]
) -> DataFrame:
    """Returns, of the pairs of each left row, the one with the nearest right row; ties are broken by its columns."""
    columns = [_column(field.name) for field in rights if is_orderable(field.type)]
    if nearness.direction is Direction.BACKWARD:
        order = [right.desc(), *(column.desc() for column in columns)]
    elif nearness.direction is Direction.FORWARD:
        order = [right.asc(), *(column.asc() for column in columns)]
    else:
        distance = F.abs(F.unix_micros(left.cast("timestamp")) - F.unix_micros(right.cast("timestamp")))
        before = [F.when(right <= left, column).desc() for column in columns]
        after = [F.when(right > left, column).asc() for column in columns]
        order = [distance.asc(), right.asc(), *before, *after]
    over = W.Window.partitionBy(_ROWS).orderBy(*order)
    ranked = pairs.withColumn(_RIGHT + _ROWS, F.row_number().over(over))
    return ranked.filter(_column(_RIGHT + _ROWS) == 1)


# Schemas


def spark_schema(schema: pa.Schema) -> StructType:
    """Returns a schema of the dataflow as Spark's; every column may be null."""
    nullable = pa.schema([pa.field(field.name, field.type) for field in canonical_schema(schema)])
    return from_arrow_schema(nullable, prefer_timestamp_ntz=False)


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema that Spark expects from Python for this schema."""
    return to_arrow_schema(spark_schema(schema), timezone="UTC")


# Python functions inside Spark tasks


def _over_batches(step: PythonStep, given: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    wire = wire_schema(step.schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                for result in _called(step, conform(batch, given)):
                    yield conform(result, wire)

    return run


def _called(step: PythonStep, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    try:
        return step(batch)
    except StrettoError:
        raise
    except Exception as error:
        raise FunctionError(
            f"function '{_function_name(step.function)}' of '{step.name}' raised {error_text(error)}",
            f"{traceback_of(error).rstrip()}\nwith a batch of {batch.num_rows} rows, of which the first are\n"
            f"{rows_shown(batch)}",
        ) from None


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _over_rows(aggregate: UserAggregate, given: pa.Schema) -> Callable[[Column], Column]:
    """Returns a user's aggregate as a function of the list of a group's rows."""
    schema = canonical_schema(pa.schema([given.field(name) for name in aggregate.columns]))

    def finished(rows: pa.RecordBatch) -> Any:
        return aggregate.finish(aggregate.add(aggregate.init(), rows))

    def run(lists: pa.Array) -> pa.Array:
        ends = lists.value_lengths().to_numpy().cumsum()
        every = conform(pa.RecordBatch.from_struct_array(lists.flatten()), schema)
        values, start = [], 0
        for end in ends.tolist():
            try:
                values.append(finished(every.slice(start, end - start)))
            except Exception as error:
                raise FunctionError(
                    f"aggregate '{aggregate.name}' raised {error_text(error)}",
                    traceback_of(error).rstrip(),
                ) from None
            start = end
        return value_column(aggregate, values)

    # Spark derives its kind from the type hints; the stubs require an argument, which is deprecated.
    made: Any = arrow_udf
    udf: Callable[[Column], Column] = made(run, from_arrow_type(aggregate.type, False))
    return udf


_RAISED = re.compile(r"^(?:stretto\.errors\.)(\w+): ", re.MULTILINE)
_AFTER_PYTHON = re.compile(
    r"\n+(?:\s+at (?:org|java|scala|jdk|py4j)\.|Driver stacktrace|JVM stacktrace|Caused by:|=== Streaming Query ===)"
)


def python_error(error: BaseException) -> StrettoError | None:
    """Returns the error that stretto's code raised in a Spark task, from Spark's report; None if there is none."""
    if isinstance(error, StrettoError):
        return error
    text = str(error)
    found = list(_RAISED.finditer(text))
    if not found:
        return None
    kind = getattr(errors, found[-1].group(1), StrettoError)
    return kind(_AFTER_PYTHON.split(text[found[-1].end() :])[0].rstrip())


def spark_error(app: str, error: BaseException) -> StrettoError:
    """Returns the user's error for a query that failed."""
    known = python_error(error)
    if known is not None:
        return known
    text = _AFTER_PYTHON.split(str(error))[0].strip()
    if isinstance(error, PySparkException):
        return EngineError(f"Spark failed while it ran app '{app}'", text)
    return EngineError(f"app '{app}' failed with {type(error).__name__}", text or traceback_of(error))
