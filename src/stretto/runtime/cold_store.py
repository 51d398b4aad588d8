"""Cold stores on the disk of a worker, as RocksDB databases through rocksdict.

They are in a scratch directory of the worker's process and are removed when their instance is closed, at the latest
with the process. What a killed process leaves is removed with Spark's own directories, or when the next scratch
directory is made. No process reads the store of another, so there is no log and no fsync.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.errors import ClusterError, StorageError
from stretto.runtime.scratch import scratch_directory

if TYPE_CHECKING:
    from rocksdict import Options

MIB = 1 << 20
CACHE_SHARE = 8
"""RocksDB's own memory is in addition to a state's budget: the budget divided by this for the block cache, and as much
for writes."""
CACHE_BYTES_MAX = 32 * MIB

_END = b"\xff\xff"
"""No key sorts after this (`state/cold.py`)."""


class RocksCold:
    """The cold store of one state."""

    def __init__(self, directory: Path, budget_bytes: int) -> None:
        rocksdict = _rocksdict()
        self._directory = directory
        self._batch = rocksdict.WriteBatch
        try:
            self._db = rocksdict.Rdict(str(directory), _options(rocksdict, budget_bytes))
        except Exception as error:
            raise StorageError(f"no state can be spilled to {directory}", str(error)) from error
        writing = rocksdict.WriteOptions()
        writing.disable_wal = True
        self._db.set_write_options(writing)

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._db.get(key)
        return found

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = self._db.get(list(keys)) if keys else []
        return found

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        batch = self._batch(raw_mode=True)
        for key, value in changes:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._carry_out(batch)

    def scan(self, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._db.items(from_key=after) if after else self._db.items():
            if key != after:
                yield key, value

    def clear(self) -> None:
        batch = self._batch(raw_mode=True)
        batch.delete_range(b"", _END)
        self._carry_out(batch)

    def close(self) -> None:
        self._db.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _carry_out(self, batch: Any) -> None:
        try:
            self._db.write(batch)
        except Exception as error:
            # RocksDB's own message; a full disk is the common cause.
            raise StorageError(
                f"a state could not be spilled to {self._directory}",
                str(error),
                "Free disk space, or raise the budget.",
            ) from error


class ColdStores:
    """Makes the cold stores of a worker, each in a directory of its own."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._made = 0

    def made(self, budget_bytes: int) -> RocksCold:
        if self._directory is None:
            # In the scratch space of Spark's tasks, if this is one: a temporary directory may be in memory.
            spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
            self._directory = scratch_directory("spill", spark if spark and os.path.isdir(spark) else None)
        self._made += 1
        return RocksCold(self._directory / str(self._made), budget_bytes)

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def check_rocksdict() -> None:
    """Raises before anything runs if states cannot be spilled here."""
    _rocksdict()


def _rocksdict() -> Any:
    try:
        import rocksdict
    except ImportError as error:
        raise ClusterError(
            "state cannot be spilled: rocksdict is not installed", str(error), "Install rocksdict on every machine."
        ) from error
    return rocksdict


def _options(rocksdict: Any, budget_bytes: int) -> Options:
    cache_bytes = min(CACHE_BYTES_MAX, max(MIB, budget_bytes // CACHE_SHARE))
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(cache_bytes))
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_bloom_filter(10, False)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(tables)
    options.set_write_buffer_size(cache_bytes // 2)
    options.set_max_write_buffer_number(2)
    options.set_max_background_jobs(2)
    options.set_max_open_files(64)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    made: Options = options
    return made
