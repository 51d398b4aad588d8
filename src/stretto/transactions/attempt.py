"""What a worker of transactions is made of: its settings, its parts, and what it has in one attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from stretto.protocol.transactions import (
    Conflicts,
    EntityName,
    Failure,
    Fetch,
    Look,
    Piece,
    Round,
    Wave,
)
from stretto.transactions import log
from stretto.transactions.ages import Ages
from stretto.transactions.changes import Changes
from stretto.transactions.delayed import DelayedCalls
from stretto.transactions.emitted import EmittedRows
from stretto.transactions.epoch import Epoch, EpochParts, Sequenced
from stretto.transactions.idempotency import KEPT_US, Keys
from stretto.transactions.in_flight import InFlight
from stretto.transactions.ingress import Ingress
from stretto.transactions.placement import Placement
from stretto.transactions.sequencing import Sequencer
from stretto.transactions.sessions import Sessions


@dataclass(frozen=True)
class Settings:
    """When epochs and snapshots are taken."""

    epoch_ns: int = 1_000_000
    """The least time between the beginnings of two epochs, unless the first was full."""
    calls_max: int = 100
    """The most calls that a worker takes into an epoch."""
    snapshot_ns: int = 4_000_000_000
    keys_kept_us: int = KEPT_US
    """How long idempotency keys are kept."""
    sweep_ns: int = 1_000_000_000
    """The least time between two epochs that begin only because entities expire."""
    reordering: bool = True
    fallback: bool = True


@dataclass(frozen=True)
class WorkerParts:
    """The classes that a worker is made of. The simulator plants a bug by replacing one."""

    epoch: type[Epoch] = Epoch
    ingress: type[Ingress] = Ingress
    sessions: type[Sessions] = Sessions
    keys: type[Keys] = Keys
    delayed: type[DelayedCalls] = DelayedCalls
    emitted: type[EmittedRows] = EmittedRows
    ages: type[Ages] = Ages
    in_flight: type[InFlight] = InFlight
    sequencer: type[Sequencer] = Sequencer
    read_log: Callable[[bytes, int], log.Content] = log.read
    in_epoch: EpochParts = field(default_factory=EpochParts)


class Stage(Enum):
    """How far the worker is in an attempt."""

    IDLE = "idle"
    OPENING = "opening"
    OPENED = "opened"
    RUNNING = "running"


@dataclass
class Attempt:
    """What a worker has in one attempt."""

    number: int
    members: list[str]
    placement: Placement
    pieces: list[Piece]
    ingress: Ingress
    sequencer: Sequencer
    state: dict[EntityName, bytes]
    finished: int
    """The last epoch that is over."""
    again: list[Sequenced]
    ages: Ages
    emitted: EmittedRows
    at_us: int
    """The time of the last epoch that has begun."""
    decided: int = 0
    changed: Changes[EntityName] = field(default_factory=Changes)
    early: dict[int, list[tuple[int, int, Wave | Conflicts]]] = field(default_factory=dict)
    """Rounds of epochs that have not begun here."""
    looks: list[Look] = field(default_factory=list)
    ended: dict[tuple[str, int], Failure] = field(default_factory=dict)
    """The last looks that ran out of time, by client and number."""
    fetches: dict[str, tuple[str, Fetch]] = field(default_factory=dict)
    """Who waits for the rows of each stream."""
    reached_us: int = 0
    """The time of the last epoch that is over."""
    epoch: Epoch | None = None
    cut_end: int = 0
    """Where the log ends after the cut of the running epoch."""
    unstored: set[Piece] = field(default_factory=set)
    taken: dict[int, tuple[list[Piece], int]] = field(default_factory=dict)
    """Snapshots that are not complete yet: their pieces, and where the log after them begins."""
    recent: dict[int, list[Round]] = field(default_factory=dict)
    """The last rounds that were sent to each worker: they may be lost if its place moves (see moving.py)."""
