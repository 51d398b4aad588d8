"""Which copy of a segment answers: the one whose node has the least to do, by what it can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def least_busy(holders: Collection[str], waiting: Mapping[str, float], speeds: Mapping[str, float]) -> str | None:
    """Returns the node that is to answer, of those with a copy; None if there is none. `waiting` is the work that each
    node has before it. Ties go to the first by name, so a choice can be repeated."""
    if not holders:
        return None
    return min(holders, key=lambda node: (waiting.get(node, 0.0) / speeds.get(node, 1.0), node))
