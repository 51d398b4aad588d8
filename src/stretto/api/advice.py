"""What a plan keeps for ever: state that grows with the stream, why it does, and what bounds it.

Such a plan is not wrong: it may have few keys, or end. So this is advice, and no error.
"""

from __future__ import annotations

from stretto.api.plan import AggregateNode, DistinctNode, JoinNode, Node, Plan, TopNode
from stretto.operators.join_nearest import Nearness


def unbounded_states(plan: Plan) -> list[str]:
    """Returns a text for each function whose state grows without bound."""
    return [text for node in plan.nodes.values() if (text := _advice(node)) is not None]


def _advice(node: Node) -> str | None:
    match node:
        case JoinNode(is_unbounded=True):
            return _text(
                f"join '{node.name}' keeps all rows of both inputs",
                "its condition has no bound in time on both sides",
                "bound it, as in b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts, or join in windows",
            )
        case JoinNode(nearness=Nearness(tolerance_us=None), last_replaces=last_replaces):
            rows = "the last row of each key" if last_replaces else "all rows"
            return _text(
                f"ASOF join '{node.name}' keeps {rows} of its right input",
                "a later row may look back to it" if last_replaces else "its condition may refuse the last one",
                "say how far back a row looks, with tolerance= or AND b.ts >= a.ts - INTERVAL 1 HOUR",
            )
        case AggregateNode(keys=keys, spill_bytes=None) if keys:
            return _text(
                f"aggregate '{node.name}' keeps every {_named(keys)}",
                "no window says when a group is complete",
                "group by a window too, such as window(ts, '1 hour')",
            )
        case TopNode(running=True, keys=keys) if keys:
            return _text(
                f"'{node.name}' keeps rows of every {_named(keys)}",
                "rows are ranked among all so far",
                "rank in windows, with the bounds of the window in PARTITION BY",
            )
        case DistinctNode(within_us=None):
            return _text(
                f"'{node.name}' keeps every {_named(node.keys)}",
                "equal rows may come at any time",
                "look for duplicates in windows, or within a time (drop_duplicates(within=...) in Python)",
            )
    return None


def _text(what: str, why: str, remedy: str) -> str:
    return f"{what} for ever, because {why}: {remedy}."


def _named(keys: tuple[str, ...]) -> str:
    shown = ", ".join(key for key in keys if not key.startswith("__")) or "group"
    return f"({shown})" if "," in shown else shown
