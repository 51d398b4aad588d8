"""What happens to a worker (events, past facts) and what it wants done (effects, imperatives).

Effects are carried out in order. Each one that can finish comes back as an event, and each way of failing is a type of
its own. Those that every message needs are Structs, which are made in a tenth of the time of a frozen dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from stretto.actors.address import Address
from stretto.actors.deployment import Deployment
from stretto.actors.seat import Seat
from stretto.actors.snapshot import Content, Snapshot
from stretto.actors.work import Outcome, Work
from stretto.checkpoints.manifest import ActorRecord, Storage
from stretto.checkpoints.store import CheckpointStore
from stretto.elasticity.records import DecisionRecord
from stretto.protocol.jobs import Failure
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import Member
from stretto.protocol.transactions import Reply
from stretto.queries.answers import Gathered, Question
from stretto.queries.shelf import LoadPieces, PiecesLoaded
from stretto.queries.state_asking import StateGathered, StateQuestion
from stretto.sharing.contents import Kind, ObjectContent, Write
from stretto.sharing.state import Server
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.events import Keeping, LogWritten, PieceStored, StateOpened

# Runs.


class Run(msgspec.Struct, frozen=True):
    """Effect: apply the work to the seat's instance, then say `Ran` or `RunFailed`."""

    seat: Seat
    work: Work


class Ran(msgspec.Struct, frozen=True):
    seat: Seat
    work: Work
    outcome: Outcome
    cost_ns: int


@dataclass(frozen=True, slots=True)
class RunFailed:
    seat: Seat
    work: Work
    failure: Failure


# Code.


@dataclass(frozen=True, slots=True)
class LoadCode:
    """Effect: fetch and check the code of a job, then say `CodeLoaded` or `CodeFailed`."""

    job: str
    digest: str


@dataclass(frozen=True, slots=True)
class CodeLoaded:
    job: str
    deployment: Deployment


@dataclass(frozen=True, slots=True)
class CodeFailed:
    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class Close:
    """Effect: close the functions of dropped instances; failures are only logged."""

    seats: list[Seat]


# Membership.


@dataclass(frozen=True, slots=True)
class PeerBroken:
    """The connection to or from a member broke: frames may be lost."""

    member: str


@dataclass(frozen=True, slots=True)
class Connect:
    """Effect: the membership as it now is; connect to the new, cut off the gone."""

    members: list[Member]


@dataclass(frozen=True, slots=True)
class Exit:
    """Effect: leave the loop after all that was sent before is out."""

    reason: str


# Snapshots.


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Effect: write a snapshot beside what runs, then say `SnapshotStored` or `SnapshotFailed`."""

    storage: Storage
    address: Address
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """A snapshot is durable."""

    address: Address
    checkpoint: int
    record: ActorRecord


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """A snapshot could not be stored."""

    address: Address
    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The snapshots that an actor resumes from, by the partitions that they were of; `whole` if it is the one that it
    was."""

    records: dict[int, ActorRecord]
    whole: bool


@dataclass(frozen=True, slots=True)
class FetchSnapshots:
    """Effect: read the snapshots of actors, then say `Fetched` or `FetchFailed`."""

    storage: Storage
    job: str
    wanted: dict[Address, Wanted]

    def read_from(self, store: CheckpointStore) -> Fetched:
        """Do it; whatever goes wrong is raised."""
        return Fetched(
            self.job,
            {
                address: {
                    former: store.fetch(address, record, wanted.whole) for former, record in wanted.records.items()
                }
                for address, wanted in self.wanted.items()
            },
        )


@dataclass(frozen=True, slots=True)
class Fetched:
    """The snapshots of a job's actors here were read."""

    job: str
    contents: dict[Address, dict[int, Content]]


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """They could not be read; `damaged` if they never will be."""

    job: str
    reason: str
    damaged: bool


# Entities.


@dataclass(frozen=True, slots=True)
class LoadEntities:
    """Effect: fetch and check the classes of a job's entities, then say `EntitiesLoaded` or `EntitiesFaulted`."""

    job: str
    digest: str


@dataclass(frozen=True, slots=True)
class EntitiesLoaded:
    job: str
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class KeepEntities:
    """Effect: do this to the log and the snapshots of the place with this number, in order, then say `EntitiesKept` or
    `EntitiesFaulted`. Without a directory, nothing is kept."""

    job: str
    number: int
    directory: str | None
    what: Keeping


@dataclass(frozen=True, slots=True)
class EntitiesKept:
    job: str
    place: int
    event: StateOpened | LogWritten | PieceStored


@dataclass(frozen=True, slots=True)
class EntitiesFaulted:
    """The entities of a job, or those in one place, cannot go on here: their classes, their log or their snapshots
    failed."""

    job: str
    failure: Failure
    place: int | None = None


@dataclass(frozen=True, slots=True)
class ReleaseEntities:
    """Effect: close the files of a place."""

    job: str
    place: int


# The doors of entities, in the driver.


@dataclass(frozen=True, slots=True)
class DoorOpened:
    """A job with entities was submitted. `client` is unique to this door, also among those of earlier drivers."""

    job: str
    client: str
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class DoorMoved:
    """The entities of a job are on these workers, by their places. `again`: in another attempt, so that what is open
    may be lost."""

    job: str
    members: tuple[str, ...]
    again: bool = True


@dataclass(frozen=True, slots=True)
class CallsMade:
    """Users have called entities. Each call has a ticket, by which its answer is known."""

    job: str
    calls: list[tuple[MadeCall, Any]]


@dataclass(frozen=True, slots=True)
class DoorShut:
    """A job with entities has ended."""

    job: str


@dataclass(frozen=True, slots=True)
class PassAnswers:
    """Effect: pass replies to those who have called, by their tickets."""

    job: str
    answers: list[tuple[Any, Reply]]


# Questions, in the driver.


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A user has asked about a published table."""

    question: Question


@dataclass(frozen=True, slots=True)
class StateAsked:
    """A user has asked for the state of a function."""

    question: StateQuestion


@dataclass(frozen=True, slots=True)
class PassGathered:
    """Effect: pass what was gathered to those who have asked, by their tickets."""

    gathered: list[Gathered | StateGathered]


@dataclass(frozen=True, slots=True)
class NoteDecision:
    """Effect: note a decision about copies, or what became of it."""

    record: DecisionRecord


# Shared objects on servers.


@dataclass(frozen=True, slots=True)
class ReadServer:
    """Effect: read these objects, in one round trip, then say `ServerAnswered` or `ServerFailed`."""

    job: str
    server: Server
    space: str
    number: int
    wanted: tuple[tuple[Kind, str], ...]


@dataclass(frozen=True, slots=True)
class WriteServer:
    """Effect: make these writes in their order, in one round trip, then say `ServerWritten` or `ServerFailed`. All that
    was ordered before it of this server comes before it."""

    job: str
    server: Server
    space: str
    number: int
    writes: tuple[tuple[str, Write], ...]


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    job: str
    number: int
    contents: tuple[ObjectContent | None, ...]


@dataclass(frozen=True, slots=True)
class ServerWritten:
    """The writes are made, but for those at the places `again`, which had been made before."""

    job: str
    number: int
    again: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerFailed:
    """A server could not do it. `lasting` if it never will."""

    job: str
    number: int
    reason: str
    lasting: bool = False


Event = (
    FrameArrived
    | QuestionAsked
    | StateAsked
    | PiecesLoaded
    | PeerBroken
    | CodeLoaded
    | CodeFailed
    | Ran
    | RunFailed
    | Ticked
    | SnapshotStored
    | SnapshotFailed
    | Fetched
    | FetchFailed
    | EntitiesLoaded
    | EntitiesKept
    | EntitiesFaulted
    | DoorOpened
    | DoorMoved
    | CallsMade
    | DoorShut
    | ServerAnswered
    | ServerWritten
    | ServerFailed
)
Effect = (
    Run
    | Send
    | LoadCode
    | Close
    | Connect
    | Refuse
    | Exit
    | StoreSnapshot
    | FetchSnapshots
    | LoadEntities
    | KeepEntities
    | ReleaseEntities
    | PassAnswers
    | PassGathered
    | NoteDecision
    | LoadPieces
    | ReadServer
    | WriteServer
)
