"""The verbs that join two streams. Each checks its arguments and adds one JoinNode to the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api import plan
from stretto.api.arguments import EXPRESSION, FLAG, JOIN_KEY, TEXT, WINDOW, Kind, takes
from stretto.api.joining import JoinOn, interval_bounds, join_pairs, joined_schema, lower_offset_us
from stretto.api.windowing import TIMESTAMP, needs_window_columns, no_sessions
from stretto.errors import PlanError
from stretto.operators.windows import EventTime, Span, Window

if TYPE_CHECKING:
    from stretto.api.stream import Stream

STREAM = Kind("a stream of the same app", lambda value: isinstance(value, JoinVerbs))


class JoinVerbs:
    """The join verbs of a stream."""

    if TYPE_CHECKING:  # What a stream has.

        @property
        def name(self) -> str: ...
        @property
        def schema(self) -> pa.Schema: ...
        def _add(self, kind: type[plan.Node], verb: str, name: str | None, **fields: Any) -> Stream: ...
        def _event_time(self, verb: str) -> EventTime: ...
        def _only_added(self, verb: str) -> None: ...
        def _same_app(self, other: Stream) -> None: ...

    @takes(right=STREAM, on=JOIN_KEY, suffix=TEXT)
    def join(
        self,
        right: Stream,
        on: JoinOn,
        *,
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns every pair of rows with equal keys, however far apart in time. The state grows with both streams.

        `on` is a column that both have, a list of such columns, or "left_column = right_column [AND ...]"."""
        return self._join(right, on, suffix, name, parallelism, time=None)

    @takes(right=STREAM, on=JOIN_KEY, lower=EXPRESSION, upper=EXPRESSION, upper_inclusive=FLAG, suffix=TEXT)
    def interval_join(
        self,
        right: Stream,
        on: JoinOn,
        *,
        lower: str,
        upper: str,
        upper_inclusive: bool = True,
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns pairs with equal keys where the right row's time is between two expressions over the left row.

        `left.interval_join(right, "id = auction", lower="dateTime", upper="dateTime + INTERVAL 5 MINUTES")`. State is
        dropped as the watermark passes."""
        left_time = self._event_time("interval_join")
        right_time = right._event_time("interval_join")
        low, high = interval_bounds(self.name, lower, upper, self.schema)
        offset = lower_offset_us(lower, left_time, self.schema)
        names = joined_schema(self.schema, right.schema, suffix)
        time = None
        if offset is not None and offset >= 0:
            # The right row is never older than the left one, so its time is the pair's.
            renamed = names.names[len(self.schema.names) + right.schema.get_field_index(right_time.column)]
            time = EventTime(renamed, right_time.offset_us)
        return self._join(
            right,
            on,
            suffix,
            name,
            parallelism,
            time=time,
            lower=low,
            upper=high,
            upper_inclusive=upper_inclusive,
            lower_offset_us=offset,
            left_time=left_time,
            right_time=right_time,
        )

    @takes(right=STREAM, on=JOIN_KEY, window=WINDOW.optional(), suffix=TEXT)
    def window_join(
        self,
        right: Stream,
        on: JoinOn,
        window: Window | None = None,
        *,
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns pairs with equal keys in the same window. Without `window`, both streams must have window columns."""
        if window is None:
            for side in (self, right):
                needs_window_columns(side.name, side.schema, "window_join")
            return self._join(right, on, suffix, name, parallelism, time=EventTime("window_end", 1), windowed=True)
        no_sessions(window, "window_join", self.name)
        if isinstance(window, Span):
            raise PlanError(
                f"window_join of '{self.name}' cannot be over spans", None, "Use tumbling or hopping windows."
            )
        left_time = self._event_time("window_join")
        right_time = right._event_time("window_join")
        return self._join(
            right,
            on,
            suffix,
            name,
            parallelism,
            time=EventTime("window_end", 1),
            windowed=True,
            window=window,
            left_time=left_time,
            right_time=right_time,
        )

    def _join(
        self,
        right: Stream,
        on: JoinOn,
        suffix: str,
        name: str | None,
        parallelism: int | None,
        **details: Any,
    ) -> Stream:
        self._same_app(right)
        for side in (self, right):
            side._only_added("join")
        pairs = join_pairs(on, self.name, self.schema, right.name, right.schema)
        schema = joined_schema(self.schema, right.schema, suffix)
        right_names = tuple(schema.names[len(self.schema.names) :])
        if details.get("window") is not None:
            for column in ("window_start", "window_end"):
                if column in schema.names:
                    raise PlanError(
                        f"window_join of '{self.name}': column '{column}' exists already", None, "Rename it."
                    )
                schema = schema.append(pa.field(column, TIMESTAMP))
        return self._add(
            plan.JoinNode,
            "join",
            name,
            inputs=(self.name, right.name),
            schema=schema,
            parallelism=parallelism,
            on=pairs,
            right_names=right_names,
            **details,
        )
