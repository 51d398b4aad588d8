"""How many bytes of state each shard of an elastic instance has, measured now and then from a sample."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.partitioning import hash_rows
from stretto.actors.shards import SHARDS, shards_within
from stretto.errors import StorageError
from stretto.state import State

if TYPE_CHECKING:
    from stretto.actors.instance import Instance

MEASURE_EVERY_NS = 5_000_000_000
"""Measuring takes a few milliseconds, which count as a part of the run that it follows."""

Sizes = npt.NDArray[np.float32]


class ShardSizes:
    """The sizes as they were last measured; None before."""

    __slots__ = ("_due_ns", "sizes")

    def __init__(self) -> None:
        self.sizes: Sizes | None = None
        self._due_ns = 0

    def measure_if_due(self, instance: Instance, now_ns: int) -> None:
        """Measures the states of an instance, if the last time is long enough ago. The first time is when it has run
        for a while: an empty state says nothing."""
        if not self._due_ns:
            self._due_ns = now_ns + MEASURE_EVERY_NS // 5
        elif now_ns >= self._due_ns:
            self._due_ns = now_ns + MEASURE_EVERY_NS
            self.sizes = measured(instance)


def measured(instance: Instance) -> Sizes:
    """Returns the bytes of state of each shard."""
    total = np.zeros(SHARDS)
    for name, state in instance.function.states().items():
        with suppress(StorageError):  # It is not kept by the stream's key; who moves its shards hears of it.
            total += sizes_of(state, instance.spec.keys_of(instance.function.input_of(name)))
    return total.astype(np.float32)


def sizes_of(state: State, keys: pa.Schema) -> npt.NDArray[np.float64]:
    """Returns the bytes of each shard of one state; `keys` are the columns by which its entries are partitioned."""
    total = np.zeros(SHARDS)
    for weighed in state.weighed(keys):
        if len(weighed.bytes):
            hashes = hash_rows([weighed.keys[name] for name in keys.names])
            total += np.bincount(shards_within(hashes), weighed.bytes, SHARDS)
    return total
