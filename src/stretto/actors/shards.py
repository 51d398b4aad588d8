"""Which partition owns which shard of a keyed function: one versioned map that routing, resuming and manifests share.

A function's keys fall into `SHARDS` shards by their hash (`partitioning.py`), and its partitions own shards, so a
change of parallelism moves whole shards (elasticutor.txt 3). A map is immutable; a new one has a later version.

The keys of one partition fall into as many shards again, by another byte of the hash: these move between the workers
of an elastic executor, whatever the parallelism is (`executor.py`).
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
import numpy.typing as npt

from stretto.errors import PlanError

SHARDS = 256

Owners = npt.NDArray[np.uint8]

_WITHIN = np.uint64(8)
"""The bits of a hash that choose the partition are not used again within it."""


def shards_within(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Returns the shard of each hash within its partition."""
    return (hashes >> _WITHIN).astype(np.uint8)


class ShardMap(msgspec.Struct, frozen=True):
    """The partition that owns each shard, a byte for each."""

    version: int
    owners: bytes

    @staticmethod
    def even(parallelism: int, version: int = 1) -> ShardMap:
        """Returns a map of contiguous ranges of shards whose lengths differ by at most one."""
        if not 1 <= parallelism <= SHARDS:
            raise PlanError(
                f"a keyed function cannot have {parallelism} partitions",
                f"between 1 and {SHARDS} are possible",
                f"A partition owns at least one of {SHARDS} shards: choose a parallelism in that range.",
            )
        return _even(parallelism, version)

    @property
    def parallelism(self) -> int:
        return max(self.owners) + 1

    def partitions_of(self, hashes: npt.NDArray[np.uint64]) -> Owners:
        """Returns the partition of each hash."""
        partitions: Owners = _table(self.owners)[hashes.astype(np.uint8)]
        return partitions

    def shards_of(self, partition: int) -> list[int]:
        """Returns the shards that a partition owns."""
        return [shard for shard, owner in enumerate(self.owners) if owner == partition]

    def overlaps(self, partition: int, former: ShardMap) -> list[int]:
        """Returns the partitions of a former map that owned some of a partition's shards."""
        return sorted({former.owners[shard] for shard in self.shards_of(partition)})


@lru_cache(maxsize=SHARDS)
def _even(parallelism: int, version: int) -> ShardMap:
    return ShardMap(version, bytes(shard * parallelism // SHARDS for shard in range(SHARDS)))


@lru_cache(maxsize=SHARDS)
def _table(owners: bytes) -> Owners:
    return np.frombuffer(owners, dtype=np.uint8)
