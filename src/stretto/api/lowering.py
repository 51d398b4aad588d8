"""Turns a plan into actors: which nodes become functions, which are fused, how rows are routed, and the watermark step.

Stateless nodes without a parallelism of their own are fused into the function that feeds them. Every other node becomes
a function with partitions. Keyed functions get their rows by key; a forward edge keeps rows in their partition. Rows
that are already partitioned by some of the keys are not moved: an aggregate by (auction, seller) after a join on
auction.
"""

from __future__ import annotations

from collections.abc import Set
from math import gcd

import pyarrow as pa

from stretto.actors.deadlines import LATENCY_MAX_NS
from stretto.actors.deployment import (
    ByKey,
    Deployment,
    Edge,
    Forward,
    FunctionSpec,
    Rebalance,
    Routing,
    Stage,
    Transform,
    edges_of,
)
from stretto.actors.discipline import STATELESS
from stretto.actors.function import Function
from stretto.actors.sharing import spaces_of
from stretto.actors.source import GrowingSource
from stretto.api import plan as nodes
from stretto.api.changes import replaced_rows, weighted_nodes
from stretto.api.joining import held_back_us, least_offset_us
from stretto.api.plan import Plan
from stretto.api.sharing import share_objects
from stretto.errors import InvariantError, PlanError
from stretto.operators.calling import EntityCalls
from stretto.operators.changes.aggregate import ChangingAggregate
from stretto.operators.changes.duplicates import FirstRows
from stretto.operators.changes.join import ChangingJoin
from stretto.operators.changes.last import LastRows
from stretto.operators.changes.top import RunningTop
from stretto.operators.changes.weights import Added, Latest, WeightedSelect, weighted_schema
from stretto.operators.emitted import EmittedFunction, EmittedSource
from stretto.operators.ends import SinkFunction, SourceFunction
from stretto.operators.growing import GrowingSourceFunction
from stretto.operators.joins import AsofJoin, IntervalJoin, Matching, UnboundedJoin, WindowJoin
from stretto.operators.publishing import PublishSink
from stretto.operators.refreshed import RefreshedTableJoin
from stretto.operators.replying import Replies
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.shared_store import SharedStore
from stretto.operators.stateless import Filter, PythonStep, Select, StatelessFunction
from stretto.operators.table_join import PartitionedTableJoin, TableJoin, WeightedTableJoin
from stretto.operators.top import WindowTop
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import Hopping, Session, Span, Tumbling, Window

BATCH_DELAY_US = 5_000
"""How long a source may hold rows back to make larger batches under load, by default."""

FINE_STEP_US = 100_000
"""The watermark step for functions whose deadlines lie on no grid: spans, interval joins, users' functions."""


def lowered(
    plan: Plan, job: str, parallelism: int, batch_rows: int, batch_delay_us: int = BATCH_DELAY_US
) -> Deployment:
    """Returns the deployment of a plan; `parallelism` is for functions that set none."""
    return _Lowering(plan, parallelism, batch_rows, batch_delay_us).deployment(job)


class _Lowering:
    def __init__(self, plan: Plan, parallelism: int, batch_rows: int, batch_delay_us: int) -> None:
        self._plan = plan
        self._parallelism = parallelism
        self._batch_rows = batch_rows
        self._batch_delay_ns = batch_delay_us * 1000
        self._functions: dict[str, FunctionSpec] = {}
        # The stage of a function that emits a node's rows; several stages for a union.
        self._stages: dict[str, list[tuple[FunctionSpec, Stage]]] = {}
        # The columns by which a node's rows are partitioned, if they are.
        self._partitioned_by: dict[str, tuple[str, ...]] = {}
        # The nodes whose rows carry their weights.
        self._weighted = weighted_nodes(plan)

    def deployment(self, job: str) -> Deployment:
        for node in self._plan.nodes.values():
            self._lower(node)
        share_objects(self._functions, self._parallelism)
        self._spread()
        self._make_elastic()
        latency_ms = self._plan.slo.latency_ms
        latency_ns = None if latency_ms is None else min(int(latency_ms * 1e6), LATENCY_MAX_NS)
        return Deployment(job, self._functions, latency_ns, self._plan.slo.share)

    def _spread(self) -> None:
        """Decide for each function whether it may have lessees, and set their number and strategy."""
        for name in self._plan.spreads:
            if name is not None and name not in self._functions:
                raise PlanError(
                    f"step '{name}' cannot be spread by itself",
                    "it runs inside the function that feeds it",
                    "Give it a parallelism of its own, or spread the function before it.",
                )
        for spec in reversed(self._functions.values()):
            spec.ordered_for = self._ordered_for(spec)
            spec.sequential_because = self._sequential_because(spec)
            wish = self._plan.spreads.get(spec.name)
            if wish is not None and wish.lessees and spec.sequential_because is not None:
                raise PlanError(
                    f"function '{spec.name}' cannot be spread",
                    spec.sequential_because,
                    "Leave it out of spread(), or give every state of it a combining function.",
                )
            wish = wish or self._plan.spreads.get(None)
            if wish is not None and spec.sequential_because is None:
                spec.lessees_max, spec.strategy = wish.lessees, wish.strategy

    def _make_elastic(self) -> None:
        """Decide for each function whether its shards may move."""
        for name in self._plan.elastic:
            if name is not None and name not in self._functions:
                raise PlanError(
                    f"step '{name}' cannot be elastic by itself",
                    "it runs inside the function that feeds it",
                    "Name the function before it.",
                )
        keyed_inputs = self._keyed_inputs()
        for spec in self._functions.values():
            spec.inelastic_because = self._inelastic_because(spec, keyed_inputs)
            wish = self._plan.elastic.get(spec.name)
            if wish is not None and spec.inelastic_because is not None:
                raise PlanError(
                    f"function '{spec.name}' cannot be elastic", spec.inelastic_because, "Leave it out of elastic()."
                )
            wish = wish or self._plan.elastic.get(None)
            if wish is not None and spec.inelastic_because is None:
                spec.tasks_max = wish - 1

    def _keyed_inputs(self) -> dict[str, bool]:
        """Returns for each function with inputs whether the rows of all of them are partitioned by key."""
        found: dict[str, bool] = {}
        for spec in self._functions.values():
            for edge in _edges(spec):
                keyed = edge.input in self._functions[edge.target].partitioned_by
                found[edge.target] = keyed and found.get(edge.target, True)
        return found

    def _inelastic_because(self, spec: FunctionSpec, keyed_inputs: dict[str, bool]) -> str | None:
        if isinstance(spec.function, SourceFunction):
            return "it is a source"
        if isinstance(spec.function, SinkFunction):
            return "it is a sink"
        if not keyed_inputs.get(spec.name):
            return "its rows are not partitioned by key"
        if spec.lessees_max:
            return "it is spread over lessees"
        if spec.spill_bytes is not None:
            return "its state spills"
        if isinstance(spec.function, SharedStore) or spaces_of(spec.function):
            return "it uses shared objects" if spaces_of(spec.function) else "it has shared objects, which others read"
        return spec.function.inelastic_because

    def _sequential_because(self, spec: FunctionSpec) -> str | None:
        if isinstance(spec.function, SourceFunction):
            return "it is a source"
        if isinstance(spec.function, SinkFunction):
            return "it is a sink"
        if spec.spill_bytes is not None:
            return "its state spills"
        if spec.ordered_for is not None:
            return f"the order of what it sends matters to '{spec.ordered_for}'"
        return spec.function.sequential_because

    def _ordered_for(self, spec: FunctionSpec) -> str | None:
        """Returns the function to which the order of a source or a stateless function matters, if there is one."""
        if spec.function.discipline is not STATELESS and not isinstance(spec.function, SourceFunction):
            return None
        for edge in _edges(spec):
            consumer = self._functions[edge.target]
            ordered = consumer.function.order_matters or consumer.ordered_for is not None
            if ordered or isinstance(consumer.function, SinkFunction):
                return edge.target
        return None

    def _lower(self, node: nodes.Node) -> None:
        match node:
            case nodes.SourceNode():
                self._add_source(node)
            case nodes.UnionNode():
                self._stages[node.name] = [stage for name in node.inputs for stage in self._united(node, name)]
            case nodes.OutputNode():
                spec = self._functions[node.inputs[0]]
                self._stages[node.name] = [(spec, spec.outputs[node.output])]
                self._weigh(node)
            case nodes.TableJoinNode(refresh=nodes.Refresh()):
                self._add_refreshed(node)
            case nodes.TableJoinNode(partition_by=tuple()):
                join = TableJoin(node.table, node.keys, node.pair, node.residual, node.how, sorted_rows=True)
                partitions = node.parallelism or self._parallelism
                self._add_function(node, PartitionedTableJoin(join, node.hidden), partitions, [node.partition_by])
            case nodes.SelectNode() | nodes.FilterNode() | nodes.MapNode() | nodes.TableJoinNode() if (
                node.parallelism is None
            ):
                self._fuse(node, self._transform(node))
                partitioned_by = _still_partitioned_by(node, self._partitioned_by.get(node.inputs[0], ()))
                if partitioned_by:
                    self._partitioned_by[node.name] = partitioned_by
            case nodes.SelectNode() | nodes.FilterNode() | nodes.MapNode() | nodes.TableJoinNode():
                partitions = node.parallelism or self._parallelism
                self._check_order(node, partitions)
                self._add_function(node, StatelessFunction(self._transform(node)), partitions, [None])
            case nodes.SinkNode():
                self._add_sink(node)
            case nodes.ApplyNode():
                self._add_applied(node)
            case nodes.CallNode():
                self._add_calls(node)
            case _:
                function, keys = _stateful(node, self._plan, self._weighted)
                keyed = any(keys)
                partitions = (node.parallelism or self._parallelism) if keyed else 1
                self._add_function(node, function, partitions, keys)
                if isinstance(node, nodes.WindowAggregateNode):
                    self._weigh(node)

    def _add_refreshed(self, node: nodes.TableJoinNode) -> None:
        """Adds the join with a table that is read again: it needs the time of each batch, so it is not fused."""
        assert node.refresh is not None
        empty = TableJoin(node.table.slice(0, 0), node.keys, node.pair, node.residual, node.how)
        function = RefreshedTableJoin(node.refresh.reader, node.refresh.every_us * 1000, empty)
        feeding = max(spec.parallelism for spec, _ in self._stages[node.inputs[0]])
        self._add_function(node, function, node.parallelism or feeding, [None])

    def _schema(self, node: nodes.Node) -> pa.Schema:
        """Returns the columns of a node's rows, with their weights if they carry them."""
        return weighted_schema(node.schema) if node.name in self._weighted else node.schema

    def _transform(self, node: nodes.Node) -> Transform:
        transform = _transform(node)
        if node.name in self._weighted:
            if isinstance(transform, Select):
                return WeightedSelect(transform.projection)
            if isinstance(transform, TableJoin):
                return WeightedTableJoin(transform, node.schema)
        return transform

    def _united(self, node: nodes.UnionNode, name: str) -> list[tuple[FunctionSpec, Stage]]:
        """Returns the stages of one input of a union; rows that are only added get weights if others have them."""
        if node.name not in self._weighted or name in self._weighted:
            return self._stages[name]
        schema = self._plan.nodes[name].schema
        return self._fused(name, node.name, weighted_schema(schema), Added(schema))

    def _weigh(self, node: nodes.Node) -> None:
        """Gives weights to the rows of a function that only says by which key they replace each other."""
        if node.name not in self._weighted or node.changes_by is None:
            return
        name = f"{node.name}.changes"
        while name in self._plan.nodes:
            name += "+"
        partitions = node.parallelism or self._parallelism
        spec = FunctionSpec(name, LastRows(node.schema, node.changes_by), partitions, nodes=[name])
        self._functions[name] = spec
        self._feed(node.name, spec, "in", node.changes_by)
        spec.outputs["out"] = Stage(name, weighted_schema(node.schema))
        self._stages[node.name] = [(spec, spec.outputs["out"])]
        self._partitioned_by[node.name] = node.changes_by

    def _add_source(self, node: nodes.SourceNode) -> None:
        source = node.source
        step = _watermark_step_us(self._plan, node.name) if node.time is not None else None
        kind = SourceFunction
        if isinstance(source, GrowingSource):
            kind = GrowingSourceFunction
        elif isinstance(source, EmittedSource):
            kind = EmittedFunction
        function = kind(
            source,
            node.time,
            node.delay_us,
            node.stamp,
            step,
            self._batch_rows,
            self._batch_delay_ns,
            node.schema,
            node.max_jump_us,
        )
        own = node.parallelism or source.parallelism
        partitions = 1 if source.on_driver else own or self._parallelism
        if isinstance(source, GrowingSource):
            partitions = _partitions_of(node, source, partitions)
        spec = self._add_spec(node, function, partitions, on_driver=source.on_driver)
        self._open_output(spec, node)

    def _add_sink(self, node: nodes.SinkNode) -> None:
        feeding = max(spec.parallelism for spec, _ in self._stages[node.inputs[0]])
        partitions = 1 if node.sink.on_driver else node.parallelism or feeding
        self._check_order(node, partitions)
        feeding_name = node.inputs[0] if node.removes else self._latest(node)
        schema = weighted_schema(node.schema) if node.removes else node.schema
        function = SinkFunction(node.sink, schema, changes=node.changes)
        spec = self._add_spec(node, function, partitions, on_driver=node.sink.on_driver)
        self._feed(feeding_name, spec, "in", None)

    def _check_order(self, node: nodes.Node, partitions: int) -> None:
        """Refuses to deal rows that replace earlier ones to several partitions, where the rows of a key would overtake
        each other."""
        feeding = {spec.parallelism for spec, _ in self._stages[node.inputs[0]]}
        if node.changes_by is None or node.name in self._weighted or node.removes:
            return  # With weights, the order does not matter.
        if partitions > 1 and feeding != {partitions}:
            raise PlanError(
                f"'{node.name}' cannot have a parallelism of {partitions}",
                f"its rows replace {replaced_rows(node.changes_by)}, and would get out of order",
                f"Use a parallelism of 1, or that of '{node.inputs[0]}', or leave it out.",
            )

    def _add_applied(self, node: nodes.ApplyNode) -> None:
        spec = self._add_spec(node, node.function, node.parallelism or self._parallelism)
        self._stages[node.name] = [(spec, Stage(node.name, node.schema))]
        spec.outputs["out"] = self._stages[node.name][0][1]
        self._weigh(node)
        for output, schema in node.outputs.items():
            spec.outputs[output] = Stage(f"{node.name}.{output}", schema)
        for name, input_name in zip(node.inputs, node.input_names, strict=True):
            self._feed(name, spec, input_name, node.keys)

    def _add_calls(self, node: nodes.CallNode) -> None:
        feeding = max(spec.parallelism for spec, _ in self._stages[node.inputs[0]])
        schema = self._plan.nodes[node.inputs[0]].schema
        function = EntityCalls(node.called, schema, Replies(node.schema, node.result))
        self._add_function(node, function, node.parallelism or feeding, [None])

    def _add_function(
        self, node: nodes.Node, function: Function, partitions: int, keys: list[tuple[str, ...] | None]
    ) -> None:
        spec = self._add_spec(node, function, partitions)
        spec.slide_us = _slide_us(node)
        self._open_output(spec, node)
        names = ["in"] if len(node.inputs) == 1 else ["left", "right"]
        for name, input_name, key in zip(node.inputs, names, keys, strict=True):
            partitioned_by = (
                self._already_partitioned_by(name, key, partitions, exactly=len(node.inputs) > 1) if key else None
            )
            self._feed(name, spec, input_name, None if partitioned_by else key)
            if partitioned_by:
                spec.partitioned_by[input_name] = _key_schema(self._stages[name][0][1].schema, partitioned_by)
            # In a right or full join, rows without a left side are where their right keys belong.
            strewn = isinstance(node, nodes.JoinNode) and node.how.tracks_right
            if input_name != "right" and key and not strewn and set(key) <= set(node.schema.names):
                self._partitioned_by[node.name] = partitioned_by or key

    def _already_partitioned_by(
        self, name: str, keys: tuple[str, ...], partitions: int, exactly: bool
    ) -> tuple[str, ...] | None:
        """Returns the columns by which a stream's rows are already partitioned, if rows of equal keys are together in
        one of `partitions` partitions.

        Both sides of a join must be partitioned by exactly its keys; for one input, a subset of its keys suffices."""
        partitioned_by = self._partitioned_by.get(name)
        if partitioned_by is None or partitions == 1 or any(s.parallelism != partitions for s, _ in self._stages[name]):
            return None
        fits = partitioned_by == keys if exactly else set(partitioned_by) <= set(keys)
        return partitioned_by if fits else None

    def _add_spec(self, node: nodes.Node, function: Function, partitions: int, on_driver: bool = False) -> FunctionSpec:
        spec = FunctionSpec(node.name, function, partitions, on_driver=on_driver, nodes=[node.name])
        if isinstance(node, nodes.ApplyNode | nodes.AggregateNode):
            spec.spill_bytes = node.spill_bytes
        self._functions[node.name] = spec
        return spec

    def _open_output(self, spec: FunctionSpec, node: nodes.Node) -> None:
        stage = Stage(node.name, self._schema(node))
        spec.outputs["out"] = stage
        self._stages[node.name] = [(spec, stage)]

    def _fuse(self, node: nodes.Node, transform: Transform) -> None:
        fused = self._fused(node.inputs[0], node.name, self._schema(node), transform)
        for spec, _ in fused:
            spec.nodes.append(node.name)
        self._stages[node.name] = fused

    def _latest(self, node: nodes.Node) -> str:
        """Returns the name of the stages that feed a node which needs only the new rows. If others need to know what
        is replaced, its rows are without their weights."""
        feeding = node.inputs[0]
        if feeding not in self._weighted:
            return feeding
        name = f"{node.name}.in"
        self._stages[name] = self._fused(feeding, name, self._plan.nodes[feeding].schema, Latest())
        return name

    def _fused(
        self, feeding: str, name: str, schema: pa.Schema, transform: Transform
    ) -> list[tuple[FunctionSpec, Stage]]:
        """Returns the stages of a step that runs inside the functions that feed it."""
        fused = []
        for spec, parent in self._stages[feeding]:
            stage = Stage(name, schema, transform)
            parent.stages.append(stage)
            fused.append((spec, stage))
        return fused

    def _feed(self, name: str, target: FunctionSpec, input_name: str, keys: tuple[str, ...] | None) -> None:
        for spec, stage in self._stages[name]:
            routing: Routing
            if keys:
                routing = ByKey(keys)
                target.partitioned_by[input_name] = _key_schema(stage.schema, keys)
            elif spec.parallelism == target.parallelism and spec.parallelism > 1:
                routing = Forward()
            else:
                routing = Rebalance()
            stage.edges.append(Edge(target.name, input_name, routing))


def _key_schema(schema: pa.Schema, keys: tuple[str, ...]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in keys])


def _slide_us(node: nodes.Node) -> int | None:
    """Returns how often a node emits in event time, if it does so on a grid."""
    window = getattr(node, "window", None)
    if isinstance(node, nodes.WindowAggregateNode | nodes.TopNode) and isinstance(window, Tumbling | Hopping):
        return window.slide_us
    return None


def _edges(spec: FunctionSpec) -> list[Edge]:
    return [edge for stage in spec.outputs.values() for edge in edges_of(stage)]


def _still_partitioned_by(node: nodes.Node, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of these columns after a stateless step, or nothing if the step drops one of them."""
    match node:
        case nodes.FilterNode() | nodes.TableJoinNode():
            return columns
        case nodes.SelectNode():
            names = {column: name for name, column in node.projection.passthrough.items()}
            return tuple(names[column] for column in columns) if names.keys() >= set(columns) else ()
    return ()


def _transform(node: nodes.Node) -> Transform:
    match node:
        case nodes.SelectNode():
            return Select(node.projection)
        case nodes.FilterNode():
            return Filter(node.predicate)
        case nodes.MapNode():
            return PythonStep(node.name, node.function, node.schema, node.rows_kept)
        case nodes.TableJoinNode():
            return TableJoin(node.table, node.keys, node.pair, node.residual, node.how)
    raise InvariantError(f"node '{node.name}' is not stateless")


def _stateful(node: nodes.Node, plan: Plan, weighted: Set[str]) -> tuple[Function, list[tuple[str, ...] | None]]:
    """Returns the function of a stateful node, and the key columns of each of its inputs."""
    parents = [plan.nodes[name] for name in node.inputs]
    schema = parents[0].schema
    match node:
        case nodes.WindowAggregateNode(window=Session(gap_us=gap_us)):
            time = parents[0].time
            assert time is not None
            return SessionAggregate(schema, node.keys, time, gap_us, node.calls, node.lateness_us), [node.keys]
        case nodes.WindowAggregateNode():
            assert not isinstance(node.window, Session)
            return WindowAggregate(schema, node.keys, parents[0].time, node.window, node.calls, node.lateness_us), [
                node.keys
            ]
        case nodes.AggregateNode() if parents[0].name in weighted:
            return ChangingAggregate(schema, node.keys, node.calls), [node.keys]
        case nodes.AggregateNode():
            return RunningAggregate(schema, node.keys, node.calls, node.name in weighted), [node.keys]
        case nodes.TopNode(running=True):
            changing = parents[0].name in weighted
            return RunningTop(schema, node.keys, node.ranking, changing, node.name in weighted), [node.keys]
        case nodes.TopNode():
            assert not isinstance(node.window, Session)
            return WindowTop(schema, node.keys, parents[0].time, node.window, node.ranking), [node.keys]
        case nodes.DistinctNode():
            return FirstRows(schema, node.keys, parents[0].time, node.within_us), [node.keys]
        case nodes.JoinNode():
            keys: list[tuple[str, ...] | None] = [tuple(p[0] for p in node.on), tuple(p[1] for p in node.on)]
            return _join(node, parents[0], parents[1], weighted), keys
    raise InvariantError(f"node '{node.name}' of type {type(node).__name__} has no actor form")


def _join(node: nodes.JoinNode, one: nodes.Node, other: nodes.Node, weighted: Set[str]) -> Function:
    left, right = one.schema, other.schema
    matching = Matching(node.on, node.pair, node.residual, node.how, node.hidden)
    if node.removes:
        return ChangingJoin(left, right, matching, (one.name in weighted, other.name in weighted))
    if node.lower is not None and node.upper is not None:
        assert node.left_time is not None
        assert node.right_time is not None
        return IntervalJoin(
            left,
            right,
            matching,
            node.left_time,
            node.right_time,
            node.lower,
            node.upper,
            node.upper_inclusive,
            least_offset_us(node.lower, node.left_time, left),
            held_back_us(node.holds_back_us, node.lower, node.upper, node.left_time, left),
        )
    if node.nearness is not None:
        assert node.left_time is not None
        assert node.right_time is not None
        times = node.left_time, node.right_time
        return AsofJoin(left, right, matching, *times, node.nearness, node.last_replaces)
    if node.windowed:
        assert node.window is None or isinstance(node.window, Tumbling | Hopping)
        return WindowJoin(left, right, matching, node.window, node.left_time, node.right_time)
    return UnboundedJoin(left, right, matching)


def _partitions_of(node: nodes.SourceNode, source: GrowingSource, wanted: int) -> int:
    """Returns as many partitions as wanted, but not more than the source has splits: one without a split would hold
    back the others."""
    splits = source.splits()
    if node.parallelism is not None and node.parallelism > splits:
        raise PlanError(
            f"source '{node.name}' cannot have a parallelism of {node.parallelism}",
            f"{source.describe()} has {splits} splits",
            f"Use at most {splits}, or leave it out.",
        )
    return min(wanted, splits)


def _watermark_step_us(plan: Plan, source: str) -> int | None:
    """Returns the watermark step that the functions below a source need; None if none of them uses time."""
    reached = {source}
    as_they_come = {source}
    """Whose rows are not held until a window closes."""
    step = 0
    for node in plan.nodes.values():
        if not reached.intersection(node.inputs):
            continue
        reached.add(node.name)
        step = gcd(step, _own_step_us(node))
        if as_they_come.intersection(node.inputs) and not _has_window(node):
            as_they_come.add(node.name)
            if isinstance(node, nodes.SinkNode) and isinstance(node.sink, PublishSink):
                step = gcd(step, FINE_STEP_US)  # Answers say how far it is, and questions wait for a time.
    return step or None


def _has_window(node: nodes.Node) -> bool:
    kinds = nodes.WindowAggregateNode | nodes.TopNode | nodes.JoinNode
    return isinstance(node, kinds) and node.window is not None


def _own_step_us(node: nodes.Node) -> int:
    match node:
        case nodes.WindowAggregateNode(window=window) | nodes.TopNode(window=window) if window is not None:
            return _window_step_us(window)
        case nodes.JoinNode(window=window) if window is not None:
            return _window_step_us(window)
        case nodes.JoinNode(lower=lower, nearness=nearness) if lower is not None or nearness is not None:
            return FINE_STEP_US
        case nodes.ApplyNode():
            return FINE_STEP_US
        case nodes.DistinctNode(within_us=int()):
            return FINE_STEP_US
    return 0


def _window_step_us(window: Window) -> int:
    match window:
        case Tumbling() | Hopping():
            return gcd(window.size_us, window.slide_us, window.origin_us)
        case Session(gap_us=gap_us):
            return max(1, min(FINE_STEP_US, gap_us // 10))
        case Span():
            return FINE_STEP_US
