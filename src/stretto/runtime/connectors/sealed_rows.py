"""Rows that are a part of the checkpoint itself until they are published, for sinks whose output cannot be withdrawn.

What is published is named by the partition that sealed it and the checkpoint. A job with such a sink never goes back to
an earlier checkpoint, so the rows of a name are always the same.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.sink import BackgroundWriter, CheckpointedWriter
from stretto.errors import StorageError
from stretto.state.schemas import check_rows

PATIENCE_S = 300.0
"""How long a system outside may not take the rows of a checkpoint before the job fails; it can be resumed."""

SealedPart = tuple[int, pa.Table]
"""The partition that sealed the rows, and the rows."""


class SealedRows(CheckpointedWriter):
    """Holds the rows of one partition until a checkpoint has them."""

    def __init__(self, schema: pa.Schema, partition: int) -> None:
        self.schema = schema
        self.partition = partition
        self._held: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)

    def seal(self, checkpoint: int) -> SealedPart | None:
        held, self._held = self._held, []
        return (self.partition, pa.Table.from_batches(held, self.schema)) if held else None

    def check_part(self, part: Any) -> None:
        partition, rows = msgspec.convert(part, type=tuple[int, Any])
        if partition < 0:
            raise ValueError(f"there is no partition {partition}")
        check_rows(rows, self.schema)

    def withdraw(self, checkpoint: int) -> None:
        """Nothing is visible that the checkpoint does not have."""

    def discard_leftovers(self) -> None:
        """There are none: nothing is written before it is to be visible."""


class PublishedOutside(SealedRows, BackgroundWriter):
    """Publishes to a system outside, in a thread, one part after the other. `trouble` is what is wrong with that system
    at the moment, and `closed` is set when nobody needs the rows from here any more."""

    def __init__(self, schema: pa.Schema, partition: int, outside: str) -> None:
        super().__init__(schema, partition)
        self.trouble = "no answer"
        self.closed = threading.Event()
        self._outside = outside
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stretto-publishing")
        self._underway: Future[None] | None = None
        self._since = 0.0

    @abstractmethod
    def publish_outside(self, partition: int, checkpoint: int, rows: pa.Table) -> None:
        """Returns when the rows that a partition has sealed for a checkpoint are visible, each once; called in the
        thread. It tries again for as long as that can help, and until it is closed."""

    def publishes(self, checkpoint: int, part: SealedPart) -> bool:
        if self._underway is None:
            partition, rows = part
            self._since = time.monotonic()
            self._underway = self._pool.submit(self.publish_outside, partition, checkpoint, rows)
            return False
        if self._underway.done():
            self._underway.result()
            self._underway = None
            return True
        if time.monotonic() - self._since > PATIENCE_S:
            raise StorageError(
                f"{self._outside} has not taken the rows of checkpoint {checkpoint} for {PATIENCE_S:.0f} s",
                self.trouble,
                "When it does again, submit the app with the same checkpoint directory: no row is lost.",
            )
        return False

    def close(self) -> None:
        self.closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
