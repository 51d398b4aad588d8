"""What an actor was at a mark: all that it needs to go on from there, as plain data, Arrow tables and fragments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.shards import ShardMap
from stretto.state import Fragment


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Taken in the run that comes to the mark of a checkpoint, and written while the actor goes on.

    `plain` is packed already, because what it was made of may change; fragments never do. A sink that has `finished`
    still has a part in each checkpoint, until its last output is published."""

    checkpoint: int
    plain: bytes
    fragments: dict[str, list[Fragment]] = field(default_factory=dict)
    finished: bool = False
    watermark_us: int = EVENT_TIME_MIN_US
    """What it has told those below."""


@dataclass(frozen=True, slots=True)
class Content:
    """What is read back of a snapshot."""

    plain: Any
    fragments: dict[str, list[Fragment]] = field(default_factory=dict)
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """What an instance resumes from: snapshots by the partition that they were of, and how it is wired now.

    `whole` says that it is the partition that it was, so that its fragments are stored already. Else it gets its part
    of all `contents`, where the function had `parallelism` partitions (0: it is new), which owned these `shards` if
    rows were partitioned by the same columns; of what cannot be divided by key, such as counts, it gets that of the
    partitions that it `leads`. `channels` has how far each actor is that feeds it; None where the snapshot has that."""

    checkpoint: int
    contents: dict[int, Content]
    whole: bool = True
    finished: bool = False
    parallelism: int = 1
    shards: ShardMap | None = None
    leads: frozenset[int] = frozenset()
    channels: dict[tuple[str, int], tuple[int, bool]] | None = None
