"""Windows, sessions, running aggregates and top rows against models that keep all rows and loop over them.

The state's thresholds are set to a handful of rows, so that buffers flush, blocks merge and output splits often.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.expressions import compile_scalar, parse_aggregate
from stretto.operators.ranking import ranking
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.top import WindowTop
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import EventTime, Hopping, Span, Tumbling

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
CALLS = (
    *(
        parse_aggregate(text, SCHEMA)
        for text in (
            "count(*) AS n",
            "count(x) AS n_x",
            "sum(x) AS total",
            "min(x) AS low",
            "max(x) AS high",
            "avg(x) AS mean",
            "max(s) AS last_name",
            "count(distinct s) AS names",
            "top_k(x, 2) AS best",
            "quantile(x, 0.3) AS q",
            "collect(x) AS everything",
            "max_by(s, x) AS top_name",
            "count(*) FILTER (WHERE x > 0) AS positive",
            "count(distinct s, x % 2) AS pairs",
            "sum(distinct x) AS different",
            "collect_set(s) AS set_of_names",
            "mode(x) AS common",
            "percentile_approx(x, 0.4) AS near",
            "bit_xor(x) AS bits",
            "bool_and(x > -9) AS above",
            "max(struct(x, s)) AS pair",
            "listagg(s, '-') WITHIN GROUP (ORDER BY x DESC) AS text",
            "var_pop(x % 1) AS nothing",
        )
    ),
    parse_aggregate("first(x) AS opening", SCHEMA, time="t"),
    parse_aggregate("last(x, true) AS closing", SCHEMA, time="t"),
    UserAggregate(
        init=list,
        add=lambda acc, rows: [*acc, *rows.column("x").to_pylist()],
        combine=lambda mine, theirs: mine.extend(theirs) or mine,
        finish=lambda acc: sum(value or 0 for value in acc),
        type=pa.int64(),
        columns=("x",),
        name="mine",
    ),
)
Row = dict[str, Any]


def quantile(values: list[int], q: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low, high = math.floor(position), math.ceil(position)
    if low == high:
        return float(ordered[low])
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def aggregate(rows: list[Row]) -> Row:
    xs = [row["x"] for row in rows if row["x"] is not None]
    names = [row["s"] for row in rows if row["s"] is not None]
    ranked = [(row["x"], row["s"] is not None, row["s"] or "") for row in rows if row["x"] is not None]
    return {
        "n": len(rows),
        "n_x": len(xs),
        "total": sum(xs) if xs else None,
        "low": min(xs, default=None),
        "high": max(xs, default=None),
        "mean": sum(xs) / len(xs) if xs else None,
        "last_name": max(names, default=None),
        "names": len(set(names)),
        "best": sorted(xs, reverse=True)[:2],
        "q": quantile(xs, 0.3),
        "everything": sorted(xs),
        "top_name": (max(ranked)[2] if max(ranked)[1] else None) if ranked else None,
        "mine": sum(xs),
        **newer(rows, xs, names),
    }


def newer(rows: list[Row], xs: list[int], names: list[str]) -> Row:
    both = [(row["x"], row["s"]) for row in rows if row["x"] is not None and row["s"] is not None]
    texts = sorted(
        ((row["x"] is not None, row["x"] or 0, row["s"]) for row in rows if row["s"] is not None), reverse=True
    )
    pairs = [(row["x"] is not None, row["x"] or 0, row["s"] is not None, row["s"] or "", row) for row in rows]
    greatest = max(pairs, key=lambda pair: pair[:4])[4]
    timed = [(row["t"], row["x"] is not None, row["x"] or 0) for row in rows]
    known = [each for each in timed if each[1]]
    return {
        "positive": sum(x > 0 for x in xs),
        "pairs": len({(s, math.fmod(x, 2)) for x, s in both}),
        "different": sum(set(xs)) if xs else None,
        "set_of_names": sorted(set(names)),
        "common": min(xs, key=lambda x: (-xs.count(x), x), default=None),
        "near": sorted(xs)[max(math.ceil(0.4 * len(xs)) - 1, 0)] if xs else None,
        "bits": functools.reduce(operator.xor, xs) if xs else None,
        "above": all(x > -9 for x in xs) if xs else None,
        "pair": {"x": greatest["x"], "s": greatest["s"]},
        "text": "-".join(text for _, _, text in sorted(texts, reverse=True)) if texts else None,
        "nothing": 0.0 if xs else None,
        "opening": min(timed)[2] if min(timed)[1] else None,
        "closing": max(known)[2] if known else None,
    }


def batch_of(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def emitted(ctx: Context) -> list[Row]:
    rows: list[Row] = []
    for _, batch in ctx.sent:
        columns = {
            name: [value.value for value in column] if pa.types.is_timestamp(column.type) else column.to_pylist()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        rows.extend(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return rows


@contextmanager
def tiny_thresholds(buffer: int) -> Iterator[None]:
    with (
        patch("stretto.operators.panes.BUFFER_ROWS_MAX", buffer),
        patch("stretto.operators.panes.SMALL_BLOCK_ROWS_MAX", 4),
        patch("stretto.operators.windowed.EMIT_ROWS_MAX", 5),
        patch("stretto.operators.sessions.BUFFER_ROWS_MAX", buffer),
        patch("stretto.operators.sessions.PARTS_ROWS_MIN", 4),
    ):
        yield


def context(function: Any) -> Context:
    return Context("job", "fn", 0, 1, {"out": function.schema})


def windows_of(t: int, window: Tumbling | Hopping) -> list[tuple[int, int]]:
    start = (t - window.origin_us) // window.slide_us * window.slide_us + window.origin_us
    found = []
    while start + window.size_us > t:
        found.append((start, start + window.size_us))
        start -= window.slide_us
    return found


rows_strategy = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, -3, 0, 7, 2**40]),
        "s": st.sampled_from([None, "", "a", "b", "é"]),
        "x": st.one_of(st.none(), st.integers(-9, 9)),
        "t": st.integers(-60, 60),
    }
)
window_strategy = st.one_of(
    st.builds(Tumbling, st.integers(1, 25), st.integers(-9, 9)),
    st.sampled_from([Hopping(10, 5), Hopping(10, 4, 3), Hopping(9, 6, -2), Hopping(7, 7), Hopping(12, 1)]),
)
# Batches, and by how much the watermark trails the greatest time seen when the batch has been processed.
schedule_strategy = st.lists(st.tuples(st.lists(rows_strategy, max_size=12), st.integers(0, 40)), max_size=8)
keys_strategy = st.sampled_from([(), ("k",), ("s",), ("k", "s")])


def key_of(row: Row, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[key] for key in keys)


class Model:
    """Every window with all its rows; a row is added to a window unless the window has been dropped."""

    def __init__(self, keys: tuple[str, ...], lateness: int) -> None:
        self.keys, self.lateness = keys, lateness
        self.windows: dict[tuple[Any, ...], list[Row]] = {}
        self.late = 0

    def add(self, row: Row, spans: list[tuple[int, int]], watermark: int) -> None:
        open_spans = [span for span in spans if span[1] + self.lateness > watermark]
        self.late += not open_spans
        for span in open_spans:
            self.windows.setdefault((*key_of(row, self.keys), *span), []).append(row)

    def results(self) -> dict[tuple[Any, ...], Row]:
        return {key: aggregate(rows) for key, rows in self.windows.items()}


def by_window(rows: list[Row], keys: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    """Returns the last row of each key and window, without these columns."""
    found = {}
    for row in rows:
        values = dict(row)
        found[(*(values.pop(key) for key in keys), values.pop("window_start"), values.pop("window_end"))] = values
    return found


@given(schedule_strategy, window_strategy, keys_strategy, st.sampled_from([0, 0, 1, 15]), st.sampled_from([1, 7, 1000]))
def test_windows_hold_the_rows_of_the_model(
    schedule: list[tuple[list[Row], int]],
    window: Tumbling | Hopping,
    keys: tuple[str, ...],
    lateness: int,
    buffer: int,
) -> None:
    function = WindowAggregate(SCHEMA, keys, EventTime("t"), window, CALLS, lateness)
    function = copy.deepcopy(function)
    function.bind_states()
    model, ctx, seen = Model(keys, lateness), context(function), -1000
    with tiny_thresholds(buffer):
        for rows, delay in schedule:
            function.process(batch_of(rows), ctx)
            for row in rows:
                model.add(row, windows_of(row["t"], window), ctx.watermark_us)
                seen = max(seen, row["t"])
            ctx.watermark_us = max(ctx.watermark_us, seen - delay)
            function.on_watermark(ctx.watermark_us, ctx)
        ctx.watermark_us = EVENT_TIME_MAX_US
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
    rows_out = emitted(ctx)
    assert by_window(rows_out, keys) == model.results()
    assert ctx.counts.get("late_rows", 0) == model.late
    assert function.panes.rows == 0
    if not lateness:
        assert len(rows_out) == len(model.windows)
        ends = [row["window_end"] for row in rows_out]
        assert ends == sorted(ends)


@given(schedule_strategy, window_strategy, keys_strategy, st.integers(1, 4))
def test_partial_states_of_three_instances_merge_to_the_state_of_one(
    schedule: list[tuple[list[Row], int]], window: Tumbling | Hopping, keys: tuple[str, ...], barrier_every: int
) -> None:
    """Batches go to three instances in turn; at a barrier the lessees' states are sent to the first, which emits."""
    prototype = WindowAggregate(SCHEMA, keys, EventTime("t"), window, CALLS)
    instances = [copy.deepcopy(prototype) for _ in range(3)]
    for instance in instances:
        instance.bind_states()
    model, ctx, seen = Model(keys, 0), context(prototype), -1000
    with tiny_thresholds(7):
        for number, (rows, delay) in enumerate([*schedule, ([], 0)]):
            instances[number % 3].process(batch_of(rows), ctx)
            for row in rows:
                model.add(row, windows_of(row["t"], window), ctx.watermark_us)
                seen = max(seen, row["t"])
            last = number == len(schedule)
            if number % barrier_every and not last:
                continue
            for lessee in instances[1:]:
                if number % 2:  # in the same process, or as plain data over the wire
                    instances[0].panes.merge(lessee.panes)
                else:
                    arrived = prototype.panes.fresh()
                    arrived.restore(lessee.panes.export())
                    instances[0].panes.merge(arrived)
                lessee.panes = lessee.panes.fresh()
            ctx.watermark_us = EVENT_TIME_MAX_US if last else max(ctx.watermark_us, seen - delay)
            instances[0].on_watermark(ctx.watermark_us, ctx)
    assert by_window(emitted(ctx), keys) == model.results()
    assert len(emitted(ctx)) == len(model.windows)


@given(schedule_strategy, st.integers(0, 8), window_strategy)
def test_a_restored_state_continues_like_the_exported_one(
    schedule: list[tuple[list[Row], int]], cut: int, window: Tumbling | Hopping
) -> None:
    straight = WindowAggregate(SCHEMA, ("k",), EventTime("t"), window, CALLS, lateness_us=5)
    moved = copy.deepcopy(straight)
    outputs = []
    with tiny_thresholds(7):
        for function in (straight, moved):
            function.bind_states()
            ctx, seen = context(function), -1000
            for number, (rows, delay) in enumerate(schedule):
                if function is moved and number == cut:
                    content = function.panes.export()
                    function.panes = function.panes.fresh()
                    function.panes.restore(content)
                function.process(batch_of(rows), ctx)
                seen = max([seen, *(row["t"] for row in rows)])
                ctx.watermark_us = max(ctx.watermark_us, seen - delay)
                function.on_watermark(ctx.watermark_us, ctx)
            function.on_watermark(EVENT_TIME_MAX_US, ctx)
            outputs.append(emitted(ctx))
    assert by_window(outputs[0], ("k",)) == by_window(outputs[1], ("k",))
    assert len(outputs[0]) == len(outputs[1])


SPANNED = pa.schema([*SCHEMA, ("from", pa.timestamp("us", "UTC")), ("to", pa.timestamp("us", "UTC"))])


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(rows_strategy, st.integers(1, 9)), max_size=9), st.integers(0, 40)), max_size=8
    )
)
def test_spans_are_windows_that_rows_bring_along(schedule: list[tuple[list[tuple[Row, int]], int]]) -> None:
    calls = CALLS[:3]
    function = WindowAggregate(SPANNED, ("k",), None, Span("from", "to"), calls)
    model, ctx, seen = Model(("k",), 0), context(function), -1000
    with tiny_thresholds(5):
        for pairs, delay in schedule:
            rows = [{**row, "from": row["t"], "to": row["t"] + length} for row, length in pairs]
            function.process(batch_of(rows, SPANNED), ctx)
            for row in rows:
                model.add(row, [(row["from"], row["to"])], ctx.watermark_us)
                seen = max(seen, row["t"])
            ctx.watermark_us = max(ctx.watermark_us, seen - delay)
            function.on_watermark(ctx.watermark_us, ctx)
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
    expected = {key: {name: result[name] for name in ("n", "n_x", "total")} for key, result in model.results().items()}
    assert by_window(emitted(ctx), ("k",)) == expected
    assert ctx.counts.get("late_rows", 0) == model.late


@given(st.lists(st.lists(rows_strategy, max_size=9), max_size=8), keys_strategy, st.integers(0, 8))
def test_running_aggregates_follow_every_batch(batches: list[list[Row]], keys: tuple[str, ...], cut: int) -> None:
    function = RunningAggregate(SCHEMA, keys, CALLS)
    function.bind_states()
    held: dict[tuple[Any, ...], list[Row]] = {}
    for number, rows in enumerate(batches):
        if number == cut:
            content = function.totals.export()
            function.totals = function.totals.fresh()
            function.totals.restore(content)
        ctx = context(function)
        function.process(batch_of(rows), ctx)
        for row in rows:
            held.setdefault(key_of(row, keys), []).append(row)
        touched = {key_of(row, keys) for row in rows}
        rows_out = emitted(ctx)
        assert len(rows_out) == len(touched)
        for row in rows_out:
            key = tuple(row.pop(name) for name in keys)
            assert row == aggregate(held[key])
    assert len(function.totals) == len(held)


@given(st.lists(st.lists(rows_strategy, max_size=9), max_size=8), keys_strategy)
def test_running_totals_of_two_instances_merge(batches: list[list[Row]], keys: tuple[str, ...]) -> None:
    one, two = (RunningAggregate(SCHEMA, keys, CALLS) for _ in range(2))
    ctx = context(one)
    for number, rows in enumerate(batches):
        (one, two)[number % 2].process(batch_of(rows), ctx)
    one.totals.merge(two.totals)
    everything = [row for rows in batches for row in rows]
    for probe in everything[:3]:
        ctx = context(one)
        one.process(batch_of([probe]), ctx)
        everything.append(probe)
        (row,) = emitted(ctx)
        key = tuple(row.pop(name) for name in keys)
        assert row == aggregate([other for other in everything if key_of(other, keys) == key])


# Sessions: a model that merges intervals pair by pair, and one sort of all rows for when none is late.


def sessions_of(rows: list[Row], keys: tuple[str, ...], gap: int) -> dict[tuple[Any, ...], Row]:
    """Returns the sessions of all rows at once, as Spark's batch engine computes them."""
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
    """Batches whose rows are out of order by no more than a delay."""
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
    ctx, seen = context(function), -1000
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


class SessionModel:
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
    model, ctx, seen = SessionModel(keys, gap, lateness), context(function), -1000
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
    ctx, seen = context(prototype), -1000
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


# The top rows of a window: a model that sorts all of them.


def comparable(value: Any) -> tuple[Any, ...]:
    """Null is the least, as in Spark."""
    return () if value is None else (value,)


def best(rows: list[Row], k: int, descending: bool, ties: bool) -> list[Row]:
    """Returns the rows whose SQL rank() or row_number() is at most k."""
    if ties:
        values = [comparable(row["x"]) for row in rows]
        better = [sum(other > mine if descending else other < mine for other in values) for mine in values]
        return [row for row, count in zip(rows, better, strict=True) if count < k]
    columns = ("x", *SCHEMA.names)
    return sorted(rows, key=lambda row: tuple(comparable(row[name]) for name in columns), reverse=descending)[:k]


def canonical(rows: list[Row]) -> list[Any]:
    return sorted(sorted((name, comparable(value)) for name, value in row.items()) for row in rows)


@given(
    schedule_strategy,
    window_strategy,
    keys_strategy,
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 7, 1000]),
    st.booleans(),
)
def test_the_best_rows_of_each_window(
    schedule: list[tuple[list[Row], int]],
    window: Tumbling | Hopping,
    keys: tuple[str, ...],
    k: int,
    descending: bool,
    ties: bool,
    buffer: int,
    spread: bool,
) -> None:
    function = WindowTop(
        SCHEMA, keys, EventTime("t"), window, ranking(compile_scalar("x", SCHEMA), k, descending, ties)
    )
    function.bind_states()
    held: dict[tuple[Any, ...], list[Row]] = {}
    lessees = [function.panes.fresh() for _ in range(3)]
    ctx, seen = context(function), -1000
    with tiny_thresholds(buffer):
        for number, (rows, delay) in enumerate(schedule):
            if spread:
                function.panes = lessees[number % 3]
            function.process(batch_of(rows), ctx)
            for row in rows:
                for span in windows_of(row["t"], window):
                    if span[1] > ctx.watermark_us:
                        held.setdefault((*key_of(row, keys), *span), []).append(row)
                seen = max(seen, row["t"])
            if spread:
                function.panes = lessees[0]
                function.panes.merge(lessees[1])
                lessees[1] = function.panes.fresh()
                lessees[1].restore(lessees[2].export())
                lessees[2] = function.panes.fresh()
                function.panes.merge(lessees[1])
                lessees[1] = function.panes.fresh()
            ctx.watermark_us = max(ctx.watermark_us, seen - delay)
            function.on_watermark(ctx.watermark_us, ctx)
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
    expected = [
        {**row, "window_start": group[-2], "window_end": group[-1]}
        for group, rows in held.items()
        for row in best(rows, k, descending, ties)
    ]
    rows_out = emitted(ctx)
    assert canonical(rows_out) == canonical(expected)
    ends = [row["window_end"] for row in rows_out]
    assert ends == sorted(ends)
    assert function.panes.rows == 0


WINDOWED = pa.schema([*SCHEMA, ("window_start", SCHEMA.field("t").type), ("window_end", SCHEMA.field("t").type)])


@given(schedule_strategy, st.integers(1, 3))
def test_the_rows_of_a_window_aggregate_are_ranked_in_their_own_windows(
    schedule: list[tuple[list[Row], int]], k: int
) -> None:
    function = WindowTop(WINDOWED, (), None, None, ranking(compile_scalar("x", WINDOWED), k))
    held: dict[tuple[int, int], list[Row]] = {}
    ctx, seen = context(function), -1000
    with tiny_thresholds(5):
        for rows, delay in schedule:
            windowed = [
                {**row, "window_start": row["t"] // 8 * 8, "window_end": row["t"] // 8 * 8 + 8 + row["t"] % 2}
                for row in rows
            ]
            function.process(batch_of(windowed, WINDOWED), ctx)
            for row in windowed:
                if row["window_end"] > ctx.watermark_us:
                    held.setdefault((row["window_start"], row["window_end"]), []).append(row)
                seen = max(seen, row["t"])
            ctx.watermark_us = max(ctx.watermark_us, seen - delay)
            function.on_watermark(ctx.watermark_us, ctx)
        function.on_watermark(EVENT_TIME_MAX_US, ctx)
    assert function.schema == WINDOWED
    expected = [row for rows in held.values() for row in best(rows, k, True, True)]
    assert canonical(emitted(ctx)) == canonical(expected)
