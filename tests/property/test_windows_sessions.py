"""Sessions against a model that merges intervals one by one, and against one sort of all rows when none is late."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_windows import (
    CALLS,
    SCHEMA,
    Row,
    aggregate,
    batch_of,
    by_window,
    context,
    emitted,
    key_of,
    keys_strategy,
    rows_strategy,
    schedule_strategy,
    tiny_thresholds,
)

from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.operators.sessions import SessionAggregate
from stretto.operators.windows import EventTime


def sessions_of(rows: list[Row], keys: tuple[str, ...], gap: int) -> dict[tuple[Any, ...], Row]:
    """The sessions of all rows at once, as Spark's batch engine makes them."""
    groups: dict[tuple[Any, ...], list[list[Row]]] = {}
    for row in sorted(rows, key=lambda row: row["t"]):
        found = groups.setdefault(key_of(row, keys), [])
        if found and row["t"] <= found[-1][-1]["t"] + gap:
            found[-1].append(row)
        else:
            found.append([row])
    return {
        (*key, session[0]["t"], session[-1]["t"] + gap): aggregate(session)
        for key, found in groups.items()
        for session in found
    }


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[list[Row]], int]:
    """Batches whose rows come out of order by no more than a delay."""
    rows, delay = draw(st.lists(rows_strategy, max_size=40)), draw(st.integers(0, 20))
    jitter = draw(st.lists(st.integers(0, delay), min_size=len(rows), max_size=len(rows)))
    ordered = [row for _, row in sorted(zip(jitter, rows, strict=True), key=lambda pair: pair[0] + pair[1]["t"])]
    size = draw(st.integers(1, 12))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)], delay


@given(arrivals(), keys_strategy, st.integers(1, 12), st.sampled_from([1, 7, 1000]), st.sampled_from([0, 5]))
def test_without_late_rows_sessions_are_those_of_a_batch(
    arrived: tuple[list[list[Row]], int], keys: tuple[str, ...], gap: int, buffer: int, lateness: int
) -> None:
    batches, delay = arrived
    function = SessionAggregate(SCHEMA, keys, EventTime("t"), gap, CALLS, lateness)
    function.bind_states()
    ctx, seen = context(), -1000
    with tiny_thresholds(buffer):
        for rows in batches:
            function.process(batch_of(rows), ctx)
            seen = max(seen, *(row["t"] for row in rows))
            ctx.watermark_us = seen - delay
            function.on_watermark(ctx.watermark_us, ctx)
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
    rows_out = emitted(ctx)
    expected = sessions_of([row for rows in batches for row in rows], keys, gap)
    assert by_window(rows_out, keys) == expected
    assert len(rows_out) == len(expected)
    assert "late_rows" not in ctx.counts
    assert function.sessions.rows == 0


class Model:
    """Open sessions as (key, start, end, rows); touching ones are merged by trying every pair."""

    def __init__(self, keys: tuple[str, ...], gap: int, lateness: int) -> None:
        self.keys, self.gap, self.lateness = keys, gap, lateness
        self.sessions: list[tuple[Any, int, int, list[Row]]] = []
        self.emitted_us, self.late = -(2**63), 0
        self.out: list[tuple[Any, ...]] = []

    def _merge(self, sessions: list[tuple[Any, int, int, list[Row]]]) -> list[tuple[Any, int, int, list[Row]]]:
        pending, done = list(sessions), []
        while pending:
            key, start, end, rows = pending.pop()
            touching = [s for s in pending if s[0] == key and s[1] <= end and start <= s[2]]
            if not touching:
                done.append((key, start, end, rows))
                continue
            pending = [s for s in pending if not any(s is other for other in touching)]
            pending.append(
                (
                    key,
                    min(start, *(s[1] for s in touching)),
                    max(end, *(s[2] for s in touching)),
                    [*rows, *(row for s in touching for row in s[3])],
                )
            )
        return done

    def process(self, batch: list[Row]) -> None:
        new = [(key_of(row, self.keys), row["t"], row["t"] + self.gap, [row]) for row in batch]
        if not self.lateness or all(end >= self.emitted_us for _, _, end, _ in new):
            self.sessions += new
            return
        fresh = {id(row) for row in batch}
        self.sessions = self._merge(self.sessions + new)
        for session in list(self.sessions):
            only_new = all(id(row) in fresh for row in session[3])
            if only_new and session[2] < self.emitted_us - self.lateness:
                self.sessions.remove(session)
                self.late += len(session[3])
            elif session[2] < self.emitted_us and any(id(row) in fresh for row in session[3]):
                self._emit(session)

    def _emit(self, session: tuple[Any, int, int, list[Row]]) -> None:
        key, start, end, rows = session
        self.out.append((key, start, end, aggregate(rows)))

    def on_watermark(self, watermark: int) -> None:
        if watermark <= self.emitted_us:
            return
        self.sessions = self._merge(self.sessions)
        for session in sorted(self.sessions, key=lambda s: s[2]):
            if session[2] < self.emitted_us - self.lateness:
                self.late += len(session[3])
            elif self.emitted_us <= session[2] < watermark:
                self._emit(session)
        self.sessions = [s for s in self.sessions if s[2] >= watermark - self.lateness]
        self.emitted_us = watermark


@given(
    schedule_strategy, keys_strategy, st.integers(1, 12), st.sampled_from([0, 0, 5, 20]), st.sampled_from([1, 7, 99])
)
def test_sessions_with_late_rows_follow_the_model(
    schedule: list[tuple[list[Row], int]], keys: tuple[str, ...], gap: int, lateness: int, buffer: int
) -> None:
    function = SessionAggregate(SCHEMA, keys, EventTime("t"), gap, CALLS, lateness)
    function.bind_states()
    model, ctx, seen = Model(keys, gap, lateness), context(), -1000
    with tiny_thresholds(buffer):
        for number, (rows, delay) in enumerate(schedule):
            function.process(batch_of(rows), ctx)
            model.process([dict(row) for row in rows])
            seen = max([seen, *(row["t"] for row in rows)])
            ctx.watermark_us = max(ctx.watermark_us, seen - delay)
            function.on_watermark(ctx.watermark_us, ctx)
            model.on_watermark(ctx.watermark_us)
            if number == 2:
                content = function.sessions.export()
                function.sessions = function.sessions.fresh()
                function.sessions.restore(content)
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
        model.on_watermark(EVENT_TIME_MAX_US)
    rows_out = emitted(ctx)
    expected = {(*key, start, end): result for key, start, end, result in model.out}
    assert by_window(rows_out, keys) == expected
    assert len(rows_out) == len(model.out)
    assert ctx.counts.get("late_rows", 0) == model.late


@given(arrivals(), keys_strategy, st.integers(1, 12))
def test_partial_sessions_of_three_instances_merge(
    arrived: tuple[list[list[Row]], int], keys: tuple[str, ...], gap: int
) -> None:
    batches, delay = arrived
    prototype = SessionAggregate(SCHEMA, keys, EventTime("t"), gap, CALLS)
    states = [prototype.sessions.fresh() for _ in range(3)]
    ctx, seen = context(), -1000
    with tiny_thresholds(7):
        for number, rows in enumerate(batches):
            prototype.sessions = states[number % 3]
            prototype.process(batch_of(rows), ctx)
            seen = max(seen, *(row["t"] for row in rows))
            if number % 2:
                prototype.sessions = states[0]
                for place in (1, 2):
                    prototype.sessions.merge(states[place])
                    states[place] = prototype.sessions.fresh()
                ctx.watermark_us = seen - delay
                prototype.on_watermark(ctx.watermark_us, ctx)
        prototype.sessions = states[0]
        prototype.sessions.merge(states[1])
        arrived_state = prototype.sessions.fresh()
        arrived_state.restore(states[2].export())
        prototype.sessions.merge(arrived_state)
        prototype.on_watermark(EVENT_TIME_MAX_US, ctx)
    expected = sessions_of([row for rows in batches for row in rows], keys, gap)
    assert by_window(emitted(ctx), keys) == expected
    assert len(emitted(ctx)) == len(expected)
