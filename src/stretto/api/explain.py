"""The plan as text: the functions, the steps fused into them, the routing of rows, the scaling, and the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.actors.bursting import in_burst
from stretto.actors.deployment import ByKey, Deployment, Forward, FunctionSpec, edges_of
from stretto.api import plan as nodes
from stretto.api.engines import Engine, EngineChoice, choose
from stretto.api.lowering import lowered
from stretto.api.relational import unsupported
from stretto.expressions import AggregateCall
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Nearness
from stretto.operators.stream_time import MAX_JUMP_US
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import Hopping, Session, Span, Tumbling, Window

if TYPE_CHECKING:
    from stretto.api.app import App


def explained(app: App, workers: int, trigger_s: float | None) -> str:
    """Returns the text of `App.explain`."""
    plan = app.plan()
    choice = engine_of(app, plan, trigger_s)
    deployment = lowered(plan, app.name, app.parallelism or workers, app.batch_rows)
    lines = [
        f"app {app.name}",
        f"  objective: {plan.slo.describe()}",
        f"  engine: {choice.engine.value} ({choice.why})",
        "  functions:",
    ]
    for spec in deployment.functions.values():
        lines += _function_lines(spec, plan, deployment)
    return "\n".join(lines)


def engine_of(app: App, plan: nodes.Plan, trigger_s: float | None) -> EngineChoice:
    """Returns the engine that this app runs on, with the reason."""
    if app.engine is not Engine.AUTO:
        return EngineChoice(app.engine, "as asked for")
    return choose(app.slo, unsupported(plan, streaming=True), trigger_s)


def _function_lines(spec: FunctionSpec, plan: nodes.Plan, deployment: Deployment) -> list[str]:
    where = "on the driver" if spec.on_driver else f"x{spec.parallelism}"
    lines = [f"    {spec.name} [{where}]: {_described(plan.nodes[spec.name])}"]
    for name in dict.fromkeys(spec.nodes[1:]):
        lines.append(f"      + {name}: {_described(plan.nodes[name])}")
    if not isinstance(plan.nodes[spec.name], nodes.SourceNode | nodes.SinkNode):
        lines.append(f"      scales: {_scaling(spec)}")
    if not isinstance(plan.nodes[spec.name], nodes.SinkNode):
        lines.append(f"      in a burst: {in_burst(spec, isinstance(plan.nodes[spec.name], nodes.SourceNode))}")
    for stage in spec.outputs.values():
        for edge in edges_of(stage):
            how = "in turn"
            if isinstance(edge.routing, ByKey):
                how = f"by {', '.join(edge.routing.keys)}"
            elif isinstance(edge.routing, Forward):
                how = "partition to partition"
            if deployment.functions[edge.target].parallelism == 1:
                how = "all"
            lines.append(f"      -> {edge.target} ({how})")
    return lines


def _scaling(spec: FunctionSpec) -> str:
    if spec.tasks_max:
        return f"{spec.discipline}, at most {spec.tasks_max + 1} per partition"
    can = ""
    if spec.partitioned_by and spec.inelastic_because is None:
        can = "; it can be elastic"
    elif spec.partitioned_by:
        can = f"; it cannot be elastic, because {spec.inelastic_because}"
    return _fixed_scaling(spec) + can


def _fixed_scaling(spec: FunctionSpec) -> str:
    if spec.spill_bytes is not None:
        return f"{spec.discipline}; each state spills to disk beyond {spec.spill_bytes:,} bytes"
    if spec.sequential_because is not None:
        return f"{spec.discipline}, because {spec.sequential_because}"
    if not spec.lessees_max:
        return str(spec.discipline)
    lessees = f"up to {spec.lessees_max} lessee{'s' if spec.lessees_max > 1 else ''} per partition"
    strategy = "the cluster's strategy" if spec.strategy is None else type(spec.strategy).__name__
    return f"{spec.discipline}; {lessees} by {strategy}"


def _described(node: nodes.Node) -> str:
    match node:
        case nodes.SourceNode():
            time = f", event time {node.time.column}, delay {node.delay_us / 1e6:g} s" if node.time else ""
            jump = ""
            if node.time and node.max_jump_us != MAX_JUMP_US:
                jump = f", max jump {'any' if node.max_jump_us is None else f'{node.max_jump_us / 1e6:g} s'}"
            return f"source {node.source.describe()}{time}{jump}"
        case nodes.SelectNode():
            return f"select {', '.join(node.projection.sql)}"
        case nodes.FilterNode():
            return f"filter {node.predicate.sql}"
        case nodes.MapNode():
            verb = "map" if node.rows_kept else "flat_map"
            return f"{verb} with Python {getattr(node.function, '__name__', 'function')}"
        case nodes.WindowAggregateNode():
            late = f", lateness {node.lateness_us / 1e6:g} s" if node.lateness_us else ""
            return f"{_window(node.window)} window{late}, keys ({', '.join(node.keys)}), {_calls(node.calls)}"
        case nodes.AggregateNode():
            return f"running aggregate, keys ({', '.join(node.keys)}), {_calls(node.calls)}"
        case nodes.TopNode():
            per = f" per {_window(node.window)} window" if node.window else "" if node.running else " per window"
            orders = [f"{o.by.sql} {'descending' if o.descending else 'ascending'}" for o in node.ranking.orders]
            keys = f", keys ({', '.join(node.keys)})" if node.running else ""
            return f"top {node.ranking.k}{per} by {', '.join(orders)}{keys}"
        case nodes.DistinctNode():
            within = "" if node.within_us is None else f" within {node.within_us / 1e6:g} s"
            return f"first rows of ({', '.join(node.keys)}){within}"
        case nodes.JoinNode():
            kind = "unbounded join"
            if node.lower is not None and node.upper is not None:
                kind = f"interval join, right time from {node.lower.sql} to {node.upper.sql}"
            elif node.windowed:
                kind = f"{_window(node.window) + ' ' if node.window else ''}window join"
            elif node.nearness is not None:
                kind = f"ASOF join, {_nearness(node.nearness)}"
            how = "" if node.how is JoinKind.INNER else f"{node.how.value} "
            also = "" if node.residual is None else f" and {node.residual.sql}"
            return f"{how}{kind}, on {' and '.join(f'{left} = {right}' for left, right in node.on)}{also}"
        case nodes.TableJoinNode():
            keys = " and ".join(f"{left.sql} = {right.sql}" for left, right in node.keys)
            also = "" if node.residual is None else f" and {node.residual.sql}"
            rows = f"{node.table.num_rows:,} rows"
            if node.partition_by is not None:
                rows += ", partitioned"
            if node.refresh is not None:
                rows = f"read again every {node.refresh.every_us / 1e6:g} s"
            return f"{node.how.value} join with table '{node.table_name}' ({rows}), on {keys}{also}"
        case nodes.ApplyNode():
            return f"function {type(node.function).__name__}"
        case nodes.CallNode():
            when = "at once" if node.called.only_reads else "when a checkpoint has the row, if there are checkpoints"
            return f"calls {node.called.kind}.{node.called.method} {when}"
        case nodes.SinkNode():
            return f"sink {node.sink.describe()}"
    return type(node).__name__


def _nearness(nearness: Nearness) -> str:
    within = "" if nearness.tolerance_us is None else f" within {nearness.tolerance_us / 1e6:g} s"
    return f"{nearness.direction.value}{within}{'' if nearness.exact else ' without equal times'}"


def _calls(calls: tuple[AggregateCall | UserAggregate, ...]) -> str:
    return ", ".join(f"{call.name} = {getattr(call, 'sql', 'user-defined')}" for call in calls) or "distinct keys"


def _window(window: Window) -> str:
    match window:
        case Tumbling(size_us=size_us):
            return f"tumbling {size_us / 1e6:g} s"
        case Hopping(size_us=size_us, slide_us=slide_us):
            return f"hopping {size_us / 1e6:g} s every {slide_us / 1e6:g} s"
        case Session(gap_us=gap_us):
            return f"session with a gap of {gap_us / 1e6:g} s"
        case Span(start=start, end=end):
            return f"span {start} to {end}"
