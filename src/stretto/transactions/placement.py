"""Which worker has which entity: by the hash of its name into partitions, and a table of partitions."""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from stretto.protocol.transactions import EntityName

PARTITIONS = 256


@lru_cache(maxsize=1 << 16)
def partition_of(entity: EntityName) -> int:
    """Returns the partition of an entity, the same in every process."""
    return crc32(f"{entity.kind}/{entity.key}".encode()) % PARTITIONS


def place_names(count: int) -> list[str]:
    """Returns the names of so many places, which are their numbers: machines know each other by them, and who hosts a
    place is known around the machines."""
    return [str(number) for number in range(1, count + 1)]


class Placement:
    """The worker of each partition, by its number from 1."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._table = [1 + partition % workers for partition in range(PARTITIONS)]

    def worker_of(self, entity: EntityName) -> int:
        return self._table[partition_of(entity)]

    def worker_of_key(self, key: str) -> int:
        """Returns the worker of an idempotency key."""
        return self._table[crc32(key.encode()) % PARTITIONS]
