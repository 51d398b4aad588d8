"""Running totals rebuilt from fragments are as they were at the mark, however late the fragments are read."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.actors.context import Context
from stretto.expressions import parse_aggregate
from stretto.operators.running import RunningAggregate, RunningState
from stretto.state import Deferred, Fragment, rolling

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.int64())])
NEWER = (
    "count(*) FILTER (WHERE x > 0) AS positive",
    "kurtosis(x) AS peak",
    "corr(x, k) AS together",
    "collect_set(s) AS names",
    "mode(x) AS common",
    "first(x) AS opening",
    "last(x) IGNORE NULLS AS closing",
    "max(struct(x, s)) AS pair",
    "listagg(s) WITHIN GROUP (ORDER BY s) AS text",
    "try_sum(cast(x as decimal(38, 2))) AS wide",
    "bit_or(x) AS bits",
    "percentile_approx(x, 0.5) AS middle",
)
TEXTS = ("count(*) AS n", "sum(x) AS total", "min(x) AS low", "avg(x) AS mean", "max(s) AS name", *NEWER)
CALLS = tuple(parse_aggregate(text, SCHEMA) for text in TEXTS)

ROW = st.tuples(st.integers(0, 12), st.sampled_from("abc"), st.one_of(st.none(), st.integers(-9, 9)))
STEP: st.SearchStrategy[tuple[str, list[Any]]] = st.one_of(
    st.tuples(st.just("rows"), st.lists(ROW, min_size=1, max_size=6)),
    st.tuples(st.sampled_from(["mark", "read", "fail", "recover"]), st.just([])),
)


def function_over(keys: tuple[str, ...]) -> RunningAggregate:
    function = RunningAggregate(SCHEMA, keys, CALLS)
    function.bind_states()
    return function


def feed(function: RunningAggregate, rows: list[Any]) -> None:
    batch = pa.RecordBatch.from_pylist([dict(zip("ksx", row, strict=True)) for row in rows], SCHEMA)
    function.process(batch, Context("job", "totals", 0, 1, {"out": function.schema}))


def content_of(state: RunningState) -> list[Any]:
    exported = state.export()
    return [] if exported is None else sorted(map(repr, exported["table"].to_pylist()))


class Checkpoints:
    """Stored contents by number, and contents that have not been read yet."""

    def __init__(self) -> None:
        self.stored: dict[int, pa.Table] = {}
        self.unread: list[tuple[list[Fragment], list[Any]]] = []
        self.last: tuple[list[int], list[Any]] | None = None

    def read(self) -> None:
        """Snapshots are stored in the order in which they were taken."""
        for fragments, content in self.unread:
            for fragment in fragments:
                if fragment.number not in self.stored:
                    assert isinstance(fragment.content, Deferred)
                    self.stored[fragment.number] = fragment.content.table()
            self.last = [fragment.number for fragment in fragments], content
        self.unread = []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(STEP, max_size=60),
    st.sampled_from([("k",), ("s",), ("k", "s"), ()]),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_totals_come_back_as_they_were_at_the_mark(
    steps: list[Any], keys: tuple[str, ...], stretch: int, length: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", length)
        function, checkpoints = function_over(keys), Checkpoints()
        for step, rows in steps:
            if step == "rows":
                feed(function, rows)
            elif step == "mark":
                content = content_of(function.totals)
                checkpoints.unread.append((function.totals.fragments(), content))
            elif step == "read":
                checkpoints.read()
            elif step == "fail":
                # One could not be stored, and later ones refer to it; they are read all the same.
                function.totals.forget_fragments()
            elif step == "recover" and checkpoints.last is not None:
                numbers, content = checkpoints.last
                function, checkpoints.unread = function_over(keys), []
                function.totals.rebuild([Fragment(number, checkpoints.stored[number]) for number in numbers])
                assert content_of(function.totals) == content
                # Numbers that the lost run used and never stored are used again.
                checkpoints.stored = {number: checkpoints.stored[number] for number in numbers}


def test_totals_are_not_saved_without_a_reader() -> None:
    function = function_over(("k",))
    feed(function, [(1, "a", 1)])
    function.totals.fragments()
    feed(function, [(1, "a", 2)])
    assert not function.totals._frozen


def test_totals_are_read_while_rows_are_processed() -> None:
    """A thread reads frozen totals while rows are processed; they are the totals at the mark."""
    keys, rounds = 20_000, 10
    function = function_over(("k",))
    everything = [(key, "a", 1) for key in range(keys)]
    batch = pa.RecordBatch.from_pylist([dict(zip("ksx", row, strict=True)) for row in everything], SCHEMA)
    ctx = Context("job", "totals", 0, 1, {"out": function.schema})
    function.process(batch, ctx)
    found: list[tuple[int, pa.Table]] = []
    for number in range(1, rounds + 1):
        function.totals.forget_fragments()
        (fragment,) = function.totals.fragments()
        assert isinstance(fragment.content, Deferred)
        reader = threading.Thread(
            target=lambda n, frozen: found.append((n, frozen.table())), args=(number, fragment.content)
        )
        reader.start()
        for start in range(0, keys, 500):
            function.process(batch.slice(start, 500), ctx)
        reader.join()
    for number, table in found:
        assert table.num_rows == keys
        assert np.all(table["c1"].to_numpy() == number), "each key was counted as often as before the mark"
