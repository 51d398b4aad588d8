"""The micro-benchmark (elasticutor.txt 5.1, figure 5): a generator feeds a calculator; with its model.

With one calculator it is the hot partition of 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from stretto.actors.shards import SHARDS
from stretto.actors.sink import Sink
from stretto.api.app import App
from stretto.api.memory import CollectSink
from stretto.api.slo import SLO
from stretto.bench.elastic.calculator import RESULTS, Calculator, link
from stretto.bench.elastic.checks import Answer, check_all
from stretto.bench.elastic.costs import FREE, Cost
from stretto.bench.elastic.numbered import NumberedSource
from stretto.bench.elastic.padding import ballast
from stretto.bench.elastic.tuples import Tuples
from stretto.bench.gates import Gate
from stretto.bench.verify import Verdict


@dataclass(frozen=True)
class Microbenchmark:
    """What runs: the tuples, what the calculator costs and keeps, and how many of each there are.

    `shard_bytes` is the state of a shard, of all its keys; `state_bytes` that of a key, instead. `batch` limits the
    rows that a generator sends at once."""

    tuples: Tuples = field(default_factory=Tuples)
    cost: Cost = FREE
    shard_bytes: int = 0
    state_bytes: int = 0
    generators: int = 1
    calculators: int = 1
    paced: bool = False
    batch: int = 1000
    slo: SLO | None = None
    gate: Gate | None = None

    @property
    def key_bytes(self) -> int:
        """The state of each key."""
        return self.state_bytes or round(self.shard_bytes * SHARDS / self.tuples.key_count)

    def app(self, sink: Callable[[], Sink] = CollectSink, name: str = "elastic-micro") -> App:
        """Returns the app: `generator`, `calculator`, and the sink `results`."""
        # A read looks at the events of all generators, and sends those of its own keys.
        app = App(name, slo=self.slo, engine="actors", batch_rows=self.batch * self.generators)
        source = NumberedSource(self.tuples, self.paced)
        gated = source if self.gate is None else self.gate.before(source)
        tuples = app.source("generator", gated, parallelism=self.generators)
        calculator = Calculator(self.cost, self.key_bytes)
        results = tuples.key_by("key").apply(calculator, RESULTS, name="calculator", parallelism=self.calculators)
        results.sink(sink(), name="results")
        return app

    def expected(self) -> dict[str, Answer]:
        """Returns the right answer, by a loop over all tuples in the order of their numbers."""
        return {"results": Answer(results_of(self.tuples.table(), self.key_bytes), key="key")}

    def check(self, results: Mapping[str, pa.Table]) -> dict[str, Verdict]:
        """Returns the verdict on the rows of each sink, which must be in the order of their arrival."""
        return check_all(results, self.expected())


def results_of(tuples: pa.Table, state_bytes: int) -> pa.Table:
    """Returns the results of these tuples in this order."""
    rows_by_key: dict[int, list[int]] = {}
    chains: dict[int, int] = {}
    states: dict[int, bytes] = {}
    found = []
    for row in tuples.to_pylist():
        key, number = row["key"], row["number"]
        earlier = rows_by_key.setdefault(key, [])
        if key not in states:
            states[key] = ballast(key, state_bytes) if state_bytes else bytes(1)
        state = states[key]
        chains[key] = link(chains.get(key, 0), number, row["payload"], state[len(earlier) % len(state)])
        earlier.append(number)
        found.append({**row, "count": len(earlier), "chain": chains[key]})
    return pa.Table.from_pylist(found, RESULTS)
