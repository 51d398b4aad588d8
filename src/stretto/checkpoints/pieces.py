"""Converts contents to Arrow streams and back: a table as it is, packed plain data as a table of one cell."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.errors import DamagedError
from stretto.state import Deferred

_PACKED = pa.schema([pa.field("packed", pa.large_binary())], metadata={b"stretto": b"packed"})


def encoded(content: pa.Table | bytes | Deferred) -> pa.Buffer:
    if isinstance(content, Deferred):
        content = content.table()
    table = content if isinstance(content, pa.Table) else pa.table([pa.array([content], pa.large_binary())], _PACKED)
    # A buffer that grows is copied repeatedly, so the size is computed first.
    size = pa.MockOutputStream()
    _write(table, size)
    buffer = pa.allocate_buffer(size.size())
    _write(table, pa.FixedSizeBufferWriter(buffer))
    return buffer


def _write(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def decoded(data: bytes, where: str) -> pa.Table | bytes:
    """Returns a content; raises a DamagedError if Arrow cannot read it, or could only read past its end."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise DamagedError(f"{where} is damaged", str(error)) from error
    if (table.schema.metadata or {}).get(b"stretto") != b"packed":
        return table
    content = table.column(0)[0].as_py() if table.shape == (1, 1) else None
    if not isinstance(content, bytes):
        raise DamagedError(f"{where} is damaged", "its packed data are not one cell of bytes")
    return content
