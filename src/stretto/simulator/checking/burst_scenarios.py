"""Small random dataflows for bursts: sources with fused steps, and keyed functions whose state does not combine.

As in `elastic_scenarios.py`, some answers depend on the order of the rows of a key, and shards of some functions move.
"""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.deployment import Stage
from stretto.actors.discipline import STATELESS
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.simulator.checking.elastic_scenarios import ElasticScenario, KeyedSums
from stretto.simulator.checking.scenarios import SCHEMA, Scenario, Windows, batch_of, rows_of

STEP = 10_000_000_000


def stepped(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """A fused step: the rows with other numbers, each in a batch of its own."""
    return [batch_of([(n + STEP, k, t)]) for n, k, t in rows_of(batch)]


class MergedScenario(Scenario):
    """A random (seeded) deployment in which states combine and nothing has lessees, so that all batches can go to
    transient workers, and many are there when a barrier asks for the states."""

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        return Windows() if self._random.random() < 0.5 else super()._random_function(number, inputs)

    def _add(self, name: str, function: Function, inputs: list[str], parallelism: int) -> None:
        super()._add(name, function, inputs, parallelism)
        self._specs[name].lessees_max, self._specs[name].strategy = 0, None


class TimedSums(KeyedSums):
    """Sends the sum of each key whenever event time advances, of the rows before that time."""

    def __init__(self) -> None:
        super().__init__(fixed=False)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        if watermark_us != EVENT_TIME_MAX_US:
            self.on_critical("time", watermark_us, ctx)


class BurstScenario(ElasticScenario):
    """A random (seeded) deployment in which most functions can do something else in a burst. New keys come all the
    time, since only those go to transient workers."""

    rows_max = 4
    keys_last = 5

    def __init__(self, seed: int, functions_max: int, length: int = 1) -> None:
        super().__init__(seed, functions_max, length=length)
        for name, spec in reversed(self._specs.items()):
            spec.tasks_max = self._random.choice((0, 0, spec.tasks_max))
            if not self._inputs[name]:
                root = spec.outputs["out"]
                step = Stage(f"{name}.step", SCHEMA, stepped, edges=root.edges)
                spec.outputs["out"] = Stage(name, SCHEMA, stages=[step])
            if spec.function.discipline is STATELESS:
                spec.ordered_for = self._ordered_for(name)

    def _random_function(self, number: int, inputs: list[str]) -> Function:
        # With one path from one source, the times at which event time advances are the same in every schedule.
        if len(inputs) == 1 and self._is_fixed(inputs[0]) and self._random.random() < 0.4:
            return TimedSums()
        return super()._random_function(number, inputs)

    def _ordered_for(self, name: str) -> str | None:
        """Returns the function to which the order of a function's rows matters, as in `api/lowering.py`."""
        for consumer, spec in self._specs.items():
            if name in self._inputs[consumer] and (spec.ordered_for is not None or spec.function.order_matters):
                return consumer
        return None
