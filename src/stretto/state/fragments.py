"""Fragments: the content of a state in immutable parts, so that a checkpoint writes each part only once."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


class Deferred:
    """A content that is built when it is written. It is the content at the time of the checkpoint, even if the state
    has changed since. `table` may be called by another thread."""

    def table(self) -> pa.Table:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a state: an Arrow table, or packed plain data. Within one state, a number always stands for the same
    content. None stands for a content that an earlier checkpoint got and that is not kept in memory."""

    number: int
    content: pa.Table | bytes | Deferred | None
