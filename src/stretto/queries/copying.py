"""Which workers are to hold which segments in memory: what was asked for decides (`segments/replication.py`).

Only closed segments of tables with files count: the newest segment of a table is where it is published. All pieces of
a segment are together. A worker gets a bounded number of bytes at a time, and copies go when those that are wanted are
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stretto.protocol.queries import Hold, Piece
from stretto.queries.broker import Broker, Known
from stretto.segments.popularity import Asked, Popularity
from stretto.segments.replication import Cluster, Getafix, Holdings, Node, Replication

MEMORY_BYTES = 512 << 20
"""What copies may take of a worker's memory, if nobody says otherwise."""
LOADED_BYTES_MAX = 64 << 20
"""What a worker is asked to load at a time."""


@dataclass(frozen=True)
class Segment:
    """A closed segment of a table: its pieces."""

    table: str
    start_us: int
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        return f"{self.table}@{self.start_us}"

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True)
class Change:
    """What is changed: segments that workers load and drop, and what was seen."""

    loads: Mapping[str, tuple[str, ...]]
    drops: Mapping[str, tuple[str, ...]]
    seen: Mapping[str, float]
    copies_before: int
    copies_wanted: int


@dataclass
class Copying:
    """Decides round by round. `memory_bytes` is what copies may take on each worker."""

    memory_bytes: int = MEMORY_BYTES
    replication: Replication = field(default_factory=Getafix)
    popularity: Popularity = field(default_factory=Popularity)
    _ordered: dict[tuple[str, str], int] = field(default_factory=dict)
    """Orders that workers have not reported on, by worker and table: how many."""

    def reported(self, member: str, table: str) -> None:
        """A worker has done what it was asked for."""
        left = self._ordered.get((member, table), 0) - 1
        if left > 0:
            self._ordered[member, table] = left
        else:
            self._ordered.pop((member, table), None)

    @property
    def under_way(self) -> int:
        """How many orders workers have not reported on."""
        return sum(self._ordered.values())

    def round_over(self, broker: Broker) -> Change | None:
        """Counts what was asked for, and orders what follows of it; None if nothing does."""
        self._ordered = {each: count for each, count in self._ordered.items() if each[0] in broker.workers}
        segments = {segment.name: segment for name, known in broker.tables.items() for segment in closed(name, known)}
        asked = self._asked(broker, segments)
        if not segments or not broker.workers or self._ordered:
            return None
        held = {member: _held(broker, member) for member in sorted(broker.workers)}
        complete = {member: _complete(segments, pieces) for member, pieces in held.items()}
        nodes = {member: Node(complete[member], memory_bytes=self.memory_bytes) for member in held}
        bytes_of = {name: segment.size for name, segment in segments.items()}
        wanted = self.replication.plan(Cluster(nodes, bytes_of), self.popularity)
        loads = {member: _bounded(wanted[member] - complete[member], bytes_of) for member in held}
        drops = _drops(segments, held, complete, wanted)
        self._order(broker, segments, held, loads, drops)
        loads = {member: names for member, names in loads.items() if names}
        if not loads and not drops:
            return None
        seen = {"questions": float(asked), "segments": float(len(segments)), "bytes": float(sum(bytes_of.values()))}
        before, after = (sum(map(len, each.values())) for each in (complete, wanted))
        return Change(loads, drops, seen, before, after)

    def _asked(self, broker: Broker, segments: Mapping[str, Segment]) -> int:
        """Adds what was asked for since the last round; returns how many pieces were."""
        counted = dict(broker.counted)
        broker.counted.clear()
        sizes = {
            (segment.table, piece.name): (segment.name, piece.size)
            for segment in segments.values()
            for piece in segment.pieces
        }
        work: dict[str, float] = {}
        for each, count in counted.items():
            if each in sizes:
                name, size = sizes[each]
                work[name] = work.get(name, 0.0) + count * max(size, 1)
        self.popularity.round_over({name: Asked(each, 1) for name, each in work.items()})
        for gone in [name for name in self.popularity.work if name not in segments]:
            self.popularity.forget(gone)
        return sum(counted.values())

    def _order(
        self,
        broker: Broker,
        segments: Mapping[str, Segment],
        held: Mapping[str, Mapping[str, set[str]]],
        loads: Mapping[str, tuple[str, ...]],
        drops: Mapping[str, tuple[str, ...]],
    ) -> None:
        for member in held:
            tables = {segments[name].table for name in (*loads.get(member, ()), *drops.get(member, ()))}
            for table in sorted(tables):
                here = held[member].get(table, set())
                load = [
                    piece
                    for name in loads.get(member, ())
                    for piece in segments[name].pieces
                    if segments[name].table == table and piece.name not in here
                ]
                drop = [
                    piece.name
                    for name in drops.get(member, ())
                    for piece in segments[name].pieces
                    if segments[name].table == table and piece.name in here
                ]
                directory = broker.tables[table].directory
                if directory is not None and (load or drop):
                    # Whom is asked next does not count on what is dropped.
                    for name in drop:
                        broker.tables[table].holders[name].discard(member)
                    self._ordered[member, table] = self._ordered.get((member, table), 0) + 1
                    broker.sends.append((member, Hold(table, directory, load, drop)))


def closed(table: str, known: Known) -> list[Segment]:
    """Returns the closed segments of a table with files: all but the newest."""
    if known.directory is None:
        return []
    by_start: dict[int, list[Piece]] = {}
    for piece in known.pieces.values():
        by_start.setdefault(piece.start_us, []).append(piece)
    newest = max(by_start, default=0)
    return [Segment(table, start, tuple(pieces)) for start, pieces in sorted(by_start.items()) if start != newest]


def _held(broker: Broker, member: str) -> dict[str, set[str]]:
    """Returns the pieces that a worker holds, by table."""
    return {
        table: {name for name, holders in known.holders.items() if member in holders}
        for table, known in broker.tables.items()
    }


def _complete(segments: Mapping[str, Segment], held: Mapping[str, set[str]]) -> set[str]:
    return {
        name
        for name, segment in segments.items()
        if all(piece.name in held.get(segment.table, ()) for piece in segment.pieces)
    }


def _bounded(wanted: set[str], bytes_of: Mapping[str, int]) -> tuple[str, ...]:
    """Returns as many segments as are loaded at a time: one at least, if there is one."""
    found: list[str] = []
    left = LOADED_BYTES_MAX
    for name in sorted(wanted):
        if found and bytes_of[name] > left:
            break
        found.append(name)
        left -= bytes_of[name]
    return tuple(found)


def _drops(
    segments: Mapping[str, Segment],
    held: Mapping[str, Mapping[str, set[str]]],
    complete: Mapping[str, set[str]],
    wanted: Holdings,
) -> dict[str, tuple[str, ...]]:
    """Returns the copies that can go: those that are not wanted, of segments whose wanted copies are all there."""
    waits = {name for member, names in wanted.items() for name in names - complete[member]}
    found = {}
    for member, pieces in held.items():
        here = {
            name
            for name, segment in segments.items()
            if any(piece.name in pieces.get(segment.table, ()) for piece in segment.pieces)
        }
        if gone := sorted(here - wanted[member] - waits):
            found[member] = tuple(gone)
    return found
