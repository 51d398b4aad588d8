"""The best rows of a window against a model that sorts all rows of the window."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from test_windows import (
    SCHEMA,
    Row,
    batch_of,
    context,
    emitted,
    key_of,
    keys_strategy,
    schedule_strategy,
    tiny_thresholds,
    window_strategy,
    windows_of,
)

from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.expressions import compile_scalar
from stretto.operators.top import WindowTop
from stretto.operators.windows import EventTime, Hopping, Tumbling


def comparable(value: Any) -> tuple[Any, ...]:
    """Null is the least, as in Spark."""
    return () if value is None else (value,)


def best(rows: list[Row], k: int, descending: bool, ties: bool) -> list[Row]:
    """SQL's rank() or row_number() at most k."""
    if ties:
        values = [comparable(row["x"]) for row in rows]
        better = [sum(other > mine if descending else other < mine for other in values) for mine in values]
        return [row for row, count in zip(rows, better, strict=True) if count < k]
    ordered = sorted(rows, key=lambda row: tuple(comparable(row[name]) for name in SCHEMA.names))
    ordered.sort(key=lambda row: comparable(row["x"]), reverse=descending)
    return ordered[:k]


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
    function = WindowTop(SCHEMA, keys, EventTime("t"), window, compile_scalar("x", SCHEMA), k, descending, ties)
    function.bind_states()
    held: dict[tuple[Any, ...], list[Row]] = {}
    lessees = [function.panes.fresh() for _ in range(3)]
    ctx, seen = context(), -1000
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
    function = WindowTop(WINDOWED, (), None, None, compile_scalar("x", WINDOWED), k)
    held: dict[tuple[int, int], list[Row]] = {}
    ctx, seen = context(), -1000
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
