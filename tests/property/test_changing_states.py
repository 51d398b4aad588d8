"""Functions over rows that change, against plain Python: also with snapshots, failures and other partitions in between.

The content of each input is a bag of rows, of which some are added and some removed at each step. After each step, the
sum of all that a function has sent is the answer over the content. Then some instances may be restored from their last
snapshot, and what came since comes again, or the states may be divided among other partitions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.dividing import PartitionKeys, Place
from stretto.actors.function import Function
from stretto.actors.partitioning import HashPartitioner
from stretto.actors.shards import ShardMap
from stretto.expressions import compile_predicate, compile_scalar, parse_aggregate
from stretto.operators.changes import multiset
from stretto.operators.changes.aggregate import ChangingAggregate
from stretto.operators.changes.join import ChangingJoin
from stretto.operators.changes.last import LastRows
from stretto.operators.changes.top import RunningTop
from stretto.operators.changes.weights import CHANGE, weighted_schema
from stretto.operators.join_base import Matching
from stretto.operators.join_kinds import JoinKind
from stretto.operators.ranking import Order, Ranking, RankKind
from stretto.state import Fragment

Row = tuple[Any, ...]
Bags = dict[str, Counter[Row]]
LEFT = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.int64())])
RIGHT = pa.schema([("rs", pa.string()), ("rk", pa.int32()), ("y", pa.int64())])
PAIR = pa.schema([*LEFT, *RIGHT])
ON = (("k", "rk"), ("s", "rs"))
KEYS = {"in": ("k",), "left": ("k", "s"), "right": ("rk", "rs")}
STEPS = 25


@dataclass(frozen=True)
class Case:
    """A function, its inputs, and the answer over their content. With `adds`, its rows have no weights."""

    make: Callable[[], Function]
    inputs: dict[str, pa.Schema]
    answer: Callable[[Bags], Counter[Row]]
    adds: bool = False


def matches(one: Row, other: Row, residual: bool) -> bool:
    if None in (one[0], one[1], other[0], other[1]) or (one[0], one[1]) != (other[1], other[0]):
        return False
    return not residual or (None not in (one[2], other[2]) and one[2] < other[2])


def joined(how: JoinKind, residual: bool) -> Callable[[Bags], Counter[Row]]:
    def answer(bags: Bags) -> Counter[Row]:
        left, right = (list(bags[side].elements()) for side in ("left", "right"))
        pairs = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if matches(one, other, residual)]
        lefts, rights = {i for i, _ in pairs}, {j for _, j in pairs}
        if not how.sends_pairs:
            return Counter(row for i, row in enumerate(left) if (i in lefts) == (how is JoinKind.SEMI))
        found = Counter(left[i] + right[j] for i, j in pairs)
        if how.tracks_left:
            found.update(row + (None,) * 3 for i, row in enumerate(left) if i not in lefts)
        if how.tracks_right:
            found.update((None,) * 3 + row for j, row in enumerate(right) if j not in rights)
        return found

    return answer


def join(how: JoinKind, residual: bool) -> Case:
    predicate = compile_predicate("x < y", PAIR) if residual else None
    matching = Matching(ON, PAIR, predicate, how)
    return Case(lambda: ChangingJoin(LEFT, RIGHT, matching), {"left": LEFT, "right": RIGHT}, joined(how, residual))


def groups(rows: Iterable[Row]) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def aggregated(bags: Bags) -> Counter[Row]:
    found = []
    for k, rows in groups(bags["in"].elements()).items():
        values = [x for _, _, x in rows if x is not None]
        found.append((k, len(rows), max(values, default=None), len(set(values))))
    return Counter(found)


def best(bags: Bags) -> Counter[Row]:
    """Returns the three rows of each k with the greatest x, numbered; ties by all columns, null is least."""
    found = []
    for rows in groups(bags["in"].elements()).values():
        ordered = sorted(rows, key=lambda row: (known(row[2]), known(row[0]), known(row[1])), reverse=True)
        found += [(*row, place) for place, row in enumerate(ordered[:3], 1)]
    return Counter(found)


def known(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


CALLS = tuple(parse_aggregate(t, LEFT) for t in ("count(*) AS n", "max(x) AS most", "count(DISTINCT x) AS different"))
NUMBERED = Ranking((Order(compile_scalar("x", LEFT)),), 3, RankKind.ROW_NUMBER, "place")
CASES: dict[str, Case] = {
    **{f"{how.value} join": join(how, residual=False) for how in JoinKind},
    **{f"{how.value} join with a condition": join(how, residual=True) for how in JoinKind},
    "aggregate": Case(lambda: ChangingAggregate(LEFT, ("k",), CALLS), {"in": LEFT}, aggregated),
    "top": Case(lambda: RunningTop(LEFT, ("k",), NUMBERED, changing=True), {"in": LEFT}, best),
    "top of rows": Case(lambda: RunningTop(LEFT, ("k",), NUMBERED), {"in": LEFT}, best, adds=True),
}


class Partitions:
    """A function's instances, with rows partitioned by key, and the sum of what they have sent."""

    def __init__(self, case: Case, parallelism: int) -> None:
        self._case = case
        self.parallelism = parallelism
        self.functions = [case.make() for _ in range(parallelism)]
        outputs = {"out": self.functions[0].schema}  # type: ignore[attr-defined]
        self.contexts = [Context("job", "f", p, parallelism, outputs) for p in range(parallelism)]
        for function in self.functions:
            function.bind_states()
        self.sent: Counter[Row] = Counter()

    def process(self, name: str, batch: pa.RecordBatch) -> None:
        for partition, rows in HashPartitioner(KEYS[name], ShardMap.even(self.parallelism)).split(batch):
            ctx = self.contexts[partition]
            ctx.input = name
            self.functions[partition].process(rows, ctx)
            sent, ctx.sent = ctx.sent, []
            for _, out in sent:
                assert out.schema.names[-1] == CHANGE
                for *row, weight in zip(*(column.to_pylist() for column in out.columns), strict=True):
                    self.sent[tuple(row)] += weight

    def content(self) -> Counter[Row]:
        assert all(count >= 0 for count in self.sent.values())
        return +self.sent

    def snapshot(self) -> list[dict[str, list[Fragment]]]:
        return [{name: state.fragments() for name, state in f.states().items()} for f in self.functions]

    def restored(self, snapshot: list[dict[str, list[Fragment]]], parallelism: int) -> Partitions:
        """Returns other instances with the content of a snapshot of these."""
        others = Partitions(self._case, parallelism)
        others.sent = self.sent.copy()
        for now, function in enumerate(others.functions):
            for name, state in function.states().items():
                if parallelism == self.parallelism:
                    state.rebuild(snapshot[now][name])
                    continue
                for former, states in enumerate(snapshot):
                    part = state.fresh()
                    part.rebuild(states[name])
                    part.keep(self._keys_of(function, name, now, former, parallelism))
                    state.take_in(part)
        return others

    def _keys_of(self, function: Function, state: str, now: int, former: int, parallelism: int) -> PartitionKeys:
        side = function.input_of(state) or "in"
        schema = self._case.inputs[side]
        places = Place(now, ShardMap.even(parallelism)), Place(former, ShardMap.even(self.parallelism))
        return PartitionKeys(pa.schema([schema.field(key) for key in KEYS[side]]), *places)


class Store:
    """Keeps the first content of each fragment of an instance, as a checkpoint does."""

    def __init__(self) -> None:
        self._contents: dict[tuple[int, str, int], Any] = {}

    def written(self, snapshot: list[dict[str, list[Fragment]]]) -> list[dict[str, list[Fragment]]]:
        return [
            {name: [self._kept(place, name, each) for each in fragments] for name, fragments in states.items()}
            for place, states in enumerate(snapshot)
        ]

    def _kept(self, place: int, name: str, fragment: Fragment) -> Fragment:
        return Fragment(fragment.number, self._contents.setdefault((place, name, fragment.number), fragment.content))


def some_row(chance: random.Random, schema: pa.Schema) -> Row:
    values = {"k": range(3), "rk": range(3), "s": "ab", "rs": "ab", "x": range(5), "y": range(5)}
    return tuple(chance.choice([None, *values[name]]) for name in schema.names)


def changes_of(case: Case, name: str, bag: Counter[Row], chance: random.Random) -> list[tuple[Row, int]]:
    """Returns rows to add and rows of the bag to remove; one row may be in both, or twice."""
    rows = [(some_row(chance, case.inputs[name]), 1) for _ in range(chance.randint(0, 9))]
    if not case.adds:
        there = list(bag.elements())
        rows += [(row, -1) for row in chance.sample(there, chance.randint(0, min(4, len(there))))]
    chance.shuffle(rows)
    return rows


def batch_of(case: Case, name: str, rows: list[tuple[Row, int]]) -> pa.RecordBatch:
    schema = case.inputs[name]
    given = [row for row, _ in rows] if case.adds else [(*row, weight) for row, weight in rows]
    schema = schema if case.adds else weighted_schema(schema)
    columns = [pa.array([row[place] for row in given], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are merged as if they were large."""
    monkeypatch.setattr(multiset, "SMALL_ROWS", 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CASES)
def test_what_was_sent_adds_up_to_the_answer_at_every_step(name: str, seed: int) -> None:
    chance, case = random.Random(seed), CASES[name]
    bags: Bags = {side: Counter() for side in case.inputs}
    tested = Partitions(case, chance.randint(1, 4))
    store, snapshot, since = Store(), None, list[tuple[str, pa.RecordBatch]]()
    sent_before: Counter[Row] = Counter()
    checked = 0
    for _ in range(STEPS):
        side = chance.choice(list(bags))
        rows = changes_of(case, side, bags[side], chance)
        for row, weight in rows:
            bags[side][row] += weight
        batch = batch_of(case, side, rows)
        tested.process(side, batch)
        since.append((side, batch))
        assert tested.content() == case.answer(bags)
        checked += len(tested.content())
        fate = chance.random()
        if fate < 0.3:
            snapshot, since, sent_before = store.written(tested.snapshot()), [], tested.sent.copy()
        elif fate < 0.5 and snapshot is not None:
            tested.sent = sent_before.copy()
            tested = tested.restored(snapshot, tested.parallelism)
            for each in since:
                tested.process(*each)
            assert tested.content() == case.answer(bags)
        elif fate < 0.7:
            tested = tested.restored(tested.snapshot(), chance.randint(1, 4))
            store, snapshot = Store(), None
    assert checked


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.adds])
def test_a_removal_may_come_before_the_row_that_it_removes(name: str, seed: int) -> None:
    chance, case = random.Random(seed), CASES[name]
    bags: Bags = {side: Counter() for side in case.inputs}
    batches = []
    for _ in range(STEPS):
        side = chance.choice(list(bags))
        rows = changes_of(case, side, bags[side], chance)
        for row, weight in rows:
            bags[side][row] += weight
        batches.append((side, batch_of(case, side, rows)))
    tested = Partitions(case, 2)
    chance.shuffle(batches)
    for each in batches:
        tested.process(*each)
    assert tested.content() == case.answer(bags)


@pytest.mark.parametrize("seed", range(4))
def test_the_last_rows_are_those_of_a_dictionary(seed: int) -> None:
    """A function with an upsert key depends on the order of rows within a partition."""
    chance = random.Random(seed)
    case = Case(lambda: LastRows(LEFT, ("k",)), {"in": LEFT}, lambda bags: Counter(), adds=True)
    tested, last = Partitions(case, 3), dict[Any, Row]()
    for _ in range(STEPS):
        rows = [(some_row(chance, LEFT), 1) for _ in range(chance.randint(0, 8))]
        last.update({row[0]: row for row, _ in rows})
        tested.process("in", batch_of(case, "in", rows))
        assert tested.content() == Counter(last.values())
        if chance.random() < 0.3:
            tested = tested.restored(tested.snapshot(), chance.randint(1, 4))


def test_unchanged_rows_are_written_once() -> None:
    case, rows = CASES["aggregate"], 20_000
    tested = Partitions(case, 1)
    columns = [np.arange(rows) % 100, np.arange(rows).astype(str), np.arange(rows), np.ones(rows, np.int64)]
    tested.process("in", pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=weighted_schema(LEFT)))
    (before,) = tested.snapshot()[0]["rows"]
    tested.process("in", batch_of(case, "in", [((1, "a", 2), 1), ((2, "2", 2), -1)]))
    again, new = tested.snapshot()[0]["rows"]
    assert again.number == before.number
    assert isinstance(new.content, pa.Table)
    assert new.content.num_rows == 2
