"""Small random dataflows for bursts: sources with fused steps, and keyed functions whose state does not combine.

As in `elastic_scenarios.py`, some answers depend on the order of the rows of a key, and no shard moves here.
"""

from __future__ import annotations

import pyarrow as pa

from stretto.actors.deployment import Stage
from stretto.actors.discipline import STATELESS
from stretto.simulator.checking.elastic_scenarios import Chain, ElasticScenario
from stretto.simulator.checking.scenarios import SCHEMA, batch_of, rows_of

STEP = 10_000_000_000


def stepped(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """A fused step: the rows with other numbers, each in a batch of its own."""
    return [batch_of([(n + STEP, k, t)]) for n, k, t in rows_of(batch)]


class BurstScenario(ElasticScenario):
    """A random (seeded) deployment in which most functions can do something else in a burst."""

    def __init__(self, seed: int, functions_max: int, length: int = 1) -> None:
        super().__init__(seed, functions_max, length=length)
        for name, spec in reversed(self._specs.items()):
            spec.tasks_max = 0
            if not self._inputs[name]:
                root = spec.outputs["out"]
                step = Stage(f"{name}.step", SCHEMA, stepped, edges=root.edges)
                spec.outputs["out"] = Stage(name, SCHEMA, stages=[step])
            if spec.function.discipline is STATELESS:
                spec.ordered_for = self._ordered_for(name)

    def _ordered_for(self, name: str) -> str | None:
        """Returns the function to which the order of a function's rows matters, as in `api/lowering.py`."""
        for consumer, spec in self._specs.items():
            if name in self._inputs[consumer] and (spec.ordered_for is not None or isinstance(spec.function, Chain)):
                return consumer
        return None
