"""Keys that are dealt to partitions by load: what is counted, and when another map is decided on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import Hashes, hash_columns
from stretto.actors.shape import FunctionShape
from stretto.actors.shards import ShardMap, fine_shards
from stretto.elasticity.decisions import Repartition
from stretto.elasticity.view import ElasticView
from stretto.observation.model import FunctionObserved, JobObserved, Observation
from stretto.simulator.experiments.resource_centric import KeyDealer, ShardLoads

HALF_NS = 500_000_000


def hashes_of(keys: npt.NDArray[np.int64]) -> Hashes:
    return hash_columns(pa.RecordBatch.from_pydict({"key": pa.array(keys)}), ("key",))


def test_rows_are_counted_in_the_shard_that_the_map_has_them_in() -> None:
    loads = ShardLoads(keys=50, nodes=2)
    loads.note(np.array([7, 7, 9]))
    assert sum(loads.of_last_second()) == 0  # The half second is not over.
    loads.next_half_second()
    seven, nine = fine_shards(hashes_of(np.array([7, 9])), loads.count).tolist()
    found = loads.of_last_second()
    assert (found[seven], found[nine], sum(found)) == (2, 1, 3)


class Dealing:
    """A function with two partitions, of which the first has most of the rows."""

    def __init__(self) -> None:
        self.loads = ShardLoads(keys=64, nodes=2)
        self.even = ShardMap.even(2)
        keys = np.arange(64)
        firsts = keys[self.even.partitions_of(hashes_of(keys)) == 0]
        self.rows = np.concatenate([keys, np.repeat(firsts, 3)])
        self._dealer = KeyDealer(self.loads, "f")

    def decided(self, shards: ShardMap, half_second: int) -> list[Repartition]:
        self.loads.note(self.rows)
        shape = FunctionShape("f", 2, shards=shards)
        job = JobObserved("j", "running", "j~1", (), {}, {"f": FunctionObserved(shape, ())})
        view = ElasticView.of(Observation(jobs={"j": job}))
        records = self._dealer.decide(view, half_second * HALF_NS)
        return [record.decision for record in records if isinstance(record.decision, Repartition)]

    def loads_with(self, shards: ShardMap) -> list[int]:
        found = [0, 0]
        for shard, count in enumerate(self.loads.of_last_second()):
            found[shards.owners[shard]] += count
        return found


def test_shards_go_from_the_loaded_partition_to_the_other() -> None:
    dealing = Dealing()
    (decision,) = dealing.decided(dealing.even, 1)
    assert (decision.job, decision.function, decision.parallelism) == ("j", "f", 2)
    assert decision.shards is not None
    before, after = (dealing.loads_with(each) for each in (dealing.even.finer(dealing.loads.count), decision.shards))
    assert max(before) > 1.5 * sum(before) / 2
    assert max(after) < 1.1 * sum(after) / 2


def test_it_waits_for_the_handover_and_for_rows_after_it() -> None:
    dealing = Dealing()
    (decision,) = dealing.decided(dealing.even, 1)
    assert decision.shards is not None
    assert dealing.decided(dealing.even, 2) == []  # The handover is under way.
    dealing.rows = np.arange(64)  # Now the load is even without it.
    assert dealing.decided(decision.shards, 3) == []  # It is done, but what was counted is of before.
    assert dealing.decided(decision.shards, 4) == []
    assert len(dealing.decided(decision.shards, 5)) == 1
