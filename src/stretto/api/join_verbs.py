"""The verbs that join two streams. Each checks its arguments and adds one JoinNode to the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.api import plan
from stretto.api.arguments import DURATION, EXPRESSION, FLAG, JOIN_KEY, JOIN_KIND, TEXT, WINDOW, Kind, takes
from stretto.api.conditions import Condition, JoinInputs, JoinOn
from stretto.api.joining import Side, asof_kind, interval_between, joined_schema, nearness_of, with_bounds
from stretto.api.step import Verbs
from stretto.api.tables import Table, changes_after, table_kind
from stretto.api.windowing import needs_window_columns, no_sessions
from stretto.errors import PlanError
from stretto.expressions import Scalar
from stretto.expressions.scalar import quoted
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Nearness
from stretto.operators.windows import Duration, EventTime, Span, Window

if TYPE_CHECKING:
    from stretto.api.stream import Stream

STREAM = Kind("a stream of the same app", lambda value: isinstance(value, Verbs))
STREAM_OR_TABLE = Kind(
    "a stream or a table of the same app",
    lambda value: isinstance(value, Verbs | Table),
    lambda value: 'Write app.table("name", df).' if hasattr(value, "toArrow") or hasattr(value, "iloc") else None,
)
CONDITION = {"on": JOIN_KEY, "where": EXPRESSION.optional(), "how": JOIN_KIND, "suffix": TEXT}
"""What all joins take."""


@dataclass(frozen=True)
class _Asked:
    """What a join was asked for, of what all joins take."""

    on: JoinOn
    where: str | None
    how: JoinKind
    suffix: str
    name: str | None
    parallelism: int | None


class JoinVerbs(Verbs):
    """The join verbs of a stream. What they have in common:

    `on` is a column that both inputs have, a list of such columns or of pairs of expressions, or a condition with at
    least one equality: "id = auction AND price > reserve". A column that both inputs have is written left.price and
    right.price, or by its name in the result. `where` is one more condition; a pair that fails it is no match.

    `how` is "inner", "left", "right", "full", "semi" or "anti", in any of PySpark's spellings. A right column whose
    name is taken gets the suffix."""

    @takes(right=STREAM_OR_TABLE, **CONDITION)
    def join(
        self,
        right: Stream | Table,
        on: JoinOn,
        *,
        where: str | None = None,
        how: str = "inner",
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns every pair of rows with equal keys, however far apart in time; with how="semi", each left row once,
        as soon as it has a match. The state grows with both streams.

        With how="left", "right", "full" or "anti" the result changes: a row without a match is sent at once, and
        removed when a match comes. If the rows of an input change, after a running aggregate for example, so does the
        result of any join.

        With a table (`app.table`), returns the stream's rows with those of the table, and keeps no state. Time and
        order stay as they are; how="right" and "full" are refused, as by Spark's streams, since whether a row of the
        table has a match is known only at the end."""
        if isinstance(right, Table):
            kind = table_kind(how, self.name, right.name)
            return self._join_table(right, _Asked(on, where, kind, suffix, name, parallelism))
        kind = JoinKind.named(how, f"join on '{self.name}'")
        changes = kind.is_outer or self._step.node.changes or right._step.node.changes
        asked = _Asked(on, where, kind, suffix, name, parallelism)
        return self._join("join", right, asked, time=None, removes=changes)

    @takes(right=STREAM, lower=EXPRESSION, upper=EXPRESSION, upper_inclusive=FLAG, **CONDITION)
    def interval_join(
        self,
        right: Stream,
        on: JoinOn,
        *,
        lower: str,
        upper: str,
        upper_inclusive: bool = True,
        where: str | None = None,
        how: str = "inner",
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns pairs with equal keys where the right row's time is between two expressions over the left row.

        `left.interval_join(right, "id = auction", lower="dateTime", upper="dateTime + INTERVAL 5 MINUTES")`. A row
        without a match is sent, by how="left" for example, when the watermark has passed the interval. State is dropped
        as the watermark passes.

        The result's event time is that of the row which is never older than the other, if there is one; else the left
        one's, or for how="right" the right one's, and windows that follow wait longer by the length of the interval. A
        full join has none."""
        kind = JoinKind.named(how, f"interval_join on '{self.name}'")
        times = self._step.event_time("interval_join"), right._step.event_time("interval_join")
        interval = interval_between(self.name, lower, upper, times[0], self.schema)
        if kind.tracks_right and interval.lower_offset_us is None:
            raise PlanError(
                f"interval_join on '{self.name}' cannot be a {kind.value} join",
                f"lower={lower!r} is not the left time plus a constant, so a right row could match for ever",
                f'Write lower="{times[0].column} - INTERVAL 5 SECONDS" and the rest of the condition in where=.',
            )
        side, holds_back_us = interval.time_of_pairs(kind)
        timed = {Side.LEFT: times[0], Side.RIGHT: self._renamed(right, times[1], suffix)}
        return self._join(
            "interval_join",
            right,
            _Asked(on, where, kind, suffix, name, parallelism),
            time=None if side is None else timed[side],
            holds_back_us=holds_back_us,
            lower=interval.lower,
            upper=interval.upper,
            upper_inclusive=upper_inclusive,
            left_time=times[0],
            right_time=times[1],
        )

    def _renamed(self, right: Stream, time: EventTime, suffix: str) -> EventTime:
        """Returns the right event time under its name in a pair."""
        names = joined_schema(self.schema, right.schema, suffix).names
        return EventTime(names[len(self.schema) + right.schema.get_field_index(time.column)], time.offset_us)

    @takes(right=STREAM, direction=TEXT, tolerance=DURATION.optional(), allow_exact_matches=FLAG, **CONDITION)
    def asof_join(
        self,
        right: Stream,
        on: JoinOn,
        *,
        direction: str = "backward",
        tolerance: Duration | None = None,
        allow_exact_matches: bool = True,
        where: str | None = None,
        how: str = "inner",
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns each left row with the one right row of equal key whose event time is nearest to its own.

        With direction="backward", the default, that is the last right row which is not later; with "forward", the first
        which is not earlier; with "nearest", the nearer of both, the earlier one if both are equally near. `tolerance`
        says how far away it may be. With `allow_exact_matches=False`, a row at the same time is none. Of several right
        rows at one time, looking back takes the one that is greatest by its columns in their order, looking forward the
        least. `where` decides which right rows there are to choose from. `how` is "inner" or "left".

        A row is sent when the watermark has passed its time, or by the tolerance if it looks forward, which therefore
        needs one. The event time is the left one's. With a tolerance, state is dropped as the watermark passes. Without
        one, the last right row of each key is kept, or all of them if `where` reads right columns."""
        asked = _Asked(on, where, asof_kind(how, self.name), suffix, name, parallelism)
        nearness = nearness_of(self.name, direction, tolerance, allow_exact_matches)
        times = self._step.event_time("asof_join"), right._step.event_time("asof_join")
        return self._join(
            "asof_join",
            right,
            asked,
            time=times[0],
            holds_back_us=nearness.waits_us,
            left_time=times[0],
            right_time=times[1],
            nearness=nearness,
        )

    @takes(right=STREAM, window=WINDOW.optional(), **CONDITION)
    def window_join(
        self,
        right: Stream,
        on: JoinOn,
        window: Window | None = None,
        *,
        where: str | None = None,
        how: str = "inner",
        suffix: str = "_right",
        name: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Returns pairs with equal keys in the same window; without `window`, both streams must have window columns. A
        row without a match is sent, by how="left" for example, when the window closes."""
        kind = JoinKind.named(how, f"window_join on '{self.name}'")
        asked = _Asked(on, where, kind, suffix, name, parallelism)
        if window is None:
            for side in (self, right):
                needs_window_columns(side.name, side.schema, "window_join")
            time: EventTime | None = EventTime("window_end", 1)
            if kind.tracks_right:
                # The left columns may be null, in a full join the right ones too.
                time = None if kind.tracks_left else self._renamed(right, EventTime("window_end", 1), suffix)
            return self._join("window_join", right, asked, time=time, windowed=True)
        no_sessions(window, "window_join", self.name)
        if isinstance(window, Span):
            raise PlanError(
                f"window_join of '{self.name}' cannot be over spans", None, "Use tumbling or hopping windows."
            )
        return self._join(
            "window_join",
            right,
            asked,
            time=EventTime("window_end", 1),
            windowed=True,
            window=window,
            left_time=self._step.event_time("window_join"),
            right_time=right._step.event_time("window_join"),
        )

    def _join_table(self, table: Table, asked: _Asked) -> Stream:
        if table.app is not self._step.app:
            raise PlanError(f"stream '{self.name}' and table '{table.name}' belong to different apps")
        pair, condition = self._matched(table, asked)
        changes_by, removes = changes_after(self._step.node, table, condition, asked.how)
        partition_by, feeding = None, self.name
        if table.is_partitioned(self._step.node):
            feeding, partition_by = self._with_keys([one for one, _ in condition.keys])
        return self._step.add(
            plan.TableJoinNode,
            "join",
            asked.name,
            inputs=(feeding,),
            schema=pair if asked.how.sends_pairs else self.schema,
            parallelism=asked.parallelism,
            changes_by=changes_by,
            removes=removes,
            table=table.data,
            table_name=table.name,
            refresh=table.refresh,
            partition_by=None if partition_by is None else tuple(partition_by),
            hidden=_hidden(partition_by or ()),
            keys=condition.keys,
            pair=pair,
            residual=condition.residual,
            how=asked.how,
        ).stream

    def _join(self, verb: str, right: Stream, asked: _Asked, **details: Any) -> Stream:
        self._step.same_app(right._step)
        if verb != "join":
            for side in (self, right):
                side._step.only_added(verb)
        pair, condition = self._matched(right, asked, bounds=details.get("window") is not None)
        left, left_keys = self._with_keys([one for one, _ in condition.keys])
        other, right_keys = right._with_keys([other for _, other in condition.keys])
        both = len(self.schema), len(self.schema) + len(right.schema)
        nearness: Nearness | None = details.get("nearness")
        if nearness is not None and nearness.only_looks_back:
            rights = set(pair.names[both[0] :])
            details["last_replaces"] = condition.residual is None or not condition.residual.columns & rights
        return self._step.add(
            plan.JoinNode,
            "join",
            asked.name,
            inputs=(left, other),
            schema=pair if asked.how.sends_pairs else pa.schema([*list(pair)[: both[0]], *list(pair)[both[1] :]]),
            parallelism=asked.parallelism,
            on=tuple(zip(left_keys, right_keys, strict=True)),
            pair=pair,
            hidden=(_hidden(left_keys), _hidden(right_keys)),
            residual=condition.residual,
            how=asked.how,
            changes_by=None,
            **details,
        ).stream

    def _matched(self, right: Stream | Table, asked: _Asked, bounds: bool = False) -> tuple[pa.Schema, Condition]:
        """Returns the columns of a pair of rows, with the bounds of its window if asked for, and when it matches."""
        pair = joined_schema(self.schema, right.schema, asked.suffix)
        if bounds:
            pair = with_bounds(pair, self.name)
        inputs = JoinInputs(self.name, self.schema, right.name, right.schema, pair)
        return pair, inputs.condition(asked.on, asked.where)

    def _with_keys(self, keys: Sequence[Scalar]) -> tuple[str, list[str]]:
        """Returns the name of a stream that has all keys as columns, computed ones at its end, and their names."""
        names = [key.column or f"{_KEY}{place}" for place, key in enumerate(keys)]
        computed = [f"{key.sql} AS {quoted(name)}" for key, name in zip(keys, names, strict=True) if key.column is None]
        if not computed:
            return self.name, names
        return self._step.projected("key", [*map(quoted, self.schema.names), *computed], None, None).name, names


def _hidden(keys: Sequence[str]) -> int:
    """Returns how many of the keys are computed."""
    return sum(key.startswith(_KEY) for key in keys)


_KEY = "__stretto_key"
