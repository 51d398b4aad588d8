"""A dataflow as operators with rates, and what changes when an operator gets one more instance (thesis 2.2).

The thesis knows what an operator is sent and what it processes, and takes the second for what it could process. Where
more is known (`measured_rates.py` knows how busy each instance is), `capacity` says so. Then a projection reaches
further than the children of an operator: what one of them passes on depends on what it could process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

CONGESTION_RATE = 1.2
"""An operator is congested if it is sent more than so many times what it can process."""

Placement = Mapping[str, tuple[str, ...]]
"""The worker of each instance, by operator."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Rows per second that an operator is sent, that it processes, and that it sends to each child.

    `capacity` is what it could process; None: what it does process. `weight` is what a row at a sink is worth.
    `grows` is False for one that cannot have more instances. `busy` is the share of a worker's time that all its
    instances take together; 0 if it was not measured."""

    name: str
    input_rate: float
    processing_rate: float
    emits: Mapping[str, float] = field(default_factory=dict)
    instances: int = 1
    capacity: float | None = None
    weight: float = 1.0
    grows: bool = True
    busy: float = 0.0

    @property
    def can_process(self) -> float:
        return self.processing_rate if self.capacity is None else self.capacity

    @property
    def congestion(self) -> float:
        """What it is sent by what it can process."""
        if self.can_process <= 0:
            return float("inf") if self.input_rate > 0 else 0.0
        return self.input_rate / self.can_process


@dataclass(frozen=True)
class Topology:
    """Operators in topological order. Several jobs are one topology whose parts do not touch."""

    operators: Mapping[str, Operator]
    congestion_rate: float = CONGESTION_RATE

    @staticmethod
    def of(operators: Iterable[Operator], congestion_rate: float = CONGESTION_RATE) -> Topology:
        return Topology({operator.name: operator for operator in operators}, congestion_rate)

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {name: [] for name in self.operators}
        for name, operator in self.operators.items():
            for child in operator.emits:
                found[child].append(name)
        return {name: tuple(parents) for name, parents in found.items()}

    def children(self, name: str) -> tuple[str, ...]:
        return tuple(self.operators[name].emits)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for name in self.operators if not self.parents[name])

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        return tuple(name for name, operator in self.operators.items() if not operator.emits)

    @cached_property
    def congested(self) -> frozenset[str]:
        """The operators that are sent much more than they can process (2.2.3)."""
        return frozenset(name for name, each in self.operators.items() if each.congestion > self.congestion_rate)

    @cached_property
    def throughput(self) -> float:
        """The rows per second at all sinks, by their weights."""
        return sum(self.sink_throughput(name) for name in self.sinks)

    def sink_throughput(self, name: str) -> float:
        """Returns the rows per second at a sink, by its weight."""
        return self.operators[name].processing_rate * self.operators[name].weight

    def reachable(self, name: str) -> tuple[str, ...]:
        """Returns all descendants of an operator, in topological order."""
        found = {name}
        for each in self.operators:
            if any(parent in found for parent in self.parents[each]):
                found.add(each)
        return tuple(each for each in self.operators if each in found and each != name)

    def grown(self, name: str) -> Topology:
        """Returns the projection in which an operator has one more instance (2.2.5): it can process (k + 1) / k times
        as much, and its children are sent what that adds. A source has more input with it."""
        operator = self.operators[name]
        more = (operator.instances + 1) / operator.instances
        capacity = operator.can_process * more
        input_rate = operator.input_rate * (more if name in self.sources else 1.0)
        self_grown = replace(operator, instances=operator.instances + 1, capacity=capacity, input_rate=input_rate)
        return self._flowing(self_grown)

    def _flowing(self, changed: Operator) -> Topology:
        """Returns the topology with one operator changed, and with what follows for those below it."""
        found = dict(self.operators)
        found[changed.name] = changed
        for name in (changed.name, *self.reachable(changed.name)):
            was, now = self.operators[name], found[name]
            processing = min(now.input_rate, now.can_process)
            times = processing / was.processing_rate if was.processing_rate > 0 else 1.0
            emits = {child: rate * times for child, rate in was.emits.items()}
            found[name] = replace(
                now, processing_rate=processing, capacity=now.can_process, emits=emits, busy=was.busy * times
            )
            for child, rate in emits.items():
                added = rate - was.emits[child]
                found[child] = replace(found[child], input_rate=found[child].input_rate + added)
        return replace(self, operators=found)
