"""The files of published tables in memory: written, sealed, published and withdrawn as those on a disk are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.sink import CheckpointedWriter
from stretto.operators.publishing import SEGMENT

_CHECKPOINT = re.compile(r"part-(\d+)-(\d+)-e(\d+)-")


@dataclass
class SimulatedTable:
    """The directory of a table."""

    directory: str = "tables/simulated"
    visible: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    hidden: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def check(self, schema: pa.Schema) -> None:
        """Any table can be kept."""

    def check_fresh(self) -> None:
        """Nothing is in the way."""

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> SimulatedWriter:
        return SimulatedWriter(self, partition, attempt.number)

    def published(self, partition: int, partitions: int) -> list[tuple[str, int]]:
        return [
            (path, sum(batch.nbytes for batch in rows))
            for path, rows in sorted(self.visible.items())
            if _parts(path)[0] % partitions == partition
        ]

    def remove(self, files: Sequence[str]) -> None:
        for file in files:
            self.visible.pop(file, None)


@dataclass
class SimulatedWriter(CheckpointedWriter):
    """Writes the files of one partition in one attempt."""

    table: SimulatedTable
    partition: int
    attempt: int
    _held: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def write(self, batch: pa.RecordBatch) -> None:
        place = batch.schema.get_field_index(SEGMENT)
        plain = batch.remove_column(place) if hasattr(batch, "remove_column") else batch.select(range(place))
        self._held.setdefault(batch.column(place)[0].as_py(), []).append(plain)

    def seal(self, checkpoint: int) -> Any:
        held, self._held = self._held, {}
        sealed = []
        for segment, rows in sorted(held.items()):
            name = f"segment={segment}/part-{self.partition:05d}-{self.attempt:06d}-e{checkpoint:06d}-00000"
            self.table.hidden[f"_{name}"] = rows
            sealed.append((f"_{name}", name))
        return sealed or None

    def publish(self, checkpoint: int, part: Any) -> None:
        for hidden, name in part:
            if hidden in self.table.hidden:
                self.table.visible[name] = self.table.hidden.pop(hidden)

    def withdraw(self, checkpoint: int) -> None:
        for files in (self.table.visible, self.table.hidden):
            for path in list(files):
                partition, attempt, sealed = _parts(path)
                if partition == self.partition and attempt <= self.attempt and sealed > checkpoint:
                    del files[path]


def _parts(path: str) -> tuple[int, int, int]:
    """Returns the partition, the attempt and the checkpoint of a file."""
    found = _CHECKPOINT.search(path)
    assert found is not None
    return int(found[1]), int(found[2]), int(found[3])
