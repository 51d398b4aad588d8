"""Tables that streams are published in."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stretto.api.plan import Plan, SinkNode
from stretto.api.step import Step
from stretto.errors import PlanError
from stretto.operators.publishing import PublishSink
from stretto.operators.windows import Duration, positive_duration_us

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECOND_US = 1_000_000


def published_sink(step: Step, table: str, time: str | None, segment: Duration, keep: Duration | None) -> PublishSink:
    """Returns the sink of a table; raises a PlanError for what cannot work."""
    if not _NAME.fullmatch(table):
        raise PlanError(
            f"{table!r} cannot be the name of a table",
            None,
            "Use letters, digits and underscores, as in bids_by_minute.",
        )
    if table.lower() == "state":
        raise PlanError(
            "no table can be called 'state'", None, "state.function is how the state of a function is asked."
        )
    if time is None:
        raise PlanError(
            f"publish on '{step.name}' needs a time", "the stream has no event time", "Name a column with time=."
        )
    segment_us = positive_duration_us(segment, "segment")
    if segment_us < SECOND_US:
        raise PlanError(f"segments of table '{table}' are too short", f"segment={segment!r}", "Use a second or more.")
    keep_us = None if keep is None else positive_duration_us(keep, "keep")
    if keep_us is not None and keep_us < segment_us:
        raise PlanError(f"table '{table}' keeps less than one segment", f"keep={keep!r}, segment={segment!r}")
    if step.node.removes or step.node.changes_by is not None:
        raise PlanError(
            f"publish on '{step.name}' needs rows that do not change",
            "its rows replace or remove earlier ones",
            "Publish what a window closes; the state of a running aggregate can be asked for as state.function.",
        )
    return PublishSink(table, time, segment_us, keep_us)


def published_tables(plan: Plan) -> Iterable[tuple[SinkNode, PublishSink]]:
    """Yields the tables that a plan publishes."""
    for node in plan.sinks:
        if isinstance(node.sink, PublishSink):
            yield node, node.sink
