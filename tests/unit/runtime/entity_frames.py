"""Strategies for the frames of entities, one for each type (see test_codec.py)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
    Pace,
    PlaceSent,
    RepliesSent,
    RoundSent,
    RowRepliesSent,
    WhereEntities,
)
from stretto.protocol.transactions import (
    Acknowledged,
    Call,
    Conflicts,
    Copied,
    Copy,
    CopyOut,
    CopyTaken,
    Emitted,
    EntityName,
    Failure,
    Fetch,
    Invoke,
    Look,
    Origin,
    Piece,
    Place,
    Proceed,
    Reply,
    Request,
    Resume,
    Resumed,
    Returned,
    Round,
    Row,
    Settle,
    SnapshotKept,
    SnapshotTaken,
    Stay,
    Switch,
    TakenOver,
    Takeover,
    TransactionTotals,
    Verdict,
    Wave,
)

counts = st.integers(0, 2**63 - 1)
ints = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
content = st.binary(max_size=20)
origins = st.builds(Origin, texts, counts, ints)
requests = st.builds(Request, st.builds(EntityName, texts, texts), texts, content, st.none() | texts)
fetches = st.builds(Fetch, texts, texts, st.none() | counts, counts, st.none() | ints)
calls = (
    st.builds(Call, origins, requests)
    | st.builds(Look, origins, requests, counts)
    | st.builds(Settle, texts, ints)
    | fetches
)
emitted = st.builds(
    Emitted, texts, texts, counts, st.lists(st.builds(Row, ints, content), max_size=3), ints, st.none() | texts
)
totals = st.builds(
    TransactionTotals, counts, st.dictionaries(texts, counts, max_size=2), counts, counts, counts, latency=st.none()
)
aborts = st.builds(Failure, texts, texts, texts, texts, st.none() | content)
places = st.none() | st.builds(Place, counts, st.integers(0, 3), ints)
replies = st.builds(Reply, texts, counts, st.none() | content, st.none() | aborts, places, counts)
paths = st.lists(counts, max_size=3).map(tuple)
tids = st.lists(counts, max_size=3)
acknowledged = st.builds(Acknowledged, counts, tids, st.lists(st.tuples(paths, aborts), max_size=2), st.booleans())
waves = st.builds(
    Wave,
    st.booleans(),
    counts,
    st.booleans(),
    st.booleans(),
    st.lists(st.builds(Invoke, counts, paths, requests, counts, counts, texts, st.booleans()), max_size=2),
    st.lists(st.builds(Returned, counts, paths, st.none() | content, st.booleans()), max_size=2),
    st.lists(acknowledged, max_size=2),
    tids,
    tids,
    st.lists(st.builds(Verdict, counts, st.booleans()), max_size=2),
)
rounds = st.builds(Round, counts, counts, counts, waves | st.builds(Conflicts, tids, tids, tids))
pieces = st.lists(st.builds(Piece, counts, counts), max_size=3)
orders = (
    st.builds(Resume, counts, st.lists(texts, max_size=3), pieces)
    | st.builds(Proceed, counts, counts)
    | st.builds(SnapshotKept, counts, counts)
    | st.builds(CopyOut, counts)
    | st.builds(Switch, counts)
    | st.builds(Stay, counts)
)
reports = (
    st.builds(Resumed, counts, counts)
    | st.builds(SnapshotTaken, counts, counts, pieces)
    | st.builds(Copied, counts)
    | st.builds(TakenOver, counts, counts)
)
moving = (
    st.builds(Copy, counts, counts, content)
    | st.builds(CopyTaken, counts, counts)
    | st.builds(Takeover, counts, content, counts)
)


def entity_frames(failures: st.SearchStrategy[Any]) -> dict[type, st.SearchStrategy[Any]]:
    """Returns a strategy for each type of frame."""
    return {
        CallsSent: st.builds(CallsSent, texts, counts, st.lists(calls, max_size=3), st.none() | texts),
        EmittedSent: st.builds(EmittedSent, texts, counts, emitted),
        EntityCounts: st.builds(EntityCounts, texts, counts, totals, ints),
        RepliesSent: st.builds(RepliesSent, texts, st.lists(replies, max_size=3)),
        RowRepliesSent: st.builds(RowRepliesSent, texts, st.lists(replies, max_size=3)),
        RoundSent: st.builds(RoundSent, texts, counts, counts, rounds),
        PlaceSent: st.builds(PlaceSent, texts, counts, moving, st.dictionaries(texts, texts, max_size=2)),
        HostEntities: st.builds(
            HostEntities, texts, texts, counts, st.none() | texts, st.builds(Pace, counts, counts, counts, counts)
        ),
        EntitiesHosted: st.builds(EntitiesHosted, texts, counts),
        EntityPlaces: st.builds(EntityPlaces, texts, st.lists(texts, max_size=3), st.none() | counts),
        MovePlace: st.builds(MovePlace, texts, counts, texts, st.builds(CopyOut, counts)),
        LeavePlace: st.builds(LeavePlace, texts, counts),
        EntityOrder: st.builds(EntityOrder, texts, counts, orders),
        EntityReport: st.builds(EntityReport, texts, counts, reports),
        EntitiesBroken: st.builds(EntitiesBroken, texts, texts),
        EntitiesFailed: st.builds(EntitiesFailed, texts, failures, st.none() | counts),
        DropEntities: st.builds(DropEntities, texts),
        EntitiesDropped: st.builds(EntitiesDropped, texts),
        WhereEntities: st.builds(WhereEntities, texts),
        EntitiesAt: st.builds(EntitiesAt, texts, st.lists(texts, max_size=3), st.booleans()),
    }
