"""Which partition owns which shard of a keyed function: one versioned map that routing, resuming and manifests share.

A function's keys fall into `SHARDS` shards by their hash (`partitioning.py`), and its partitions own shards, so a
change of parallelism moves whole shards (elasticutor.txt 3). A map is immutable; a new one has a later version.

A map may divide keys more finely, each shard into a power of two of parts by further bits of the hash: where keys are
dealt to the partitions by their load, as the resource-centric approach of the paper does.

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

FINE_MAX = 8_192
"""How many shards a map has at most."""

_WITHIN = np.uint64(8)
"""The bits of a hash that choose the partition are not used again within it."""
_FINER = np.uint64(16)
"""Where the bits begin that divide shards further: neither the first byte nor the one of the shards within."""


def shards_within(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Returns the shard of each hash within its partition."""
    return (hashes >> _WITHIN).astype(np.uint8)


def fine_shards(hashes: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint16]:
    """Returns the shard of each hash in a map of `count` shards."""
    shards: npt.NDArray[np.uint16] = hashes.astype(np.uint8).astype(np.uint16)
    if count > SHARDS:
        finer = (hashes >> _FINER) & np.uint64(count // SHARDS - 1)
        shards += finer.astype(np.uint16) * np.uint16(SHARDS)
    return shards


class ShardMap(msgspec.Struct, frozen=True):
    """The partition that owns each shard, a byte for each: `SHARDS` of them, or more where shards are finer."""

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

    @staticmethod
    def is_possible(owners: bytes, parallelism: int) -> bool:
        """Whether so many partitions can own shards like this: as many shards as there can be, and none that belongs to
        nobody. A partition may own nothing."""
        finer, rest = divmod(len(owners), SHARDS)
        is_power = finer > 0 and not rest and not finer & (finer - 1)
        return is_power and len(owners) <= FINE_MAX and max(owners) < parallelism

    def finer(self, count: int) -> ShardMap:
        """Returns a map of so many shards in which each key has the same owner."""
        return ShardMap(self.version, self.owners * (count // len(self.owners)))

    def is_same(self, other: ShardMap) -> bool:
        """Whether each key has the same owner in both."""
        count = max(len(self.owners), len(other.owners))
        return self.finer(count).owners == other.finer(count).owners

    def partitions_of(self, hashes: npt.NDArray[np.uint64]) -> Owners:
        """Returns the partition of each hash."""
        if len(self.owners) == SHARDS:
            return _table(self.owners)[hashes.astype(np.uint8)]
        return _table(self.owners)[fine_shards(hashes, len(self.owners))]

    def overlaps(self, partition: int, former: ShardMap) -> list[int]:
        """Returns the partitions of a former map that owned some of a partition's shards."""
        count = max(len(self.owners), len(former.owners))
        return list(_overlaps(self.finer(count).owners, former.finer(count).owners).get(partition, ()))


@lru_cache(maxsize=SHARDS)
def _even(parallelism: int, version: int) -> ShardMap:
    return ShardMap(version, bytes(shard * parallelism // SHARDS for shard in range(SHARDS)))


@lru_cache(maxsize=SHARDS)
def _table(owners: bytes) -> Owners:
    return np.frombuffer(owners, dtype=np.uint8)


@lru_cache(maxsize=16)
def _overlaps(owners: bytes, former: bytes) -> dict[int, list[int]]:
    """Returns the former owners of each partition's shards. At a handover every partition asks, for two fine maps."""
    pairs = np.unique(_table(owners).astype(np.uint16) * np.uint16(SHARDS) + _table(former))
    found: dict[int, list[int]] = {}
    for pair in pairs.tolist():
        found.setdefault(pair // SHARDS, []).append(pair % SHARDS)
    return found
