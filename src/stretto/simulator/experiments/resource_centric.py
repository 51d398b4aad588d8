"""The resource-centric approach of elasticutor.txt 1 and 5: keys are dealt to the partitions of a function by load.

There is a partition on each core, and the key space is as fine as that of elastic executors: 256 shards for each node.
Where partitions are out of balance, the same algorithm as theirs says which shards go where (`balancing.py`), and the
job is handed over with the new map at one joint barrier (`coordinator/handovers.py`): sources stop, what is in flight
is run, the state goes where its keys go, and all start again.

Workers report what the shards of elastic executors cost, by another byte of the hash. What those of the map cost is
counted by the experiment, as rows run.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import hash_array
from stretto.actors.shards import FINE_MAX, SHARDS, ShardMap, fine_shards
from stretto.elasticity import Controller
from stretto.elasticity.balancing import THETA, balance
from stretto.elasticity.decisions import Repartition
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.view import ElasticView

HELPS = 0.95
"""A new map must lower the greatest load to this share of it: the most frequent key may keep it above theta."""
REST = 1.05
"""The imbalance that a new map aims at."""


class ShardLoads:
    """What the rows of each shard of the map cost: in the half second that is being counted, and in the two before."""

    def __init__(self, keys: int, nodes: int) -> None:
        count = SHARDS
        while count < min(FINE_MAX, SHARDS * nodes):
            count *= 2
        self.count = count
        self._shard_of = fine_shards(hash_array(pa.array(np.arange(keys, dtype=np.int64))), count)
        self._counts = [np.zeros(count, np.int64) for _ in range(3)]

    def note(self, keys: npt.NDArray[np.int64]) -> None:
        """Rows with these keys are run."""
        self._counts[-1] += np.bincount(self._shard_of[keys], minlength=self.count)

    def next_half_second(self) -> None:
        """Half a second is over."""
        self._counts = [*self._counts[1:], np.zeros(self.count, np.int64)]

    def of_last_second(self) -> list[int]:
        """Returns the rows of each shard in the two half seconds that are complete."""
        found: list[int] = (self._counts[0] + self._counts[1]).tolist()
        return found


class KeyDealer(Controller):
    """Every half second: deals the shards of a function to its partitions again if one has more than theta times the
    average, and another map is better. It waits for a handover to end, and for a second of rows after it."""

    name = "dealing"
    looks_at = Subject.JOBS

    def __init__(self, loads: ShardLoads, function: str, theta: float = THETA) -> None:
        self._loads = loads
        self._function = function
        self._theta = theta
        self._wanted: ShardMap | None = None
        self._quiet_ns = 0

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns a decision about each running job with the function whose partitions are out of balance."""
        self._loads.next_half_second()
        found = []
        for name, job in sorted(view.observed.jobs.items()):
            function = job.functions.get(self._function)
            if name in view.jobs and function is not None and function.shape.shards is not None:
                found += self._dealt(name, function.shape.shards, function.shape.parallelism, now_ns)
        return found

    def _dealt(self, job: str, shards: ShardMap, parallelism: int, now_ns: int) -> list[DecisionRecord]:
        if self._wanted is not None:
            if self._wanted.is_same(shards):
                self._wanted, self._quiet_ns = None, now_ns + 2 * self.every_ns
            return []
        costs = self._loads.of_last_second()
        if now_ns < self._quiet_ns or not any(costs):
            return []
        owners = list(shards.finer(self._loads.count).owners)
        found = balance(costs, owners, [1.0] * parallelism, min(REST, self._theta))
        if found.before <= self._theta or found.after > HELPS * found.before:
            return []
        for shard, _, target in found.moves:
            owners[shard] = target
        self._wanted = ShardMap(shards.version + 1, bytes(owners))
        decision = Repartition(job, self._function, parallelism, shards=self._wanted)
        seen = {"imbalance": found.before}
        return [self._record(job, decision, seen, {"imbalance": found.after}, len(found.moves), now_ns)]

    def _record(
        self,
        job: str,
        decision: Repartition,
        seen: Mapping[str, float],
        predicted: Mapping[str, float],
        moves: int,
        now_ns: int,
    ) -> DecisionRecord:
        candidates = (
            Candidate("stay", seen, "it is above theta"),
            Candidate(f"deal {moves} shards to other partitions", {**predicted, "moves": float(moves)}),
        )
        because = "the most loaded partition has too many keys"
        return DecisionRecord(
            now_ns, self.name, job, self._function, None, Trigger.IMBALANCE, because, seen, candidates, decision
        )
