"""What is observed of elastic actors: their shards, the workers that hold tasks of them, rates and costs.

An elastic actor is a partition of a keyed function whose shards may be leased to other workers (elasticutor.txt 3). Its
home receives everything and routes rows by shard to its **tasks**: one at home, and one on each further worker that it
was allotted. Shards are given by columns, because an actor has 256 of them and a cluster many actors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class ShardsObserved:
    """The shards of one actor, in columns of equal length: number, the worker that owns it, what its rows cost in the
    last second, and the size of its state."""

    numbers: tuple[int, ...]
    owners: tuple[str, ...]
    costs_ns: tuple[int, ...]
    state_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.numbers) == len(self.owners) == len(self.costs_ns) == len(self.state_bytes):
            raise ValueError("The columns of observed shards differ in length: each shard needs a value in each.")

    @cached_property
    def cost_of_worker(self) -> dict[str, int]:
        """Returns what the shards of each worker cost in the last second, in nanoseconds."""
        found: dict[str, int] = {}
        for owner, cost_ns in zip(self.owners, self.costs_ns, strict=True):
            found[owner] = found.get(owner, 0) + cost_ns
        return found


@dataclass(frozen=True)
class ElasticObserved:
    """One elastic actor. Rates are per second. A batch is a message as a task runs it, so `service_ns` is the mean cost
    of one, and `batches_per_s * service_ns / 1e9` is the number of workers that the actor keeps busy."""

    partition: int
    home: str
    workers: tuple[str, ...]
    """The workers that may hold shards: its home and those allotted to it. One that is not listed and still owns shards
    is to be emptied."""
    workers_max: int
    shards: ShardsObserved
    rows_per_s: float = 0.0
    batches_per_s: float = 0.0
    service_ns: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    waiting: int = 0
    """The messages that wait, at home and at its tasks."""
    routing_ns: int = 0
    """What receiving and routing cost the home in the last second, without what its own shards cost."""
    remote_bytes_per_s: float = 0.0
    """Data between the home and tasks on other nodes, both ways."""
    changing: bool = False
    """Whether a decision about it is being carried out."""
