"""A stream divided into windows, and its verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api import plan
from stretto.api.arguments import AGGREGATES, COLUMN, COUNT, DURATION, FLAG, ORDERS, SIZE, TEXT, takes
from stretto.api.grouping import Aggregate, grouping, refuse_arrival
from stretto.api.grouping_sets import GroupingSets
from stretto.api.pyspark_words import group_attribute
from stretto.api.ranking import By, RankName, ranking_of, top_fields
from stretto.api.spilling import Size
from stretto.api.step import Step, keyed_parallelism, selected
from stretto.api.windowing import TIMESTAMP
from stretto.errors import PlanError
from stretto.expressions import compile_scalar
from stretto.operators.windows import Duration, EventTime, Session, Span, Window, duration_us

if TYPE_CHECKING:
    from stretto.api.stream import Stream


class WindowedStream:
    """A stream divided into windows, with or without a key, for `aggregate` or `top`."""

    def __init__(
        self,
        stream: Step,
        keys: tuple[str, ...],
        window: Window,
        sets: GroupingSets | None = None,
        lateness_us: int = 0,
    ) -> None:
        stream.only_added("window")
        if isinstance(window, Span):
            for column in (window.start, window.end):
                scalar = compile_scalar(f"`{column}`", stream.schema)
                if not pa.types.is_timestamp(scalar.type):
                    raise PlanError(f"a span needs timestamps, and '{column}' is {scalar.type}")
            self._time: EventTime | None = stream.time
        else:
            self._time = stream.event_time("a window")
        self._step = stream
        self._keys = keys
        self._window = window
        self._sets = sets
        self._lateness_us = lateness_us

    if not TYPE_CHECKING:  # Otherwise every attribute would be known to a type checker.

        def __getattr__(self, name: str) -> Any:
            raise group_attribute(self, name)

    @takes(lateness=DURATION)
    def allowed_lateness(self, lateness: Duration) -> WindowedStream:
        """Keep windows for this long after they close; a late row emits the updated result of its window again."""
        lateness_us = duration_us(lateness, "the allowed lateness")
        if lateness_us < 0:
            raise PlanError("the allowed lateness is negative", repr(lateness), "Give zero or a positive duration.")
        return WindowedStream(self._step, self._keys, self._window, self._sets, lateness_us)

    @takes(calls=AGGREGATES, named=AGGREGATES, spill=SIZE.optional())
    def aggregate(
        self,
        *calls: Aggregate,
        name: str | None = None,
        parallelism: int | None = None,
        spill: Size | None = None,
        **named: Aggregate,
    ) -> Stream:
        """Returns one row per key and window, when the window closes: keys, window_start, window_end, the aggregates.

        Without aggregates, it returns the distinct keys of each window."""
        stream = self._step
        if spill is not None:
            raise PlanError(
                "windows do not spill",
                f"spill={spill!r}",
                "Remove spill: a closed window is dropped.",
            )
        window = [pa.field("window_start", TIMESTAMP), pa.field("window_end", TIMESTAMP)]
        leading = [*(stream.schema.field(key) for key in self._keys), *window]
        time = None if self._time is None else self._time.column
        parsed = grouping(stream.name, stream.schema, leading, time, calls, named, self._sets)
        refuse_arrival(stream.name, parsed.calls)
        keyed_by_window = (*self._keys, "window_start", "window_end")
        aggregated = stream.add(
            plan.WindowAggregateNode,
            "window",
            name,
            schema=parsed.schema,
            # A session may still grow when the watermark has just reached its end, so it is emitted one step later.
            time=EventTime("window_end", 0 if isinstance(self._window, Session) else 1),
            parallelism=keyed_parallelism(parallelism, self._keys, stream.name),
            changes_by=keyed_by_window if self._lateness_us else None,
            keys=self._keys,
            window=self._window,
            calls=parsed.calls,
            lateness_us=self._lateness_us,
        )
        return selected(aggregated, parsed).stream

    @takes(k=COUNT, by=ORDERS, ties=FLAG, descending=FLAG, rank=COLUMN.optional(), ranking=TEXT.optional())
    def top(
        self,
        k: int,
        by: By,
        *,
        ties: bool = True,
        descending: bool = True,
        rank: str | None = None,
        ranking: RankName | None = None,
        name: str | None = None,
    ) -> Stream:
        """Returns the rows ranked at most `k` (see `KeyedStream.top`), per key and window, when the window closes."""
        if self._sets is not None:
            raise PlanError(
                f"top on '{self._step.name}' cannot rank the rows of grouping sets",
                None,
                "Aggregate first, or key the stream with key_by.",
            )
        if self._lateness_us:
            raise PlanError("top does not take allowed lateness", None, "Aggregate with lateness first, or drop it.")
        stream = self._step
        wanted = ranking_of(stream.node, k, by, ties, descending, rank, ranking)
        return stream.add(plan.TopNode, "top", name, **top_fields(stream.node, self._keys, self._window, wanted)).stream
