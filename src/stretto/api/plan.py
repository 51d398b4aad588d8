"""The plan: an app as a graph of named nodes, independent of how it runs.

Every engine starts here: `lowering.py` turns a plan into actors' functions, `runtime/relational.py` into a Spark query.
Nodes are checked as they are made (unknown columns, types), the whole graph in `checked` (sinks, cycles, names).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from stretto.actors.function import Function
from stretto.actors.sink import Sink
from stretto.actors.source import Source
from stretto.api.slo import SLO
from stretto.errors import PlanError
from stretto.expressions import AggregateCall, Predicate, Projection, Scalar
from stretto.expressions.setting import bound_to_zone
from stretto.expressions.udf import Udf
from stretto.expressions.zones import zone_named
from stretto.operators.calling import Called
from stretto.operators.changes.weights import CHANGE
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Nearness
from stretto.operators.ranking import Ranking
from stretto.operators.refreshed import TableReader
from stretto.operators.stream_time import MAX_JUMP_US
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import EventTime, Window
from stretto.scheduling.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Node:
    """One step. `inputs` are names of other nodes. `changes_by` is the key by which later rows replace earlier ones. If
    it `removes`, a row may also go without another of its key; it may have no key then. Otherwise, if `changes_by` is
    None, rows are only ever added."""

    name: str
    inputs: tuple[str, ...] = ()
    schema: pa.Schema
    time: EventTime | None = None
    parallelism: int | None = None
    changes_by: tuple[str, ...] | None = None
    removes: bool = False

    @property
    def changes(self) -> bool:
        """Whether rows are replaced or removed after they were added."""
        return self.removes or self.changes_by is not None


@dataclass(frozen=True, kw_only=True)
class SourceNode(Node):
    """Rows of a source. The watermark trails the greatest event time by `delay_us`, without rows that are more than
    `max_jump_us` ahead of the others (None: with all). With `stamp`, the source's rows get an extra timestamp column of
    that name with their ingestion time."""

    source: Source
    delay_us: int = 0
    stamp: str | None = None
    max_jump_us: int | None = MAX_JUMP_US


@dataclass(frozen=True, kw_only=True)
class SelectNode(Node):
    projection: Projection


@dataclass(frozen=True, kw_only=True)
class FilterNode(Node):
    predicate: Predicate


@dataclass(frozen=True, kw_only=True)
class MapNode(Node):
    """A Python function on a batch. `rows_kept` is true for map (one row out per row in), false for flat_map."""

    function: Callable[..., Any]
    rows_kept: bool


@dataclass(frozen=True, kw_only=True)
class UnionNode(Node):
    pass


@dataclass(frozen=True, kw_only=True)
class WindowAggregateNode(Node):
    """Columns out: keys, window_start, window_end, one per call."""

    keys: tuple[str, ...]
    window: Window
    calls: tuple[AggregateCall | UserAggregate, ...]
    lateness_us: int = 0


@dataclass(frozen=True, kw_only=True)
class AggregateNode(Node):
    """A running aggregate per key, without windows. Columns out: keys, one per call; `changes_by` the keys."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall | UserAggregate, ...]
    spill_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TopNode(Node):
    """Rows ranked at most k per keys and window. `window` None: the input has window_start and window_end itself, or,
    if it is `running`, there are none: rows are ranked among all so far, and removed when they are overtaken."""

    keys: tuple[str, ...]
    window: Window | None
    ranking: Ranking
    running: bool = False


@dataclass(frozen=True, kw_only=True)
class DistinctNode(Node):
    """The first row of each key that arrives; with `within_us`, the first for that long in event time."""

    keys: tuple[str, ...]
    within_us: int | None


@dataclass(frozen=True, kw_only=True)
class JoinNode(Node):
    """A join of two inputs on pairs of columns and a residual over pairs of rows. `pair` has the columns of a pair:
    left's, then right's under new names, then window_start and window_end when `window` is given. `hidden` is the
    number of columns at the end of each input that are only keys and not in `pair`. Semi and anti joins have the
    columns of a pair without right's; the others have all.

    `windowed` without `window`: both inputs carry window_start and window_end, which must be equal. `lower` and `upper`
    make it an interval join: lower(left) <= right's time <= upper(left), `<` when not `upper_inclusive`. `nearness`
    makes it an ASOF join: of the right rows that match, each left row has the nearest; `last_replaces` says that the
    last right row of a key replaces those before it. Rows out may be older than the watermark by `holds_back_us`."""

    on: tuple[tuple[str, str], ...]
    pair: pa.Schema
    hidden: tuple[int, int] = (0, 0)
    residual: Predicate | None = None
    how: JoinKind = JoinKind.INNER
    windowed: bool = False
    window: Window | None = None
    lower: Scalar | None = None
    upper: Scalar | None = None
    upper_inclusive: bool = True
    left_time: EventTime | None = None
    right_time: EventTime | None = None
    holds_back_us: int = 0
    nearness: Nearness | None = None
    last_replaces: bool = False

    @property
    def is_unbounded(self) -> bool:
        """Whether rows match however far apart in time they are."""
        return not self.windowed and self.window is None and self.lower is None and self.nearness is None


@dataclass(frozen=True)
class Refresh:
    """How a table is read again, and how often."""

    reader: TableReader
    every_us: int


@dataclass(frozen=True, kw_only=True)
class TableJoinNode(Node):
    """A join of a stream with a table. The columns are as in a JoinNode; `keys` are pairs of expressions over the
    stream and over the table. The table does not change, or has a `refresh`; then `table` is the one of its
    declaration. With `partition_by`, the rows of both are partitioned by the keys, which are these columns of the
    stream, of which the last `hidden` ones are not in `pair`; otherwise every worker has the whole table."""

    table: pa.Table
    table_name: str
    keys: tuple[tuple[Scalar, Scalar], ...]
    pair: pa.Schema
    residual: Predicate | None
    how: JoinKind
    refresh: Refresh | None = None
    partition_by: tuple[str, ...] | None = None
    hidden: int = 0


@dataclass(frozen=True, kw_only=True)
class ApplyNode(Node):
    """A user's Function. `output` names which of its outputs this node is; nodes with one `function_name` share it."""

    function: Function
    keys: tuple[str, ...] | None
    input_names: tuple[str, ...]
    outputs: dict[str, pa.Schema] = field(default_factory=dict)
    spill_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutputNode(Node):
    """A further output of an ApplyNode, by name."""

    output: str


@dataclass(frozen=True, kw_only=True)
class CallNode(Node):
    """Each row calls an entity. Columns out: those of the input, the result if it has a type, the class and the text of
    the error."""

    called: Called
    result: pa.DataType | None


@dataclass(frozen=True, kw_only=True)
class SinkNode(Node):
    sink: Sink


@dataclass(frozen=True)
class Spread:
    """How a function may run in parallel between barriers: the number of lessees of each actor, and the strategy that
    distributes messages to them; None is the cluster's strategy."""

    lessees: int
    strategy: Strategy | None


Spreads = dict[str | None, Spread]
"""By the function's name; None is for all functions that can be spread and are not named."""


Elastic = dict[str | None, int]
"""The greatest number of workers of an elastic function's actors, by the function's name; None is for all that can be
elastic and are not named."""


@dataclass(frozen=True)
class Plan:
    """A checked graph. `nodes` is in topological order; their expressions belong to the time zone `zone`."""

    app: str
    nodes: dict[str, Node]
    slo: SLO
    spreads: Spreads = field(default_factory=dict)
    elastic: Elastic = field(default_factory=dict)
    udfs: Mapping[str, Udf] = field(default_factory=dict)
    zone: str = "UTC"

    def in_zone(self, zone: str) -> Plan:
        """Returns the plan with all its expressions bound to a time zone."""
        zone_named(zone)
        nodes = {name: bound_to_zone(node, zone) for name, node in self.nodes.items()}
        return replace(self, nodes=nodes, zone=zone)

    @property
    def sources(self) -> list[SourceNode]:
        return [node for node in self.nodes.values() if isinstance(node, SourceNode)]

    @property
    def sinks(self) -> list[SinkNode]:
        return [node for node in self.nodes.values() if isinstance(node, SinkNode)]

    def sink_named(self, name: str | None) -> SinkNode:
        """Returns a sink by its name; without a name, the only sink, or the only one of several that collects."""
        sinks = {node.name: node for node in self.sinks}
        if name is not None:
            if name not in sinks:
                raise PlanError(f"app '{self.app}' has no sink '{name}'", f"it has {', '.join(sinks)}")
            return sinks[name]
        candidates = [node for node in sinks.values() if node.sink.collects] or list(sinks.values())
        if len(candidates) > 1:
            raise PlanError(f"app '{self.app}' has several sinks", ", ".join(sinks), "Name the one you mean.")
        return candidates[0]


def checked(
    app: str,
    nodes: dict[str, Node],
    slo: SLO,
    spreads: Spreads | None = None,
    elastic: Elastic | None = None,
    udfs: Mapping[str, Udf] | None = None,
) -> Plan:
    """Returns the plan in topological order; raises a PlanError that names what is wrong."""
    if not nodes:
        raise PlanError(
            f"app '{app}' is empty", None, "Add a source with app.source(...) and a sink with stream.sink(...)."
        )
    ordered = _topological(app, nodes)
    for node in ordered.values():
        if CHANGE in node.schema.names:
            raise PlanError(
                f"stream '{node.name}' of app '{app}' has a column '{CHANGE}'", "that name is reserved", "Rename it."
            )
    consumed = {name for node in ordered.values() for name in node.inputs}
    for node in ordered.values():
        if not isinstance(node, SinkNode) and node.name not in consumed and not _has_consumed_output(node, ordered):
            raise PlanError(
                f"stream '{node.name}' of app '{app}' reaches no sink",
                "its rows would be lost",
                f"End it with .sink(...), or remove '{node.name}'.",
            )
    for name in spreads or {}:
        if name is not None and name not in ordered:
            raise PlanError(f"app '{app}' has no function '{name}' to spread", f"it has {', '.join(ordered)}")
    for name in elastic or {}:
        if name is not None and name not in ordered:
            raise PlanError(f"app '{app}' has no function '{name}' to be elastic", f"it has {', '.join(ordered)}")
    return Plan(app, ordered, slo, dict(spreads or {}), dict(elastic or {}), dict(udfs or {}))


def _has_consumed_output(node: Node, nodes: dict[str, Node]) -> bool:
    return isinstance(node, ApplyNode) and any(
        isinstance(other, OutputNode) and node.name in other.inputs for other in nodes.values()
    )


def _topological(app: str, nodes: dict[str, Node]) -> dict[str, Node]:
    ordered: dict[str, Node] = {}
    waiting = dict(nodes)
    while waiting:
        ready = [name for name, node in waiting.items() if all(parent in ordered for parent in node.inputs)]
        if not ready:
            missing = sorted({p for n in waiting.values() for p in n.inputs if p not in nodes})
            if missing:
                raise PlanError(f"app '{app}' reads streams that do not exist", ", ".join(missing))
            raise PlanError(
                f"app '{app}' has a cycle",
                " -> ".join(_cycle(waiting)),
                "A dataflow goes from sources to sinks: break the loop.",
            )
        for name in ready:
            ordered[name] = waiting.pop(name)
    return ordered


def _cycle(waiting: dict[str, Node]) -> list[str]:
    name = next(iter(waiting))
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(parent for parent in waiting[name].inputs if parent in waiting)
    return list(reversed([*path[path.index(name) :], name]))
