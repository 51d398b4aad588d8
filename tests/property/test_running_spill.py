"""A running aggregate that spills emits the same rows as one that does not, also through recoveries."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_spilling import DictCold

from stretto.actors.context import Context
from stretto.expressions import parse_aggregate
from stretto.operators import running_spill
from stretto.operators.described import rows_of
from stretto.operators.running import RunningAggregate
from stretto.operators.running_spill import SLOT_BYTES, RowBytes
from stretto.runtime.cold_store import RocksCold
from stretto.state import Fragment, rolling

SCHEMAS = [
    pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.float64())]),
    pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.float64())]),
    pa.schema([("k", pa.float64()), ("x", pa.int64()), ("y", pa.float64())]),
]
INTS = st.one_of(st.integers(0, 25), st.integers(-(2**40), 2**40), st.none())
KEYS = [
    INTS,
    st.one_of(INTS.map(str), st.none()),
    st.one_of(st.sampled_from([float("nan"), -0.0, 0.0, 1.5, None]), st.integers(0, 9).map(float)),
]
NEWER = [
    "stddev(y) AS deviation",
    "covar_samp(x, y) AS together",
    "collect_set(x) AS values",
    "mode(x) AS common",
    "first(x) FILTER (WHERE y > 0) AS opening",
    "max(struct(x, y)) AS pair",
    "listagg(x, ',') WITHIN GROUP (ORDER BY y DESC) AS text",
    "avg(cast(x as decimal(38, 2))) AS wide",
    "bool_or(x > 5) AS some_large",
]
CALLS = ["count(*) AS n", "sum(x) AS total", "max(y) AS high", "max_by(y, x) AS best", "top_k(x, 2) AS top", *NEWER]
VALUE = st.one_of(st.none(), st.integers(-1000, 1000))


def batches(kind: int) -> st.SearchStrategy[Any]:
    rows = st.lists(st.tuples(KEYS[kind], VALUE, VALUE.map(lambda v: None if v is None else v / 2)), max_size=12)
    steps = st.one_of(rows, rows, rows, st.just("checkpoint"), st.just("fail to store"), st.just("recover"))
    return st.tuples(st.just(kind), st.lists(steps, min_size=8, max_size=25))


class Twin:
    def __init__(self, kind: int, keys: tuple[str, ...], spill: tuple[Any, int] | None) -> None:
        schema = SCHEMAS[kind]
        self.schema, self.spill = schema, spill
        self.function = RunningAggregate(schema, keys, tuple(parse_aggregate(call, schema) for call in CALLS))
        self.contents: dict[int, Any] = {}
        self.numbers: list[int] = []
        self.open()

    def open(self) -> None:
        self.function.bind_states()
        if self.spill is not None:
            make, budget = self.spill
            self.function.totals.spill_to(make(), budget)

    def process(self, rows: list[Any]) -> list[Any]:
        ctx = Context("job", "fn", 0, 1, {"out": self.function.schema})
        columns = zip(*rows, strict=True) if rows else [[] for _ in self.schema]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        self.function.process(pa.record_batch(arrays, schema=self.schema), ctx)
        self.function.totals.settle()
        return sorted((row for _, batch in ctx.sent for row in batch.to_pylist()), key=repr)

    def checkpoint(self) -> None:
        fragments = self.function.totals.fragments()
        for fragment in fragments:
            assert fragment.number in self.contents or fragment.content is not None
            self.contents.setdefault(fragment.number, fragment.content)
        self.numbers = [fragment.number for fragment in fragments]

    def fragments(self) -> list[Fragment]:
        return [Fragment(number, self.contents[number]) for number in self.numbers]

    def everything(self) -> list[Any]:
        return sorted(rows_of(self.function.totals.describe(), self.fragments()).to_pylist(), key=repr)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2).flatmap(batches), st.booleans(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_spilling_aggregate_is_an_aggregate(
    case: tuple[int, list[Any]], wide: bool, stretch: int, round_length: int, groups: int
) -> None:
    _check(case, wide, stretch, round_length, groups, DictCold)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2).flatmap(batches), st.booleans(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_it_is_one_on_the_disk(
    case: tuple[int, list[Any]], wide: bool, stretch: int, round_length: int, groups: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        made: list[RocksCold] = []

        def make() -> RocksCold:
            made.append(RocksCold(Path(directory) / str(len(made)), 1))
            return made[-1]

        _check(case, wide, stretch, round_length, groups, make)
        for store in made:
            store.close()


def _check(case: tuple[int, list[Any]], wide: bool, stretch: int, round_length: int, groups: int, make: Any) -> None:
    kind, steps = case
    keys = ("k", "x") if wide else ("k",)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", round_length)
        patch.setattr(running_spill, "ROWS_AT_ONCE", 3)
        twins = [Twin(kind, keys, (make, groups * 2 * SLOT_BYTES)), Twin(kind, keys, None)]
        for step in steps:
            if isinstance(step, list):
                one, other = (twin.process(step) for twin in twins)
                assert repr(one) == repr(other)
            elif step == "recover" and twins[0].numbers:
                for twin in twins:
                    fragments = twin.fragments()
                    twin.open()
                    twin.function.totals.rebuild(fragments)
            elif step == "fail to store":
                for twin in twins:
                    twin.function.totals.fragments()
                    twin.function.totals.forget_fragments()
            elif step == "checkpoint":
                for twin in twins:
                    twin.checkpoint()
                assert repr(twins[0].everything()) == repr(twins[1].everything())
            assert len(twins[0].function.totals) == len(twins[1].function.totals)


@pytest.mark.parametrize("stretch", [1, 2, 3])
def test_a_group_that_never_changes_is_in_every_checkpoint(stretch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rolling, "STRETCH_MIN", stretch)
        patch.setattr(rolling, "ROUND", 4)
        twin = Twin(0, ("k",), (DictCold, 4 * SLOT_BYTES))
        twin.process([(key, key, None) for key in range(11)])
        for turn in range(60):
            twin.process([(turn % 2 * 5, 1, None)])
            twin.checkpoint()
            assert len(twin.numbers) <= 13
            assert {row["key"]["k"]: row["value"]["n"] for row in twin.everything()} == {
                key: 1 + ((turn + 2) // 2 if key == 0 else (turn + 1) // 2 if key == 5 else 0) for key in range(11)
            }


def test_few_groups_are_in_memory() -> None:
    twin = Twin(0, ("k",), (DictCold, 200_000))
    for start in range(0, 20_000, 500):
        twin.process([(key, key, None) for key in range(start, start + 500)])
    assert twin.function.totals.slots < 1_000
    assert len(twin.function.totals) == 20_000
    assert twin.process([(7, 1, None)])[0]["total"] == 8


def test_rows_come_back_from_bytes() -> None:
    twin = Twin(1, ("k", "x"), None)
    bytes_ = RowBytes(twin.function._aggregation)
    twin.process([("a", 1, 0.5), (None, None, None), ("b" * 300, 2**62, float("inf"))])
    table = twin.function.totals._table()
    again = bytes_.table(bytes_.of(table))
    assert repr([column.to_pylist() for column in again]) == repr([column.to_pylist() for column in table])
    assert [column.type for column in again] == [column.type for column in table]
    assert np.all([len(column) == 3 for column in again])


def test_dates_before_the_year_1_are_spilled_and_come_back() -> None:
    schema = pa.schema([("k", pa.int64()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])
    calls = ("collect_list(d) AS days", "collect_list(t) AS times", "max(struct(d, t)) AS pair")
    days = pa.array([-719_163, -800_000, None, 7], pa.int32()).cast(pa.date32())
    times = pa.array([-62_135_596_800_000_001, 0, -(2**62), None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.record_batch([pa.array([1, 2, 2, 1], pa.int64()), days, times], schema=schema)

    def latest(spills: bool) -> list[pa.Array]:
        function = RunningAggregate(schema, ("k",), tuple(parse_aggregate(call, schema) for call in calls))
        function.bind_states()
        if spills:
            function.totals.spill_to(DictCold(), 1)
        for _ in range(2):  # The second time, all groups are loaded.
            ctx = Context("job", "fn", 0, 1, {"out": function.schema})
            function.process(rows, ctx)
            function.totals.settle()
        (batch,) = (batch for _, batch in ctx.sent)
        return batch.sort_by("k").columns

    assert latest(True) == latest(False)
