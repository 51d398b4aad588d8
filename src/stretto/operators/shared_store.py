"""The objects of one space in the workers' memory: a function by the objects' names, which all that use the space feed.

A write is a row, so it takes part in all that rows do: it comes once and in its order, waits for credits, is in
checkpoints at the same place as whatever else its batch has done, and moves with its partition. Reads are not rows:
`worker/sharing/homes.py` looks the objects up between two runs.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.function import Function
from stretto.sharing.contents import ObjectContent, Write, written
from stretto.state import MapState

_decode = msgspec.msgpack.Decoder(Write).decode


class SharedStore(Function):
    """Objects by their names: kind, version and data. The version of an object counts its writes, also when it was
    deleted in between."""

    def __init__(self) -> None:
        self.objects: Any = MapState()
        self.applied: dict[str, dict[str, int]] = {}
        """The number of the last write of each writer, by the worker that it is on."""

    @property
    def order_matters(self) -> bool:
        return False

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        names, numbers, writes, members, writers = (column.to_pylist() for column in batch.columns)
        for name, number, write, member, writer in zip(names, numbers, writes, members, writers, strict=True):
            content, version = self.look(name)
            self.put(name, written(name, content, _decode(write)), version + 1)
            self.applied.setdefault(member, {})[writer] = number
        ctx.count("shared_writes", batch.num_rows)

    def look(self, name: str) -> tuple[ObjectContent | None, int]:
        """Returns what an object holds, and its version: 0 before its first write."""
        found = self.objects.get(name)
        if found is None:
            return None, 0
        kind, version, data = found
        return (None if kind is None else ObjectContent(kind, data)), version

    def put(self, name: str, content: ObjectContent | None, version: int) -> None:
        """Sets what an object holds."""
        kind, data = (None, b"") if content is None else content
        self.objects[name] = (kind, version, data)

    def applied_of(self, member: str) -> dict[str, int]:
        """Returns the last write of each writer on a worker that is in the objects."""
        return dict(self.applied.get(member, {}))
