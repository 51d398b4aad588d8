"""The content of a state in parts that never change once they are given, so that a checkpoint writes each only once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


class Deferred:
    """A content that is put together when it is written: what it was when it was given, whatever becomes of the state
    meanwhile. `table` may be called by another thread."""

    def table(self) -> pa.Table:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a state: an Arrow table, or plain data that is packed. Within one state, a number stands for one
    content for ever; None is for a content that was given before and is not kept in memory for this alone."""

    number: int
    content: pa.Table | bytes | Deferred | None
