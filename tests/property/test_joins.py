"""Joins against a nested loop over all rows, for any batches, any order of sides, and any watermarks.

The model gets each row with the watermark at its arrival; it has no buffers, hashes or cleaning.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.context import Context
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.operators import join_base, row_blocks, row_buffer
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Direction, Nearness
from stretto.operators.joins import AsofJoin, IntervalJoin, Join, Matching, UnboundedJoin, WindowJoin
from stretto.operators.windows import EventTime, Hopping, Tumbling
from stretto.state.packing import packed, unpacked

TIME = pa.timestamp("us")
SCHEMAS = {
    "left": pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.string()), ("t", TIME), ("reach", pa.int64())]),
    "right": pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.large_string()), ("t", TIME)]),
}
OUTPUT = pa.schema(
    [(f"l_{field.name}", field.type) for field in SCHEMAS["left"]]
    + [(f"r_{field.name}", field.type) for field in SCHEMAS["right"]]
)
WINDOWED = pa.schema([*OUTPUT, ("window_start", TIME), ("window_end", TIME)])
KEYS = [("n",), ("s",), ("n", "s")]


@dataclass(frozen=True)
class Row:
    id: int
    n: int | None
    s: str | None
    t: int | None
    reach: int
    watermark: int = EVENT_TIME_MIN_US
    """The watermark when the row arrived."""

    def __add__(self, shift: int) -> int:
        assert self.t is not None
        return self.t + shift


Step = tuple[str, Any]
rows = st.builds(
    Row,
    id=st.just(0),
    n=st.sampled_from([0, 1, 2, None]),
    s=st.sampled_from(["", "a", "a rather long key", None]),
    t=st.sampled_from([*range(-2, 20), None]),
    reach=st.integers(-2, 12),
)
steps = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.lists(rows, max_size=8))
    | st.tuples(st.just("watermark"), st.integers(0, 4))
    | st.tuples(st.just("snapshot"), st.sampled_from(["exported", "in fragments", "divided"])),
    max_size=25,
)


@pytest.fixture(params=["sizes as they are", "tiny sizes"], autouse=True, scope="module")
def _sizes(request: pytest.FixtureRequest) -> Iterator[None]:
    """With tiny sizes, a few rows already make several blocks, several batches of pairs, and cleaning."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "tiny sizes":
            patch.setattr(join_base, "PAIRS_MAX", 3)
            patch.setattr(row_blocks, "SMALL_ENTRIES", 2)
            patch.setattr(row_blocks, "EXPIRY_SAMPLES", 2)
            patch.setattr(row_buffer, "BLOCK_ENTRIES_MAX", 12)
        yield


class Reach:
    """The column `t` plus the column `reach`, so that each left row has an upper bound of its own."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.add(batch.column("t").cast(pa.int64()), batch.column("reach")).cast(TIME)


class Plus:
    def __init__(self, shift_us: int) -> None:
        self.shift_us = shift_us

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.add(batch.column("t").cast(pa.int64()), self.shift_us).cast(TIME)


class SameParity:
    """A residual predicate over both sides."""

    def mask(self, batch: pa.RecordBatch) -> Any:
        odd = [pc.bit_wise_and(batch.column(name), 1) for name in ("l_id", "r_id")]
        return pc.equal(*odd).to_numpy(zero_copy_only=False)


class OddLeft:
    """A residual predicate over the left side."""

    def mask(self, batch: pa.RecordBatch) -> Any:
        return pc.equal(pc.bit_wise_and(batch.column("l_id"), 1), 1).to_numpy(zero_copy_only=False)


@dataclass
class Played:
    left: list[Row]
    right: list[Row]
    sent: Counter[tuple[int | None, ...]]
    late_rows: int
    join: Join
    waiting: int = 0
    """The left rows that were stored before the last watermark."""
    stored: tuple[int, int] = (0, 0)


def play(make: Callable[[], Join], script: list[Step]) -> Played:
    """Runs a script to its end; after a snapshot step, a new join continues with the states."""
    played = Played([], [], Counter(), 0, make())
    ctx = Context("job", "join", 0, 1, {"out": played.join.schema})
    played.join.bind_states()
    watermark, next_id = EVENT_TIME_MIN_US, 0
    for kind, what in script:
        if kind == "watermark":
            watermark = max(watermark, 0) + what
            ctx.watermark_us = watermark
            played.join.on_watermark(watermark, ctx)
        elif kind == "snapshot":
            restored = copy.deepcopy(make())
            for name, state in played.join.states().items():
                resume(restored.states()[name], state, what)
            played.join = restored
        else:
            batch = [Row(next_id + i, r.n, r.s, r.t, r.reach, watermark) for i, r in enumerate(what)]
            next_id += len(batch)
            (played.left if kind == "left" else played.right).extend(batch)
            ctx.input = kind
            played.join.process(to_arrow(batch, SCHEMAS[kind]), ctx)
    played.waiting = played.join.left.num_rows
    played.join.on_watermark(EVENT_TIME_MAX_US, ctx)
    played.stored = played.join.left.num_rows, played.join.right.num_rows
    played.join.on_end(ctx)
    for out in batches_of(ctx):
        assert 0 < out.num_rows <= join_base.PAIRS_MAX
        out.validate(full=True)
        names = [name for name in ("l_id", "r_id", "window_start") if name in out.schema.names]
        played.sent.update(zip(*(out.column(name).cast(pa.int64()).to_pylist() for name in names), strict=True))
    played.late_rows = ctx.counts.get("late_rows", 0)
    return played


class Half:
    """The entries whose id is even, or the others."""

    def __init__(self, odd: bool) -> None:
        self.odd = odd

    keys = pa.schema([])

    def mine(self, columns: Any) -> Any:
        return (columns["id"].to_numpy() % 2 == 1) == self.odd


def resume(state: Any, former: Any, how: str) -> None:
    if how == "exported":
        state.restore(unpacked(packed(former.export())))
    elif how == "in fragments":
        state.rebuild(former.fragments())
    else:
        for odd in (False, True):
            part = state.fresh()
            part.rebuild(former.fragments())
            part.keep(Half(odd))
            state.take_in(part)


def batches_of(ctx: Context) -> list[Any]:
    """Returns what was sent; a join sends only batches."""
    return [sent for _, sent in ctx.sent]


def to_arrow(batch: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([getattr(row, field.name) for row in batch], type=field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def keys_valid(row: Row, keys: tuple[str, ...]) -> bool:
    return all(getattr(row, key) is not None for key in keys)


def keys_equal(left: Row, right: Row, keys: tuple[str, ...]) -> bool:
    return keys_valid(left, keys) and all(getattr(left, key) == getattr(right, key) for key in keys)


def pairs_of(keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((key, key) for key in keys)


Pair = tuple[Row, Row, tuple[int, ...]]
Alone = tuple[Row, tuple[int, ...]]


def of_kind(how: JoinKind, pairs: list[Pair], lefts: list[Alone], rights: list[Alone]) -> Counter[tuple[Any, ...]]:
    """Returns what a join sends, given all pairs that match and all rows that are not late, each with its windows."""
    left_matched = {(left.id, window) for left, _, window in pairs}
    right_matched = {(right.id, window) for _, right, window in pairs}
    if how is JoinKind.SEMI:
        return Counter((row.id, *window) for row, window in lefts if (row.id, window) in left_matched)
    alone = [row for row in lefts if (row[0].id, row[1]) not in left_matched]
    if how is JoinKind.ANTI:
        return Counter((row.id, *window) for row, window in alone)
    sent = Counter[tuple[Any, ...]]((left.id, right.id, *window) for left, right, window in pairs)
    if how.tracks_left:
        sent.update((row.id, None, *window) for row, window in alone)
    if how.tracks_right:
        sent.update((None, row.id, *window) for row, window in rights if (row.id, window) not in right_matched)
    return sent


def number_of_late(played: Played, how: JoinKind, keys: tuple[str, ...], is_late: Callable[[Row, bool], bool]) -> int:
    """Rows with a null key count only where they would be sent."""
    return sum(is_late(row, True) and (how.tracks_left or keys_valid(row, keys)) for row in played.left) + sum(
        is_late(row, False) and (how.tracks_right or keys_valid(row, keys)) for row in played.right
    )


@given(steps, st.sampled_from(KEYS), st.booleans(), st.sampled_from([JoinKind.INNER, JoinKind.SEMI]))
def test_an_unbounded_join_is_a_nested_loop(
    script: list[Step], keys: tuple[str, ...], residual: bool, how: JoinKind
) -> None:
    matching = Matching(pairs_of(keys), OUTPUT, SameParity() if residual else None, how)
    played = play(lambda: UnboundedJoin(SCHEMAS["left"], SCHEMAS["right"], matching), script)
    pairs: list[Pair] = [
        (left, right, ())
        for left in played.left
        for right in played.right
        if keys_equal(left, right, keys) and (not residual or left.id % 2 == right.id % 2)
    ]
    assert played.sent == of_kind(how, pairs, [(row, ()) for row in played.left], [])
    if how is JoinKind.INNER:
        assert played.waiting == sum(keys_valid(row, keys) for row in played.left)


@given(
    steps,
    st.sampled_from(KEYS),
    st.integers(-6, 6),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(JoinKind),
)
def test_an_interval_join_is_a_nested_loop_over_rows_in_time(
    script: list[Step], keys: tuple[str, ...], low: int, inclusive: bool, known: bool, residual: bool, how: JoinKind
) -> None:
    matching = Matching(pairs_of(keys), OUTPUT, SameParity() if residual else None, how)

    def make() -> Join:
        schemas = SCHEMAS["left"], SCHEMAS["right"]
        times = EventTime("t"), EventTime("t")
        bounds = Plus(low), Reach()
        return IntervalJoin(*schemas, matching, *times, *bounds, inclusive, low if known else None)

    def is_late(row: Row, is_left: bool) -> bool:
        return row.t is not None and row.t < row.watermark

    played = play(make, script)
    lefts, rights = ([row for row in side if not is_late(row, True)] for side in (played.left, played.right))
    pairs: list[Pair] = [
        (left, right, ())
        for left in lefts
        for right in rights
        if keys_equal(left, right, keys) and left.t is not None and right.t is not None
        if left + low <= right + 0 < left + left.reach + inclusive
        if not residual or left.id % 2 == right.id % 2
    ]
    assert played.sent == of_kind(how, pairs, [(row, ()) for row in lefts], [(row, ()) for row in rights])
    assert played.late_rows == number_of_late(played, how, keys, is_late)
    assert played.stored == (0, 0)


@given(
    steps,
    st.sampled_from(KEYS),
    st.integers(1, 12).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.integers(-3, 3),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(JoinKind),
)
def test_a_window_join_is_a_nested_loop_over_open_windows(
    script: list[Step],
    keys: tuple[str, ...],
    shape: tuple[int, int],
    origin: int,
    offset: int,
    residual: bool,
    how: JoinKind,
) -> None:
    size, slide = shape
    window = Tumbling(size, origin) if slide == size else Hopping(size, slide, origin)
    matching = Matching(pairs_of(keys), WINDOWED, SameParity() if residual else None, how)

    def make() -> Join:
        times = EventTime("t", offset), EventTime("t")
        return WindowJoin(SCHEMAS["left"], SCHEMAS["right"], matching, window, *times)

    def open_windows(row: Row, is_left: bool) -> set[int]:
        if row.t is None:
            return set()
        time = row.t - (offset if is_left else 0)
        starts = (start for start in range(time - size + 1, time + 1) if (start - origin) % slide == 0)
        return {start for start in starts if start + size > row.watermark}

    def is_late(row: Row, is_left: bool) -> bool:
        return row.t is not None and not open_windows(row, is_left)

    played = play(make, script)
    lefts: list[Alone] = [(row, (start,)) for row in played.left for start in open_windows(row, True)]
    rights: list[Alone] = [(row, (start,)) for row in played.right for start in open_windows(row, False)]
    pairs: list[Pair] = [
        (left, right, start)
        for left, start in lefts
        for right, other in rights
        if start == other and keys_equal(left, right, keys) and (not residual or left.id % 2 == right.id % 2)
    ]
    assert played.sent == of_kind(how, pairs, lefts, rights)
    assert played.late_rows == number_of_late(played, how, keys, is_late)
    assert played.stored == (0, 0)


def _partner(left: Row, rights: list[Row], near: Nearness) -> Row | None:
    """Returns the right row that a left row takes: by its time, and of several at that time by its columns."""

    def order(row: Row) -> tuple[Any, ...]:
        return (row + 0, row.id, -1 if row.n is None else row.n, row.s or "")

    def reached(row: Row) -> bool:
        distance = row.t - left.t if row.t is not None and left.t is not None else None
        if distance is None or (distance == 0 and not near.exact):
            return False
        return near.tolerance_us is None or abs(distance) <= near.tolerance_us

    before = [row for row in rights if reached(row) and row + 0 <= left + 0]
    after = [row for row in rights if reached(row) and row + 0 >= left + 0]
    last, first = max(before, key=order, default=None), min(after, key=order, default=None)
    if near.direction is Direction.BACKWARD:
        return last
    if near.direction is Direction.FORWARD or last is None:
        return first
    return last if first is None or left + 0 - (last + 0) <= first + 0 - (left + 0) else first


@given(
    steps,
    st.sampled_from(KEYS),
    st.sampled_from(Direction),
    st.sampled_from([None, 1, 5]),
    st.booleans(),
    st.sampled_from(["none", "over the left side", "over both sides"]),
    st.sampled_from([JoinKind.INNER, JoinKind.LEFT]),
)
def test_an_asof_join_is_a_nested_loop_over_rows_in_time(
    script: list[Step],
    keys: tuple[str, ...],
    direction: Direction,
    tolerance: int | None,
    exact: bool,
    residual: str,
    how: JoinKind,
) -> None:
    if direction is not Direction.BACKWARD and tolerance is None:
        tolerance = 3
    predicate = {"none": None, "over the left side": OddLeft(), "over both sides": SameParity()}[residual]
    matching, near = Matching(pairs_of(keys), OUTPUT, predicate, how), Nearness(direction, tolerance, exact)

    def make() -> Join:
        replaces = near.only_looks_back and residual != "over both sides"
        return AsofJoin(SCHEMAS["left"], SCHEMAS["right"], matching, EventTime("t"), EventTime("t"), near, replaces)

    def is_late(row: Row, is_left: bool) -> bool:
        return row.t is not None and row.t < row.watermark

    def passes(left: Row, right: Row) -> bool:
        return {"none": True, "over the left side": left.id % 2 == 1}.get(residual, left.id % 2 == right.id % 2)

    played = play(make, script)
    lefts, rights = ([row for row in side if not is_late(row, True)] for side in (played.left, played.right))
    pairs: list[Pair] = []
    for left in lefts:
        partner = _partner(left, [r for r in rights if keys_equal(left, r, keys) and passes(left, r)], near)
        if partner is not None:
            pairs.append((left, partner, ()))
    assert played.sent == of_kind(how, pairs, [(row, ()) for row in lefts], [])
    assert played.late_rows == number_of_late(played, how, keys, is_late)
    if near.tolerance_us is not None:
        assert played.stored == (0, 0)


@pytest.mark.parametrize("direction", Direction)
def test_an_asof_join_keeps_right_rows_as_long_as_a_left_row_waits(direction: Direction) -> None:
    matching, near = Matching(pairs_of(("n",)), OUTPUT), Nearness(direction, 10)
    join = AsofJoin(SCHEMAS["left"], SCHEMAS["right"], matching, EventTime("t"), EventTime("t"), near)
    ctx = Context("job", "join", 0, 1, {"out": join.schema})
    times = {"left": 110, "right": 120 if direction is Direction.FORWARD else 100}
    for side, time in times.items():
        ctx.input = side
        join.process(to_arrow([Row(1, 0, "", time, 0)], SCHEMAS[side]), ctx)
    for now in range(100, 132):
        ctx.watermark_us = now
        join.on_watermark(now, ctx)
        sent_at = 111 if direction is Direction.BACKWARD else 121
        assert len(batches_of(ctx)) == (now >= sent_at)
    assert join.left.num_rows == join.right.num_rows == 0


def test_an_asof_join_that_looks_back_keeps_one_row_of_each_key() -> None:
    schemas = SCHEMAS["left"], SCHEMAS["right"]
    matching = Matching(pairs_of(("s",)), OUTPUT)
    join = AsofJoin(*schemas, matching, EventTime("t"), EventTime("t"), Nearness(), last_replaces=True)
    ctx = Context("job", "join", 0, 1, {"out": join.schema})
    for now in range(0, 40_000, 200):
        ctx.input = "right"
        join.process(to_arrow([Row(i, 0, f"key {i % 50}", now + i, 0) for i in range(200)], SCHEMAS["right"]), ctx)
        ctx.input = "left"
        join.process(to_arrow([Row(i, 0, f"key {i % 60}", now + i, 0) for i in range(200)], SCHEMAS["left"]), ctx)
        ctx.watermark_us = now
        join.on_watermark(now, ctx)
        # 50 rows of keys, 400 that the watermark has not passed, and twice that before it is worth cleaning.
        assert join.right.num_rows < 2 * (50 + 400) + 1_024 + 200
        assert join.left.num_rows < 400 * 4 / 3 + 4 * 1_024 + 200
    partners = [row for out in batches_of(ctx) for row in out.to_pylist()]
    assert len(partners) > 30_000
    for row in partners:
        behind = row["l_t"] - row["r_t"]
        assert row["l_s"] == row["r_s"]
        assert behind.days == 0
        assert behind.microseconds < 400


@pytest.mark.parametrize("kind", ["interval", "tumbling", "hopping"])
def test_the_state_stays_bounded_as_the_watermark_advances(kind: str) -> None:
    schemas, on, times = (SCHEMAS["left"], SCHEMAS["right"]), pairs_of(("n",)), (EventTime("t"), EventTime("t"))
    make: dict[str, Callable[[], Join]] = {
        "interval": lambda: IntervalJoin(
            *schemas, Matching(on, OUTPUT), *times, Plus(-1_000), Plus(1_000), True, -1_000
        ),
        "tumbling": lambda: WindowJoin(*schemas, Matching(on, WINDOWED), Tumbling(2_000), *times),
        "hopping": lambda: WindowJoin(*schemas, Matching(on, WINDOWED), Hopping(2_000, 500), *times),
    }
    join = make[kind]()
    ctx = Context("job", "join", 0, 1, {"out": join.schema})
    for now in range(0, 40_000, 200):
        for side in ("left", "right"):
            ctx.input = side
            batch = [Row(i, now + i, "", now + i, 0) for i in range(200)]
            join.process(to_arrow(batch, SCHEMAS[side]), ctx)
        ctx.watermark_us = now
        join.on_watermark(now, ctx)
        # At most 2,200 rows of a side can be live; the rest are rows that are not worth cleaning yet.
        assert max(join.left.num_rows, join.right.num_rows) < 2_200 * 4 / 3 + 4 * 1_024 + 200
    assert sum(batch.num_rows for batch in batches_of(ctx)) >= 40_000
