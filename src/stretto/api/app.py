"""An app: named streams from sources to sinks, with an objective. It runs on a cluster, or as a Spark query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.source import Source
from stretto.api import plan as plans
from stretto.api.arguments import (
    COLUMN,
    COUNT,
    DURATION,
    NUMBER_OR_ZERO,
    SCHEMA,
    SESSION,
    TABLE_DATA,
    TEXT,
    Kind,
    takes,
)
from stretto.api.dead_letters import records_name, well_formed
from stretto.api.engines import Engine
from stretto.api.memory import as_schema
from stretto.api.slo import SLO
from stretto.api.stream import AppliedStream, Stream
from stretto.api.tables import Distribution, Table, checked_table
from stretto.api.udfs import registered
from stretto.api.windowing import TIMESTAMP
from stretto.errors import PlanError
from stretto.expressions import compile_scalar
from stretto.expressions.udf import Udf
from stretto.expressions.zones import zone_named
from stretto.operators.emitted import EmittedSource
from stretto.operators.stream_time import MAX_JUMP_US
from stretto.operators.windows import Duration, EventTime, duration_us, positive_duration_us
from stretto.scheduling.strategies import strategy_named
from stretto.scheduling.strategy import Strategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stretto.runtime.entities.in_process import InProcess


SOURCE = Kind(
    "a source, such as sources.memory(rows)",
    lambda value: isinstance(value, Source),
    lambda value: "Use stretto.sources, or subclass stretto.Source.",
)
UDF = Kind(
    "functions that are declared with @stretto.udf or @stretto.pandas_udf",
    lambda value: isinstance(value, Udf),
    lambda value: 'Write udf("double")(function), with its type.' if callable(value) else None,
)
ENTITIES = Kind(
    "a list of classes that derive from stretto.Entity",
    lambda value: (
        isinstance(value, list | tuple)
        and all(isinstance(each, type) and hasattr(each, "__stretto_fields__") for each in value)
    ),
    lambda value: "Write entities=[Account].",
)
TABLES = Kind("a dict of sources, sinks and data by their names", lambda value: isinstance(value, Mapping))
KEYS_KEPT_US_MAX = 30 * 86_400_000_000
STRATEGY = Kind('the name of a strategy, "module:Class", or an object', lambda value: isinstance(value, str | Strategy))


class App:
    """`App("bids", slo=objective(latency="200 ms"))`; then `source`, verbs, `sink`; then `cluster.submit(app)`."""

    @takes(
        name=TEXT,
        slo=Kind("an objective: objective(...)", lambda value: isinstance(value, SLO)).optional(),
        engine=Kind('"auto", "actors" or "microbatch"', lambda value: isinstance(value, str | Engine)),
        timezone=TEXT.optional(),
        batch_rows=COUNT,
        batch_delay=DURATION,
        entities=ENTITIES,
        keep_keys=DURATION,
    )
    def __init__(
        self,
        name: str,
        *,
        entities: Sequence[type[Any]] = (),
        keep_keys: Duration = "1 day",
        slo: SLO | None = None,
        engine: str = "auto",
        timezone: str | None = None,
        parallelism: int | None = None,
        batch_rows: int = 4096,
        batch_delay: Duration = "5 ms",
    ) -> None:
        """`timezone` is the zone of times in expressions, such as "Europe/Berlin" or "+05:30"; by default it is that of
        the Spark session that the app is submitted to (`spark.sql.session.timeZone`).
        `parallelism` is the number of partitions of functions that set none (default: the number of workers).
        `batch_rows` limits how many rows a source reads at once. `batch_delay` limits how long a paced source may hold
        rows back to make larger batches when its worker has other work.

        `entities` are classes (see `stretto.Entity`): their methods are transactions, which clients call through the
        job's handle. `parallelism` is then the number of places that they are in, which move between workers.
        `keep_keys` says how long the idempotency keys of calls are kept, 30 days at most."""
        _check_name(name, "an app")
        if parallelism is not None and parallelism < 1:
            raise PlanError(f"the parallelism of app '{name}' must be at least 1", f"it is {parallelism}")
        if batch_rows < 1:
            raise PlanError(f"batch_rows of app '{name}' must be at least 1", f"it is {batch_rows}")
        self.name = name
        self.slo = slo or SLO()
        self.engine = Engine.named(engine)
        self.zone = None if timezone is None else zone_named(timezone)
        self.parallelism = parallelism
        self.batch_rows = batch_rows
        self.batch_delay_us = duration_us(batch_delay, f"the batch delay of app '{name}'")
        self.entities = tuple(entities)
        self.keys_kept_us = positive_duration_us(keep_keys, f"the time for which app '{name}' keeps idempotency keys")
        if self.keys_kept_us > KEYS_KEPT_US_MAX:
            raise PlanError(
                f"app '{name}' keeps idempotency keys for too long",
                f"for {keep_keys!r}",
                "Keep them for 30 days at most.",
            )
        self.udfs: Mapping[str, Udf] = {}
        self._nodes: dict[str, plans.Node] = {}
        self._spreads: plans.Spreads = {}
        self._elastic: plans.Elastic = {}

    @classmethod
    @takes(text=TEXT, name=TEXT, tables=TABLES.optional())
    def sql(cls, text: str, *, name: str = "sql", tables: Mapping[str, Any] | None = None, **options: Any) -> App:
        """Returns the app of a SQL text (docs/sql.md): CREATE declares tables, INSERT and SELECT end in sinks.

        `tables` are sources, sinks, and data for joins, by the names that the text has for them. Functions of Python
        are passed as `udfs=[...]`; other options are those of `App`."""
        from stretto.formats import FORMATS
        from stretto.sql import compiled

        udfs = options.pop("udfs", ())
        app = cls(name, **options).register(*udfs)
        done = compiled(app, text, FORMATS, tables)
        if done.explains:
            raise PlanError("EXPLAIN makes no app", None, "Print app.explain(), or use the command stretto sql.")
        return app

    @takes(
        name=TEXT,
        source=SOURCE,
        time=COLUMN.optional(),
        delay=DURATION,
        stamp=COLUMN.optional(),
        max_jump=DURATION.optional(),
    )
    def source(
        self,
        name: str,
        source: Source,
        *,
        time: str | None = None,
        delay: Duration = 0,
        stamp: str | None = None,
        max_jump: Duration | None = timedelta(microseconds=MAX_JUMP_US),
        parallelism: int | None = None,
    ) -> Stream:
        """Returns a stream of a source's rows.

        `time` names its event-time column; the watermark trails the greatest time seen by `delay`, unless the source
        has its own watermark. A row that is more than `max_jump` ahead of the others does not move the watermark,
        unless the rows that follow it are ahead too; None lets every row move it. `stamp` adds a timestamp column with
        each row's ingestion time; `time=stamp` makes that the event time."""
        source.check()
        schema = source.schema
        for field in schema:
            if pa.types.is_dictionary(field.type):
                raise PlanError(
                    f"source '{name}': column '{field.name}' is dictionary-encoded", None, "Decode it first."
                )
        if stamp is not None:
            if stamp in schema.names:
                raise PlanError(
                    f"source '{name}' has a column '{stamp}' already", None, "Choose another name for stamp."
                )
            schema = schema.append(pa.field(stamp, TIMESTAMP))
        event_time = None
        if time is not None:
            scalar = compile_scalar(f"`{time}`", schema)
            if not pa.types.is_timestamp(scalar.type):
                raise PlanError(
                    f"the event time of source '{name}' must be a timestamp",
                    f"column '{time}' is {scalar.type}",
                    "Name a timestamp column, or convert it where the source is made.",
                )
            event_time = EventTime(time)
        delay_us = duration_us(delay, f"the watermark delay of source '{name}'")
        if delay_us < 0:
            raise PlanError(f"the watermark delay of source '{name}' is negative", repr(delay))
        max_jump_us = None if max_jump is None else positive_duration_us(max_jump, f"max_jump of source '{name}'")
        if parallelism is not None and parallelism < 1:
            raise PlanError(f"the parallelism of '{name}' must be at least 1", f"it is {parallelism}")
        node = plans.SourceNode(
            name=name if source.dead_letters is None else records_name(name),
            schema=schema,
            time=event_time,
            parallelism=parallelism,
            source=source,
            delay_us=delay_us,
            stamp=stamp,
            max_jump_us=max_jump_us,
        )
        stream = Stream(self, self.add_node(node))
        return stream if source.dead_letters is None else well_formed(stream, name, source.dead_letters)

    @takes(
        name=TEXT,
        schema=SCHEMA,
        time=COLUMN.optional(),
        delay=DURATION,
        stamp=COLUMN.optional(),
        max_jump=DURATION.optional(),
    )
    def emitted(
        self,
        name: str,
        schema: pa.Schema | str,
        *,
        time: str | None = None,
        delay: Duration = 0,
        stamp: str | None = None,
        max_jump: Duration | None = timedelta(microseconds=MAX_JUMP_US),
        parallelism: int | None = None,
    ) -> Stream:
        """Returns a stream of the rows that entities emit into it: `self.emit(name, row)` in a handler. Rows of a
        transaction that commits are in it, each exactly once; those of one that is aborted are not.

        `time` and `delay` are those of `source`. `stamp` adds a timestamp column with the time of the epoch in which
        the row was emitted; with `time=stamp` no row is late, and time goes on when nobody calls."""
        if not self.entities:
            raise PlanError(f"app '{self.name}' has no entities", None, "Declare them: App(name, entities=[...]).")
        columns = as_schema(schema)
        assert columns is not None
        if stamp is not None and stamp in columns.names:
            raise PlanError(f"stream '{name}' has a column '{stamp}' already", None, "Choose another name for stamp.")
        source = EmittedSource(name, columns, stamp, stamp is not None and time == stamp)
        return self.source(name, source, time=time, delay=delay, max_jump=max_jump, parallelism=parallelism)

    @property
    def emitted_schemas(self) -> dict[str, pa.Schema]:
        """The columns of the streams that entities emit rows into, by name."""
        nodes = (node for node in self._nodes.values() if isinstance(node, plans.SourceNode))
        return {node.source.stream: node.source.columns for node in nodes if isinstance(node.source, EmittedSource)}

    @takes(name=TEXT, data=TABLE_DATA, refresh=DURATION.optional(), how=TEXT)
    def table(self, name: str, data: Any, *, refresh: Duration | None = None, how: Distribution = "auto") -> Table:
        """Returns a table for `stream.join(table, on)`, of a DataFrame of Spark or pandas, a pyarrow Table, the path of
        Parquet files or of a Delta table, or a function that returns one of the latter. Its rows are read now.

        The workers of a machine map the same file with the rows and their index into memory. With how="broadcast" each
        joins the rows of the stream where they are. With how="partitioned" these are partitioned by the key of the
        join, and each worker reads its part of the table; rows of different keys may change their order. "auto"
        partitions tables of more than 256 MB.

        With `refresh`, such as "10 minutes", each worker reads a path again, or calls the function again, when it has a
        batch to join and its last read is that old. A change is seen by the rows that a worker joins later than that
        after the change; workers read at different times. Rows that were joined before are not revised."""
        from stretto.runtime.table_data import rereading, table_data

        every_us = None if refresh is None else positive_duration_us(refresh, f"refresh of table '{name}'")
        rows = table_data(name, data)
        again = None if every_us is None else plans.Refresh(rereading(name, data, rows.schema), every_us)
        return checked_table(self, name, rows, again, how)

    @takes(udfs=UDF)
    def register(self, *udfs: Udf) -> App:
        """Makes Python functions known by their names in the expressions of this app, from here on (see
        `stretto.udf`)."""
        for added in udfs:
            self.udfs = registered(self.name, self.udfs, added)
        return self

    def in_process(self) -> InProcess:
        """Returns the app's entities in this process, for tests: `call` and `map` are those of a job, without Spark.
        Each transaction runs twice, and one whose runs differ is an error: its handler has looked at a clock or at
        something else that a replay would not see again."""
        from stretto.runtime.entities.in_process import InProcess

        if not self.entities:
            raise PlanError(f"app '{self.name}' has no entities", None, "Declare them: App(name, entities=[...]).")
        return InProcess(self.name, self.entities, self.keys_kept_us, self.emitted_schemas)

    @property
    def has_streams(self) -> bool:
        return bool(self._nodes)

    @takes(name=TEXT)
    def stream(self, name: str) -> Stream:
        """Returns a stream of this app by its name."""
        node = self._nodes.get(name)
        if node is None:
            raise PlanError(f"app '{self.name}' has no stream '{name}'", f"it has {', '.join(self._nodes) or 'none'}")
        return AppliedStream(self, node) if isinstance(node, plans.ApplyNode) else Stream(self, node)

    def plan(self, session_timezone: str = "UTC") -> plans.Plan:
        """Returns the checked plan, bound to the app's time zone, or else to the session's; raises a PlanError that
        says what is wrong."""
        if self.entities and not self._nodes:
            raise PlanError(f"app '{self.name}' has entities and no streams", None, "Submit it to a cluster.")
        plan = plans.checked(self.name, self._nodes, self.slo, self._spreads, self._elastic, self.udfs)
        return plan.in_zone(session_timezone if self.zone is None else self.zone.name)

    @takes(names=TEXT, lessees=NUMBER_OR_ZERO, strategy=STRATEGY.optional())
    def spread(self, *names: str, lessees: int = 4, strategy: Strategy | str | None = None) -> App:
        """Let functions run on several workers at once between barriers: the named ones, or all that can.

        Each actor may have up to `lessees` lessees in addition to its home. The `strategy` decides which of them gets a
        message. It is the cluster's by default, or another one, given by its name (`stretto.scheduling.STRATEGIES`), as
        `module:Class`, or as an object. Results do not change. Naming a function that must stay sequential is an error;
        without names it is skipped. `explain()` says why."""
        if lessees < 0:
            raise PlanError(f"app '{self.name}' cannot have {lessees} lessees", None, "Use 0 to keep to one instance.")
        chosen = plans.Spread(lessees, strategy_named(strategy) if isinstance(strategy, str) else strategy)
        self._spreads.update(dict.fromkeys(names or (None,), chosen))
        return self

    @takes(names=TEXT, workers_max=COUNT)
    def elastic(self, *names: str, workers_max: int = 8) -> App:
        """Let keyed functions use as many workers as their load needs: the named ones, or all that can.

        The keys of each partition fall into 256 shards, which move between workers while the app runs, each with its
        state; an actor is on at most `workers_max` workers. The rows of a key are processed in their order, and results
        do not change. A function that is elastic sees the keys of some shards in each call: what it does for one key
        must not depend on others. Naming a function that cannot be elastic is an error; without names it is skipped.
        `explain()` says why. The cluster's `elasticity` decides when shards move."""
        if workers_max < 2:
            raise PlanError(
                f"functions of app '{self.name}' cannot be elastic on {workers_max} worker",
                None,
                "Use 2 or more, or leave them out.",
            )
        self._elastic.update(dict.fromkeys(names or (None,), workers_max))
        return self

    @takes(spark=SESSION.optional(), workers=COUNT.optional())
    def explain(self, spark: SparkSession | None = None, workers: int | None = None) -> str:
        """Returns the plan and the chosen engine as text. `auto` needs `spark`, to measure the trigger time."""
        from stretto.api.explain import explained

        trigger_s = None
        if spark is not None:
            from stretto.runtime.triggers import measure_trigger_s

            trigger_s = measure_trigger_s(spark)
        return explained(self, workers or self.parallelism or 1, trigger_s)

    def advice(self) -> list[str]:
        """Returns which functions keep state that grows without bound, each with the reason and what to do; none if all
        state is bounded."""
        from stretto.api.advice import unbounded_states

        return unbounded_states(self.plan())

    @takes(spark=SESSION, sink=TEXT.optional())
    def to_spark(self, spark: SparkSession, sink: str | None = None) -> DataFrame:
        """Returns the batch twin: the rows that a sink gets, as a DataFrame over the app's bounded sources.

        `sink` names the sink if there are several."""
        from stretto.runtime.batch_twin import batch_twin
        from stretto.runtime.session import timezone_of

        plan = self.plan(timezone_of(spark))
        return batch_twin(plan, spark)[plan.sink_named(sink).name]

    def add_node(self, node: plans.Node) -> plans.Node:
        """Add a node to the plan under its name; called by the verbs."""
        _check_name(node.name, "a stream")
        if node.name in self._nodes:
            raise PlanError(
                f"app '{self.name}' has two functions named '{node.name}'",
                None,
                "Names are unique: pass another name=.",
            )
        self._nodes[node.name] = node
        return node

    def free_name(self, wish: str) -> str:
        """Returns the wish, with a number if that name is taken."""
        if wish not in self._nodes:
            return wish
        number = 2
        while f"{wish}-{number}" in self._nodes:
            number += 1
        return f"{wish}-{number}"


def _check_name(name: str, what: str) -> None:
    if not name or "/" in name or "~" in name or name != name.strip():
        raise PlanError(f"{what} cannot be named {name!r}", None, "Use a name without '/', '~' or outer spaces.")
