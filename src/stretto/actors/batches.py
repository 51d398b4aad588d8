"""Batches as bytes, without their schema, for frames that carry several or that carry one beside other fields."""

from __future__ import annotations

import pyarrow as pa

ALIGNMENT_BYTES = 16
"""The alignment of the widest Arrow value, a decimal."""


def packed_batch(batch: pa.RecordBatch) -> bytes:
    """Returns a batch as bytes, without its schema."""
    found: bytes = batch.serialize().to_pybytes()
    return found


def unpacked_batch(content: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch from bytes; raises what Arrow raises if they are not one of this schema."""
    batch = pa.ipc.read_record_batch(aligned(content), schema)
    # Checks that the buffers are long enough, in constant time; reading past them would crash the process.
    batch.validate()
    return batch


def aligned(part: bytes | memoryview) -> pa.Buffer:
    """Returns the part as an aligned buffer, which Arrow's kernels need; parts from a socket have any address."""
    buffer = pa.py_buffer(part)
    if buffer.address % ALIGNMENT_BYTES == 0:
        return buffer
    copy = pa.allocate_buffer(buffer.size)
    memoryview(copy).cast("B")[:] = memoryview(part).cast("B")
    return copy
