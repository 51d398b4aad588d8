"""Dividing states among other partitions in the middle of a stream changes no row of the answer.

The reference is one instance that gets every row and is never divided.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.dividing import PartitionKeys, Place
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.actors.partitioning import HashPartitioner
from stretto.actors.shards import ShardMap
from stretto.expressions import compile_scalar, parse_aggregate
from stretto.operators.join_kinds import JoinKind
from stretto.operators.join_nearest import Direction, Nearness
from stretto.operators.joins import AsofJoin, IntervalJoin, Matching, UnboundedJoin, WindowJoin
from stretto.operators.ranking import ranking
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.top import WindowTop
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import EventTime, Hopping, Tumbling

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
RIGHT = pa.schema([(f"r_{field.name}", field.type) for field in SCHEMA])
PAIRS = pa.schema([*SCHEMA, *RIGHT])
WINDOWED = pa.schema([*PAIRS, ("window_start", SCHEMA.types[3]), ("window_end", SCHEMA.types[3])])
TIME, RIGHT_TIME = EventTime("t"), EventTime("r_t")
KEYS = ("k", "s")
ON = (("k", "r_k"), ("s", "r_s"))
TEXTS = (
    "count(*) AS n",
    "sum(x) AS total",
    "max(x) AS most",
    "listagg(x, ',') WITHIN GROUP (ORDER BY x) AS values",
    "mode(x) AS common",
    "bit_xor(x) AS bits",
)
CALLS = tuple(parse_aggregate(text, SCHEMA, time="t") for text in (*TEXTS, "first(x) AS opening"))
DISTINCT = tuple(parse_aggregate(text, SCHEMA) for text in ("count(DISTINCT x) AS n", "sum(DISTINCT x) AS total"))
LARGEST = UserAggregate(
    list,
    lambda acc, rows: sorted([*acc, *rows.column("x").to_pylist()])[-3:],
    lambda one, other: sorted([*one, *other])[-3:],
    sum,
    pa.int64(),
    ("x",),
    "largest",
)

FUNCTIONS: dict[str, Callable[[], Function]] = {
    "tumbling": lambda: WindowAggregate(SCHEMA, KEYS, TIME, Tumbling(50), CALLS),
    "hopping": lambda: WindowAggregate(SCHEMA, KEYS, TIME, Hopping(60, 20), CALLS),
    "late": lambda: WindowAggregate(SCHEMA, KEYS, TIME, Hopping(60, 20), CALLS, lateness_us=100),
    "objects": lambda: WindowAggregate(SCHEMA, KEYS, TIME, Tumbling(50), (LARGEST,)),
    "sessions": lambda: SessionAggregate(SCHEMA, KEYS, TIME, 30, CALLS),
    "late sessions": lambda: SessionAggregate(SCHEMA, KEYS, TIME, 30, CALLS, lateness_us=100),
    "top": lambda: WindowTop(SCHEMA, KEYS, TIME, Tumbling(50), ranking(compile_scalar("x", SCHEMA), 2)),
    "running": lambda: RunningAggregate(SCHEMA, KEYS, CALLS),
    "running distinct": lambda: RunningAggregate(SCHEMA, KEYS, DISTINCT),
    "running objects": lambda: RunningAggregate(SCHEMA, KEYS, (LARGEST,)),
    "join": lambda: UnboundedJoin(SCHEMA, RIGHT, Matching(ON, PAIRS)),
    **{
        f"{how.value} interval join": lambda how=how: IntervalJoin(
            SCHEMA,
            RIGHT,
            Matching(ON, PAIRS, how=how),
            TIME,
            RIGHT_TIME,
            compile_scalar("t", SCHEMA),
            compile_scalar("t + INTERVAL 1 MILLISECOND", SCHEMA),
            lower_offset_us=0,
        )
        for how in JoinKind
    },
    **{
        f"{how.value} window join": lambda how=how: WindowJoin(
            SCHEMA, RIGHT, Matching(ON, WINDOWED, how=how), Hopping(60, 20), TIME, RIGHT_TIME
        )
        for how in JoinKind
    },
    **{
        f"{how.value} asof join{' that keeps all' if keeps else ''}": lambda how=how, keeps=keeps: AsofJoin(
            SCHEMA, RIGHT, Matching(ON, PAIRS, how=how), TIME, RIGHT_TIME, Nearness(), last_replaces=not keeps
        )
        for how in (JoinKind.INNER, JoinKind.LEFT)
        for keeps in (False, True)
    },
    "asof join forward": lambda: AsofJoin(
        SCHEMA, RIGHT, Matching(ON, PAIRS), TIME, RIGHT_TIME, Nearness(Direction.FORWARD, 50, exact=False)
    ),
    "asof join of the nearest": lambda: AsofJoin(
        SCHEMA, RIGHT, Matching(ON, PAIRS, how=JoinKind.LEFT), TIME, RIGHT_TIME, Nearness(Direction.NEAREST, 50)
    ),
    "semi join": lambda: UnboundedJoin(SCHEMA, RIGHT, Matching(ON, PAIRS, how=JoinKind.SEMI)),
}


def at(partition: int, parallelism: int) -> Place:
    return Place(partition, ShardMap.even(parallelism))


class Partitions:
    """A function's partitions, with rows partitioned by key."""

    def __init__(self, make: Callable[[], Function], parallelism: int) -> None:
        self._make = make
        self.partitioned_by = {"in": KEYS, "left": KEYS, "right": ("r_k", "r_s")}
        self.parallelism = parallelism
        self.functions = [make() for _ in range(parallelism)]
        outputs = {"out": self.functions[0].schema}  # type: ignore[attr-defined]
        self.contexts = [Context("job", "f", p, parallelism, outputs) for p in range(parallelism)]
        for function in self.functions:
            function.bind_states()

    def process(self, batch: pa.RecordBatch, name: str) -> None:
        for partition, rows in HashPartitioner(self.partitioned_by[name], ShardMap.even(self.parallelism)).split(batch):
            self.contexts[partition].input = name
            self.functions[partition].process(rows, self.contexts[partition])

    def watermark(self, time_us: int) -> None:
        for function, ctx in zip(self.functions, self.contexts, strict=True):
            ctx.watermark_us = time_us
            function.on_watermark(time_us, ctx)

    def rows(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for ctx in self.contexts:
            sent, ctx.sent = ctx.sent, []
            for _, batch in sent:
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found

    def divided(self, parallelism: int) -> Partitions:
        """Returns other partitions, restored from the fragments of these as from a checkpoint."""
        others = Partitions(self._make, parallelism)
        fragments = [{name: state.fragments() for name, state in f.states().items()} for f in self.functions]
        for now, function in enumerate(others.functions):
            others.contexts[now].watermark_us = self.contexts[0].watermark_us
            for former, states in enumerate(fragments):
                for name, state in function.states().items():
                    part = state.fresh()
                    part.rebuild(states[name])
                    part.keep(
                        self._keys_of(
                            function,
                            name,
                            Place(now, ShardMap.even(parallelism)),
                            Place(former, ShardMap.even(self.parallelism)),
                        )
                    )
                    state.take_in(part)
        return others

    def _keys_of(self, function: Function, state: str, now: Place, former: Place) -> PartitionKeys:
        side = function.input_of(state) or "in"
        schema = RIGHT if side == "right" else SCHEMA
        return PartitionKeys(pa.schema([schema.field(name) for name in self.partitioned_by[side]]), now, former)


def drawn(chance: random.Random, step: int, schema: pa.Schema) -> pa.RecordBatch:
    rows = [
        (
            chance.choice((None, *range(12))),
            chance.choice("abc"),
            chance.randrange(20),
            max(0, step * 10 + chance.randint(-40, 9)),
        )
        for _ in range(chance.randint(1, 30))
    ]
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def inputs_of(name: str) -> dict[str, pa.Schema]:
    """Returns the inputs of a function with their schemas."""
    return {"left": SCHEMA, "right": RIGHT} if "join" in name else {"in": SCHEMA}


P = TypeVar("P", bound=Partitions)
Rows = Counter[tuple[Any, ...]]


def fed_both(name: str, chance: random.Random, tested: P, then: Callable[[P], P]) -> tuple[Rows, Rows]:
    """Feeds a stream to one instance, the reference, and to what is tested; `then` is called after each step, and
    returns what is tested from there on. Returns the rows that both have sent."""
    inputs, right = inputs_of(name), Partitions(FUNCTIONS[name], 1)
    expected, found = Rows(), Rows()
    for step in range(40):
        side = chance.choice(list(inputs))
        batch = drawn(chance, step, inputs[side])
        for each in (right, tested):
            each.process(batch, side)
            if step % 4 == 3:
                each.watermark(step * 10 - 20)
        expected.update(right.rows())
        found.update(tested.rows())
        tested = then(tested)
    for each in (right, tested):
        each.watermark(EVENT_TIME_MAX_US)
    expected.update(right.rows())
    found.update(tested.rows())
    return expected, found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dividing_changes_no_row(name: str, seed: int) -> None:
    chance = random.Random(seed)

    def now_and_then(tested: Partitions) -> Partitions:
        return tested.divided(chance.randint(1, 5)) if chance.random() < 0.2 else tested

    expected, found = fed_both(name, chance, Partitions(FUNCTIONS[name], chance.randint(1, 5)), now_and_then)
    assert expected
    assert found == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_divided_state_is_the_same_when_its_parts_are_together_again(name: str) -> None:
    chance = random.Random(1)
    one = Partitions(FUNCTIONS[name], 1)
    for step in range(20):
        for side, schema in inputs_of(name).items():
            one.process(drawn(chance, step, schema), side)
    again = one.divided(5).divided(1)
    for state, before in one.functions[0].states().items():
        assert _sorted(again.functions[0].states()[state].export()) == _sorted(before.export())


def _sorted(exported: Any) -> Any:
    """Returns what a state exports, with its rows sorted."""
    if isinstance(exported, pa.Table):
        return sorted(map(str, exported.to_pylist()))
    if isinstance(exported, dict) and "table" in exported:
        rows = exported["table"].to_pylist()
        for name, values in exported["objects"].items():
            rows = [{**row, name: value} for row, value in zip(rows, values, strict=True)]
        return sorted(str({name: _set(value) for name, value in row.items()}) for row in rows)
    if isinstance(exported, dict):
        return {name: _sorted(value) for name, value in exported.items()}
    return exported


def _set(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) else value
