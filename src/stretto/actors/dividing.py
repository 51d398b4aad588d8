"""Divides a function's keyed state: when its parallelism changes, and when shards of an elastic executor move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import hash_rows
from stretto.actors.shards import SHARDS, ShardMap, shards_within
from stretto.errors import StorageError


@dataclass(frozen=True)
class Place:
    """A partition and the shards that it owns."""

    partition: int
    shards: ShardMap

    def owns(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Returns which of these keys the partition owns."""
        owned: npt.NDArray[np.bool_] = self.shards.partitions_of(hashes) == self.partition
        return owned


@dataclass(frozen=True)
class PartitionKeys:
    """The keys of one partition. `former` is the place that kept the entries before, if rows were partitioned by the
    same columns then. A key that does not belong to `former` shows that the state is kept by something else."""

    keys: pa.Schema
    now: Place
    former: Place | None = None

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        hashes = hash_rows([columns[name] for name in self.keys.names])
        if self.former is not None and not self.former.owns(hashes).all():
            raise StorageError(f"it is not kept by {', '.join(self.keys.names)}, by which rows are partitioned")
        return self.now.owns(hashes)


class ShardKeys:
    """The keys of some shards within a partition."""

    def __init__(self, keys: pa.Schema, shards: Iterable[int]) -> None:
        self.keys = keys
        self._wanted = np.zeros(SHARDS, np.bool_)
        self._wanted[list(shards)] = True

    def mine(self, columns: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        hashes = hash_rows([columns[name] for name in self.keys.names])
        mine: npt.NDArray[np.bool_] = self._wanted[shards_within(hashes)]
        return mine
