"""Streams whose rows change: what verbs make of them, which of them carry removals, and what is left in the end.

A stream's rows are only added, or they change. Then either a later row replaces the earlier one with the same key
(`Node.changes_by`), which needs no more than the new row; or rows are removed too (`Node.removes`), and each row says
in a column of its own what happens to it (`operators/changes/weights.py`). That column costs, so a stream that removes
nothing has it only if a function after it must know what was replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stretto.actors.sink import Sink
from stretto.api.plan import (
    AggregateNode,
    FilterNode,
    JoinNode,
    Node,
    Plan,
    SelectNode,
    SinkNode,
    TableJoinNode,
    TopNode,
    UnionNode,
)
from stretto.errors import PlanError
from stretto.operators.changes.weights import CHANGE, present


def selected_changes(node: Node, kept: Mapping[str, str]) -> tuple[tuple[str, ...] | None, bool]:
    """Returns `changes_by` and `removes` of a node after a projection that keeps these columns under these names.

    Without a column of the key it is unknown which row a new one replaces, so the replaced one must be removed."""
    keys = node.changes_by
    if keys is None:
        return None, node.removes
    if all(key in kept for key in keys):
        return tuple(kept[key] for key in keys), node.removes
    return None, True


def filter_removes(node: Node, columns: Set[str]) -> bool:
    """Returns whether a filter over these columns removes rows: one whose new version is not wanted any more. All
    versions have the same key."""
    return node.removes or (node.changes_by is not None and not columns <= set(node.changes_by))


def check_only_added(node: Node, verb: str) -> None:
    """Refuses a verb that cannot follow rows that change."""
    if node.changes:
        raise PlanError(
            f"{verb} cannot follow '{node.name}'",
            _what_happens(node),
            "After it use select, filter, with_column, drop, rename, join, aggregate, top, union and sinks.",
        )


def check_spill(node: Node, spill: object) -> None:
    """Refuses an aggregate over rows that change which is to spill."""
    if node.changes and spill is not None:
        raise PlanError(
            f"an aggregate over '{node.name}' does not spill",
            f"spill={spill!r}, and {_what_happens(node)}",
            "Remove spill, or let the aggregate before it spill.",
        )


def check_sink(node: Node, sink: Sink) -> None:
    """Refuses a sink that cannot do what happens to the rows."""
    if not node.changes or (sink.takes_removals if node.removes else sink.takes_updates):
        return
    can = "replace, but not remove them" if sink.takes_updates else "only add rows"
    attribute = "takes_removals" if node.removes else "takes_updates"
    raise PlanError(
        f"sink on '{node.name}' cannot {'remove' if node.removes else 'replace'} rows",
        f"{_what_happens(node)}; {sink.describe()} can {can}",
        'Use sinks.parquet(..., changelog="_change"), sinks.callback(...) or a sink of your own with '
        f"{attribute} = True, or aggregate in windows.",
    )


def _what_happens(node: Node) -> str:
    if node.removes:
        return "rows that it has emitted can be removed again"
    return f"its rows replace {replaced_rows(node.changes_by or ())}"


# For lowering.


def weighted_nodes(plan: Plan) -> set[str]:
    """Returns the names of the nodes whose rows carry their weights: all that remove rows, and those before a function
    that must know which rows are replaced."""
    nodes = list(plan.nodes.values())
    found = {node.name for node in nodes if node.removes}
    for node in reversed(nodes):
        for name in node.inputs:
            if plan.nodes[name].changes and (_reads_removals(node) or (_passes_on(node) and node.name in found)):
                found.add(name)
    for node in nodes:
        if _passes_on(node) and node.inputs[0] in found:
            found.add(node.name)
    return found


def _reads_removals(node: Node) -> bool:
    return isinstance(node, AggregateNode | JoinNode | TopNode | UnionNode) or (
        node.removes and not isinstance(node, SinkNode)
    )


def _passes_on(node: Node) -> bool:
    """Whether rows leave a node as they came, with weights or without."""
    return isinstance(node, SelectNode | FilterNode | TableJoinNode)


# For results.


def final_rows(table: pa.Table, node: Node) -> pa.Table:
    """Returns the rows of a stream that are there after all its changes."""
    if node.removes and CHANGE in table.column_names:
        (rows,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        return pa.Table.from_batches([present(rows)])
    return table if node.changes_by is None else last_by_key(table, node.changes_by)


def last_by_key(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Returns the last row of each key, in order of arrival; the last row, if there are no keys."""
    if not keys:
        return table.slice(max(table.num_rows - 1, 0))
    numbered = table.select(list(keys)).append_column("__row", pa.array(np.arange(table.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([("__row", "max")]).column("__row_max")
    return table.take(last.take(pc.sort_indices(last)))


def replaced_rows(keys: tuple[str, ...]) -> str:
    """Returns which rows a row of such a stream replaces, in words."""
    return f"earlier rows with the same {', '.join(keys)}" if keys else "all earlier rows"
