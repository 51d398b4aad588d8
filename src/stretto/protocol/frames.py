"""All frames, for code that encodes, decodes or carries them."""

from __future__ import annotations

from typing import Any

from stretto.protocol.bursts import AskBack, GivenBack, Redirect, Redirected, Returned, StepsSent, TwinBegins
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.checkpointing import (
    Abandon,
    Broken,
    Checkpoint,
    Overdue,
    Publish,
    Published,
    Stored,
    StoredInParts,
    Unfetched,
    Unstored,
)
from stretto.protocol.elastic import (
    AwaitCriticals,
    Give,
    GiveMore,
    Given,
    GivenInMemory,
    MoveShards,
    ShardsMoved,
    Taken,
)
from stretto.protocol.entities import (
    CallsSent,
    DropEntities,
    EmittedSent,
    EntitiesAt,
    EntitiesBroken,
    EntitiesDropped,
    EntitiesFailed,
    EntitiesHosted,
    EntityCounts,
    EntityOrder,
    EntityPlaces,
    EntityReport,
    HostEntities,
    LeavePlace,
    MovePlace,
    PlaceSent,
    RepliesSent,
    RoundSent,
    RowRepliesSent,
    WhereEntities,
)
from stretto.protocol.handover import Bequest, BequestInMemory, CallOff, HandOver, Passed, Prepared, Received, TakeOver
from stretto.protocol.jobs import (
    Deploy,
    Drain,
    Failed,
    Finished,
    Hosts,
    HostsLeft,
    Loaded,
    Promised,
    Ready,
    Start,
    Stop,
    Stopped,
)
from stretto.protocol.leasing import Ack, Lease, Register, Registered, SyncAck, SyncReply, SyncRequest, Unsync
from stretto.protocol.membership import Heartbeat, Hello, Join, Leave, Left, Members
from stretto.protocol.queries import (
    Ask,
    AskState,
    Held,
    Hold,
    Part,
    PiecesCut,
    StatePart,
    TableClosed,
    TableOpened,
    TellTables,
    Waits,
)
from stretto.protocol.reports import LongRuns, Misbehaved, Report, Stuck
from stretto.protocol.scheduling import Offered, ScheduleReply, ScheduleRequest
from stretto.protocol.sharing import ObjectsAsked, ObjectsSent

Membership = Join | Hello | Heartbeat | Members | Leave | Left
Jobs = Deploy | Promised | Loaded | Ready | Start | Hosts | HostsLeft | Drain | Stop | Stopped | Finished | Failed
Checkpointing = (
    Checkpoint | Abandon | Overdue | Stored | StoredInParts | Unstored | Unfetched | Broken | Publish | Published
)
Handover = Prepared | HandOver | CallOff | Passed | Bequest | BequestInMemory | Received | TakeOver
Leasing = Lease | SyncRequest | SyncAck | SyncReply | Ack | Unsync | Register | Registered
Elastic = MoveShards | ShardsMoved | Give | Given | GivenInMemory | GiveMore | Taken | AwaitCriticals
Scheduling = ScheduleRequest | ScheduleReply
Sharing = ObjectsAsked | ObjectsSent
Twins = TwinBegins | Redirected | StepsSent | Returned | AskBack | GivenBack
BetweenEntities = CallsSent | RepliesSent | RowRepliesSent | EmittedSent | RoundSent | PlaceSent
Entities = (
    BetweenEntities
    | HostEntities
    | EntitiesHosted
    | EntityPlaces
    | MovePlace
    | LeavePlace
    | EntityOrder
    | EntityReport
    | EntityCounts
    | EntitiesBroken
    | EntitiesFailed
    | DropEntities
    | EntitiesDropped
    | WhereEntities
    | EntitiesAt
)
Queries = TableOpened | PiecesCut | TableClosed | TellTables | Ask | Waits | Part | Hold | Held | AskState | StatePart
Reports = Report | LongRuns | Misbehaved | Stuck

Control = (
    Membership
    | Jobs
    | Checkpointing
    | Handover
    | Reports
    | Leasing
    | Elastic
    | Scheduling
    | Sharing
    | Redirect
    | Twins
    | Entities
    | Queries
    | OpenChannel
)
"""Infrequent frames, decoded by their tag."""
OnChannel = CriticalSent | Grant | Offered
"""Frames that name a channel by its number, packed more tightly."""
Peer = (
    OpenChannel
    | OnChannel
    | Data
    | Leasing
    | Elastic
    | Scheduling
    | Sharing
    | Twins
    | Bequest
    | BequestInMemory
    | BetweenEntities
    | Queries
)
"""All that workers send each other."""
Frame = Any
