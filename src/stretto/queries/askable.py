"""What can be asked: published tables, and functions whose state is a table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stretto.expressions.scalar import quoted


@dataclass(frozen=True, slots=True)
class AskableTable:
    """A published table: the job that publishes it, its columns, which of them is its time, how long a segment is."""

    name: str
    job: str
    schema: pa.Schema
    time: str
    segment_us: int


@dataclass(frozen=True, slots=True)
class AskableState:
    """A state of a function of a running job. `name` is how it is written after FROM."""

    name: str
    job: str
    function: str
    state: str


@dataclass(frozen=True, slots=True)
class Askable:
    """What a cluster can be asked for now."""

    tables: tuple[AskableTable, ...] = ()
    states: tuple[AskableState, ...] = ()


def state_name(function: str, state: str, is_only: bool) -> str:
    """Returns how a state is written after FROM. The only one of a function need not be named."""
    parts = (function,) if is_only else (function, state)
    return ".".join(["state", *(part if part.isidentifier() else quoted(part) for part in parts)])
