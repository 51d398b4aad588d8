"""Rows that are a part of the checkpoint itself until they are published, for sinks whose output cannot be withdrawn.

What is published is named by the partition that sealed it and the checkpoint. A job with such a sink never goes back to
an earlier checkpoint, so the rows of a name are always the same.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.sink import CheckpointedWriter
from stretto.state.schemas import check_rows

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
