"""Which plans have a relational form, and which node prevents it in the others. Spark is not needed.

`explain()` and engine="auto" need the answer before anything runs; `runtime/relational.py` builds the form itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from stretto.actors.sink import Sink
from stretto.actors.source import GrowingSource
from stretto.api.joining import constant_offset_us
from stretto.api.plan import (
    AggregateNode,
    ApplyNode,
    CallNode,
    DistinctNode,
    FilterNode,
    JoinNode,
    Node,
    OutputNode,
    Plan,
    SinkNode,
    SourceNode,
    TableJoinNode,
    TopNode,
    UnionNode,
    WindowAggregateNode,
)
from stretto.expressions import AggregateCall
from stretto.operators.emitted import EmittedSource
from stretto.operators.join_kinds import JoinKind
from stretto.operators.publishing import PublishSink
from stretto.operators.ranking import RankKind
from stretto.operators.stream_time import MAX_JUMP_US
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import Session, Span


def unsupported(plan: Plan, streaming: bool) -> str | None:
    """Returns why the plan has no relational form, with the name of the node; None if it has one."""
    for node in plan.nodes.values():
        reason = _unsupported_shape(node, plan, streaming)
        if reason is None and streaming:
            reason = _unsupported_in_stream(node, plan)
        if reason is not None:
            return reason
    return None


def _unsupported_shape(node: Node, plan: Plan, streaming: bool) -> str | None:
    match node:
        case ApplyNode() | OutputNode():
            return f"'{node.name}' is a user's Function, which only actors can run"
        case SourceNode(source=GrowingSource(is_endless=True)):
            return f"source '{node.name}' never ends, and its splits appear while it is read: only actors follow it"
        case SourceNode(source=GrowingSource()) if streaming:
            return f"source '{node.name}' has many splits, each with positions of its own"
        case SinkNode(sink=Sink(irrevocable=True)) if streaming:
            return f"sink '{node.name}' writes exactly once with the checkpoints of actors"
        case SourceNode(source=EmittedSource()):
            return f"the rows of '{node.name}' are emitted by entities, which run on actors"
        case CallNode():
            return f"'{node.name}' calls entities, which run on actors"
        case JoinNode(window=Session() | Span()):
            return f"join '{node.name}' is over windows that are neither tumbling nor hopping"
        case AggregateNode() if (call := _by_arrival(node)) is not None:
            return (
                f"'{call.name}' of '{node.name}' depends on the order of arrival, which a DataFrame does not have: "
                "without event time use min_by or max_by"
            )
        case DistinctNode(within_us=int()) if not streaming:
            return f"'{node.name}' drops duplicates within a time, and a batch has no watermark"
        case SinkNode(sink=PublishSink()) if streaming:
            return f"'{node.name}' publishes a table, which only actors can be asked for"
        case SourceNode() if not streaming and getattr(getattr(node.source, "dataframe", None), "isStreaming", False):
            return f"source '{node.name}' is a streaming DataFrame, which has no end"
    return None


def _by_arrival(node: AggregateNode) -> AggregateCall | None:
    calls = (call for call in node.calls if isinstance(call, AggregateCall))
    return next((call for call in calls if call.is_by_arrival), None)


def _distinct(node: AggregateNode | WindowAggregateNode) -> AggregateCall | None:
    """Returns a call over distinct values; the number of them is that of the elements of a set."""
    calls = (call for call in node.calls if isinstance(call, AggregateCall))
    return next((call for call in calls if call.is_distinct and call.function != "count_distinct"), None)


def _unsupported_in_stream(node: Node, plan: Plan) -> str | None:
    """Returns what Spark's append and update modes do not support: an update-mode query has one stateful operator."""
    above = list(_upstream(node, plan))
    running = next((other for other in above if isinstance(other, AggregateNode)), None)
    if isinstance(node, AggregateNode | WindowAggregateNode) and (call := _distinct(node)) is not None:
        return f"'{call.name}' of '{node.name}' has DISTINCT, which Spark's streams only have in count"
    match node:
        case SourceNode() if node.time is not None and node.max_jump_us not in (None, MAX_JUMP_US):
            return f"source '{node.name}' sets max_jump, and Spark's watermark follows every row"
        case AggregateNode():
            stateful = next((other for other in above if _is_stateful(other)), None)
            if stateful is not None:
                return f"running aggregate '{node.name}' comes after '{stateful.name}', which also keeps state"
            user = next((call for call in node.calls if isinstance(call, UserAggregate)), None)
            if user is not None:
                return f"running aggregate '{node.name}' uses the Python aggregate '{user.name}'"
        case JoinNode() if node.nearness is not None:
            return f"'{node.name}' is an ASOF join, which Spark's streams do not have"
        case JoinNode() if node.how is not JoinKind.INNER and (reason := _unsupported_join(node, plan)) is not None:
            return reason
        case TableJoinNode() if node.refresh is not None:
            return f"table '{node.table_name}' of '{node.name}' is refreshed, and micro-batches read it once"
        case UnionNode() if running is not None:
            return f"union '{node.name}' comes after the running aggregate '{running.name}', whose rows change"
        case FilterNode() if running is not None:
            keys = plan.nodes[node.inputs[0]].changes_by or ()
            if not node.predicate.columns <= set(keys):
                return f"filter '{node.name}' would keep rows that the running aggregate '{running.name}' has replaced"
        case TopNode() if node.running:
            return f"top '{node.name}' ranks all rows so far, and a row that is overtaken is removed"
        case TopNode(ranking=ranking) if ranking.column or ranking.kind is RankKind.DENSE_RANK:
            return f"top '{node.name}' needs a rank, and streams have no window functions"
        case TopNode(ranking=ranking) if len(set(ranking.directions)) > 1:
            return f"top '{node.name}' orders in two directions"
        case DistinctNode() if node.within_us is not None and node.within_us != _delay_us(above):
            return f"'{node.name}' drops duplicates within another time than the delay of its source"
        case WindowAggregateNode(keys=(), window=Session()) | TopNode(keys=(), window=Session()):
            return f"'{node.name}' has session windows without a key"
    if node.removes:
        return f"rows of '{node.name}' can be removed again, which a query in update mode cannot say"
    if _is_stateful(node):
        if running is not None:
            return f"'{node.name}' comes after the running aggregate '{running.name}', whose rows change"
        unbounded = next((other for other in above if isinstance(other, JoinNode) and other.is_unbounded), None)
        if unbounded is not None and not (isinstance(node, JoinNode) and node.is_unbounded):
            return f"'{node.name}' needs event time, and the rows of join '{unbounded.name}' can be late by any amount"
    return None


def _unsupported_join(node: JoinNode, plan: Plan) -> str | None:
    """Returns why Spark has no such join of two streams: one that is not inner needs a bound in time that Spark can
    read."""
    if node.how is JoinKind.ANTI:
        return f"join '{node.name}' is an anti join of two streams, which Spark does not have"
    kind = f"join '{node.name}' is a {node.how.value} join of two streams"
    if node.is_unbounded:
        return f"{kind} without a bound in time, which Spark would not end"
    if node.how is JoinKind.SEMI and node.windowed and node.window is None:
        return f"{kind} of rows that come from windows, for which Spark's query has no rows"
    if node.lower is None or node.upper is None:
        return None
    times = node.left_time, node.right_time
    if any(time is None or time.offset_us for time in times):
        return f"{kind} by the ends of windows, and Spark needs columns with event time"
    assert node.left_time is not None
    schema = plan.nodes[node.inputs[0]].schema
    bounds = (node.upper, node.how.tracks_left), (node.lower, node.how.tracks_right)
    for bound, is_needed in bounds:
        if is_needed and constant_offset_us(bound, node.left_time, schema) is None:
            return f"{kind}, and its bound {bound.sql!r} is not the left time plus a constant"
    return None


def _delay_us(above: list[Node]) -> int | None:
    """Returns the delay of the only source; None if there are several."""
    delays = {node.delay_us for node in above if isinstance(node, SourceNode)}
    return delays.pop() if len(delays) == 1 else None


def _is_stateful(node: Node) -> bool:
    return isinstance(node, AggregateNode | WindowAggregateNode | TopNode | JoinNode | DistinctNode)


def _upstream(node: Node, plan: Plan) -> Iterator[Node]:
    """Yields all nodes above a node, nearest first."""
    waiting, seen = list(node.inputs), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name not in seen:
            seen.add(name)
            waiting.extend(plan.nodes[name].inputs)
            yield plan.nodes[name]
