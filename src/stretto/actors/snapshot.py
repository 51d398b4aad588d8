"""An actor's state at a mark: all that it needs to resume, as plain data, Arrow tables and fragments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.actors.shards import ShardMap
from stretto.state import Fragment
from stretto.state.packing import unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Taken in the run that reaches the mark of a checkpoint, and written while the actor continues.

    `plain` is already packed, because its contents may change; fragments never do. A sink that has `finished` takes
    part in each checkpoint until its last output is published."""

    checkpoint: int
    plain: bytes
    fragments: dict[str, list[Fragment]] = field(default_factory=dict)
    finished: bool = False
    watermark_us: int = EVENT_TIME_MIN_US
    """The last watermark that it has sent."""
    part: str = ""
    """The worker of the task that it is of, if it is a part of an elastic executor's."""


class Plain(msgspec.Struct, frozen=True):
    """The plain data of a snapshot: how far the actor was, the watermark and end of each channel to it (by sender,
    partition and input), its timers by clock, its counts, the consolidated state, what its function remembers, and the
    descriptions of its states."""

    watermark_us: Int64
    channels: list[tuple[str, int, str, Int64, bool]]
    timers: dict[str, list[tuple[int, Any]]]
    counts: dict[str, int]
    consolidated: bytes | None
    remembered: Any
    described: dict[str, dict[str, Any]]


def plain_of(data: Any) -> Plain:
    """Returns packed plain data as read back; raises any error if it is not of a snapshot."""
    return msgspec.convert(unpacked(data), type=Plain)


@dataclass(frozen=True, slots=True)
class Content:
    """A snapshot as read back. `path` is its file, and `paths` the files of each state, for messages. `parts` are those
    of the tasks of an elastic executor; no key is in two of them. States that were handed over by a running instance
    are `exported`, not in fragments."""

    plain: Plain
    fragments: dict[str, list[Fragment]] = field(default_factory=dict)
    finished: bool = False
    path: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    parts: tuple[Content, ...] = ()
    exported: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Origin:
    """What an instance resumes from: snapshots by the partition that they were of, and how it is wired now.

    `whole` means that it is the same partition as before, so that its fragments are already stored. Otherwise it gets
    its share of all `contents`: the function had `parallelism` partitions (0: it is new), which owned these `shards` if
    rows were partitioned by the same columns. What cannot be divided by key, such as counts, it gets from the
    partitions that it `leads`. `channels` has the watermark and end of each actor that feeds it; None if the snapshot
    has them.

    In a handover between two attempts, `bequests` are what running instances gave, that of the home first, and
    `adopts` is the one instance on the same worker whose function, with its state, is taken over as it is."""

    checkpoint: int
    contents: dict[int, Content]
    whole: bool = True
    finished: bool = False
    parallelism: int = 1
    shards: ShardMap | None = None
    leads: frozenset[int] = frozenset()
    channels: dict[tuple[str, int], tuple[int, bool]] | None = None
    bequests: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    adopts: Instance | None = None
