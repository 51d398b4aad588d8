"""Random dataflows of functions over rows that change: running aggregates, tops and joins, in a row.

What they send depends on the schedule, because a result that is replaced soon need not be sent at all. What it adds up
to does not, so that is what is compared: each row with its total weight.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.expressions import compile_predicate, compile_scalar, parse_aggregate
from stretto.operators.changes.aggregate import ChangingAggregate
from stretto.operators.changes.join import ChangingJoin
from stretto.operators.changes.top import RunningTop
from stretto.operators.changes.weights import plain_schema
from stretto.operators.join_base import Matching
from stretto.operators.join_kinds import JoinKind
from stretto.operators.ranking import Order, Ranking, RankKind
from stretto.operators.running import RunningAggregate
from stretto.simulator.checking.scenarios import SCHEMA, Collect, Outside, Ticks

KEY = "k"
PARTITIONS_MAX = 3


class ChangingScenario:
    """A random (seeded) deployment, and the rows that are there after all its changes."""

    def __init__(self, seed: int, functions_max: int, length: int = 1) -> None:
        """`length` multiplies the number of batches of each source."""
        self._random = random.Random(seed)
        self.outside = Outside()
        self._specs: dict[str, FunctionSpec] = {}
        batches, every = length * self._random.randint(6, 18), self._random.randint(2, 5)
        for number in range(2):
            parts = self._random.randint(1, 2)
            source = FunctionSpec(f"source{number}", Ticks(seed * 10 + number, batches, every, parts), parts)
            source.outputs["out"] = Stage(source.name, SCHEMA)
            self._specs[source.name] = source
        last = self._add_first()
        for _ in range(self._random.randint(1, max(1, functions_max - 4))):
            last = self._add_next(last)
        self._specs["sink"] = FunctionSpec("sink", Collect(self.outside), 1)
        self._specs[last].outputs["out"].edges.append(Edge("sink", "in", Rebalance()))
        self.deployment = Deployment("scenario", self._specs, self._random.choice((None, 20_000_000)))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Each row that is there in the end, and how often."""
        totals: Counter[tuple[Any, ...]] = Counter()
        for *row, weight in self.outside.rows:
            totals[tuple(row)] += weight
        return [(*row, weight) for row, weight in totals.items() if weight]

    def rescaled(self, chance: random.Random) -> Deployment:
        """Returns the same dataflow with other numbers of partitions."""
        specs = {
            name: replace(spec, parallelism=chance.randint(1, PARTITIONS_MAX + 1) if name != "sink" else 1)
            for name, spec in self._specs.items()
        }
        return replace(self.deployment, functions=specs)

    def _add_first(self) -> str:
        """Adds the first function whose results change."""
        kinds: list[Callable[[], Function]] = [
            lambda: RunningAggregate(SCHEMA, (KEY,), _calls(SCHEMA, "n", 0), True),
            lambda: RunningTop(SCHEMA, (KEY,), _ranking(SCHEMA, "t")),
        ]
        if self._random.random() < 0.4:
            return self._join("source0", "source1", JoinKind.FULL)
        return self._add(self._random.choice(kinds)(), {"in": "source0"})

    def _add_next(self, last: str) -> str:
        schema = plain_schema(self._specs[last].outputs["out"].schema)
        value = schema.names[-1]
        match self._random.choice(("aggregate", "top", "join", "join", "joined")):
            case "aggregate":
                calls = _calls(schema, value, len(self._specs))
                return self._add(ChangingAggregate(schema, (KEY,), calls), {"in": last})
            case "top":
                return self._add(RunningTop(schema, (KEY,), _ranking(schema, value), True), {"in": last})
            case "join":
                return self._join(last, "source1", self._random.choice(list(JoinKind)))
            case _:
                return self._join("source1", last, self._random.choice(list(JoinKind)))

    def _join(self, left: str, right: str, how: JoinKind) -> str:
        """Adds a join on the key, with a condition or without. The key of a pair is the left one."""
        inputs = [self._specs[name].outputs["out"].schema for name in (left, right)]
        one, other = map(plain_schema, inputs)
        names = [KEY if name == KEY else f"c{place}" for place, name in enumerate(one.names)]
        names += [f"c{len(one) + place}" for place in range(len(other))]
        pair = pa.schema([field.with_name(name) for field, name in zip([*one, *other], names, strict=True)])
        residual = None
        if self._random.random() < 0.5:
            residual = compile_predicate(f"({names[0]} + {names[-1]}) % 3 < 2", pair)
        have = len(inputs[0]) > len(one), len(inputs[1]) > len(other)
        join = ChangingJoin(one, other, Matching(((KEY, KEY),), pair, residual, how), have)
        return self._add(join, {"left": left, "right": right})

    def _add(self, function: Any, inputs: dict[str, str]) -> str:
        name = f"f{len(self._specs)}"
        spec = FunctionSpec(name, function, self._random.randint(1, PARTITIONS_MAX))
        spec.outputs["out"] = Stage(name, function.schema)
        self._specs[name] = spec
        for input_name, source in inputs.items():
            stage = self._specs[source].outputs["out"]
            stage.edges.append(Edge(name, input_name, ByKey((KEY,))))
            spec.partitioned_by[input_name] = pa.schema([stage.schema.field(KEY)])
        return name


def _calls(schema: pa.Schema, column: str, number: int) -> Any:
    texts = (f"count(*) AS n{number}", f"sum({column}) AS total{number}", f"max({column}) AS most{number}")
    return tuple(parse_aggregate(text, schema) for text in texts)


def _ranking(schema: pa.Schema, column: str) -> Ranking:
    return Ranking((Order(compile_scalar(column, schema)),), 2, RankKind.ROW_NUMBER)
