"""A stream's node in the plan, and how verbs add nodes after it. The verbs are in modules beside this one.

A verb checks its arguments at once, adds one node to the plan, and returns a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api import plan
from stretto.api.changes import check_only_added, selected_changes
from stretto.api.grouping import Grouping
from stretto.errors import PlanError
from stretto.expressions import compile_projection, parse_schema
from stretto.operators.windows import EventTime

if TYPE_CHECKING:
    from stretto.api.app import App
    from stretto.api.stream import Stream


class Step:
    """What verbs need of a stream: its columns, its event time, and a way to add nodes after it."""

    def __init__(self, app: App, node: plan.Node) -> None:
        self.app = app
        self.node = node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def schema(self) -> pa.Schema:
        return self.node.schema

    @property
    def time(self) -> EventTime | None:
        return self.node.time

    @property
    def stream(self) -> Stream:
        """The stream itself, for the user."""
        return self.app.stream(self.name)

    def add(self, kind: type[plan.Node], verb: str, name: str | None, **fields: Any) -> Step:
        """Returns the step of a new node after this one. What is not given stays as it is here."""
        fields.setdefault("inputs", (self.name,))
        fields.setdefault("schema", self.schema)
        fields.setdefault("time", self.time)
        fields.setdefault("changes_by", self.node.changes_by)
        fields.setdefault("removes", self.node.removes)
        positive_parallelism(fields.get("parallelism"), name or verb)
        node: plan.Node = kind(name=name or self.app.free_name(f"{self.name}.{verb}"), **fields)
        return Step(self.app, self.app.add_node(node))

    def projected(self, verb: str, texts: Sequence[str], name: str | None, parallelism: int | None) -> Step:
        """Returns the columns of a select list, under the name of the verb that was written."""
        projection = compile_projection(texts, self.schema)
        kept: dict[str, str] = {}
        for output, source in projection.passthrough.items():
            if source not in kept or output == source:
                kept[source] = output
        time = self.time
        if time is not None:
            time = EventTime(kept[time.column], time.offset_us) if time.column in kept else None
        if self.node.changes and projection.generator is not None:
            raise PlanError(
                f"{verb} on '{self.name}' makes rows of rows that change",
                projection.generator.text,
                "One new row could not replace many: make rows before the aggregate.",
            )
        changes_by, removes = selected_changes(self.node, kept)
        return self.add(
            plan.SelectNode,
            verb,
            name,
            schema=projection.schema,
            time=time,
            parallelism=parallelism,
            changes_by=changes_by,
            removes=removes,
            projection=projection,
        )

    def event_time(self, verb: str) -> EventTime:
        if self.time is None:
            raise PlanError(
                f"{verb} needs event time, and stream '{self.name}' has none",
                "its source names no time column, or a select or map dropped it",
                "Give time='column' at the source and keep that column.",
            )
        return self.time

    def only_added(self, verb: str) -> None:
        check_only_added(self.node, verb)

    def same_app(self, other: Step) -> None:
        if other.app is not self.app:
            raise PlanError(f"streams '{self.name}' and '{other.name}' belong to different apps")

    def time_in(self, schema: pa.Schema) -> EventTime | None:
        """Returns the event time of rows with other columns, if its own is still there."""
        time = self.time
        if time is None or time.column not in schema.names:
            return None
        return time if pa.types.is_timestamp(schema.field(time.column).type) else None


class Verbs:
    """A stream, of which this is what the modules with its verbs know."""

    def __init__(self, app: App, node: plan.Node) -> None:
        self._step = Step(app, node)

    @property
    def name(self) -> str:
        return self._step.name

    @property
    def schema(self) -> pa.Schema:
        return self._step.schema

    @property
    def time(self) -> EventTime | None:
        """The event-time column, or None if the rows have none (any more)."""
        return self._step.time

    @property
    def changes(self) -> bool:
        """Whether rows are replaced or removed after they were sent."""
        return self._step.node.changes

    @property
    def _node(self) -> plan.Node:
        return self._step.node

    @property
    def _app(self) -> App:
        return self._step.app


def selected(aggregated: Step, parsed: Grouping) -> Step:
    """Returns the results of what is more than calls, by selects after the aggregate."""
    for texts in parsed.selects:
        aggregated = aggregated.projected("select", texts, None, None)
    return aggregated


def declared_schema(schema: pa.Schema | str) -> pa.Schema:
    """Returns a schema that may be written as text."""
    return parse_schema(schema) if isinstance(schema, str) else schema


def positive_parallelism(parallelism: int | None, name: str) -> None:
    """Refuses a parallelism below one."""
    if parallelism is not None and parallelism < 1:
        raise PlanError(f"the parallelism of '{name}' must be at least 1", f"it is {parallelism}")


def keyed_parallelism(
    parallelism: int | None, keys: tuple[str, ...], stream: str, what: str = "a window"
) -> int | None:
    """Returns the parallelism that was asked for; without a key, there is one partition."""
    if parallelism is not None and parallelism > 1 and not keys:
        raise PlanError(
            f"{what} without a key on '{stream}' has one partition",
            f"a parallelism of {parallelism} was requested",
            "Key the stream with key_by, or remove the parallelism.",
        )
    return parallelism
