"""Frames survive the wire exactly; bytes that are not a frame raise a ProtocolError and nothing else."""

from __future__ import annotations

import ast
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.runtime.entity_frames import entity_frames
from tests.unit.runtime.question_frames import question_frames

import stretto
from stretto.actors.address import Address
from stretto.actors.critical import EndOfInput, Last, Mark, SyncProgram, UserCritical, Watermark
from stretto.actors.metrics import FunctionMetrics, SketchBins
from stretto.actors.shape import Feed, FunctionShape
from stretto.actors.shards import ShardMap
from stretto.actors.tasks import Advance, Call, Finish, Snap
from stretto.checkpoints.manifest import ActorRecord, FragmentRecord, Manifest, Piece, Storage
from stretto.errors import ProtocolError
from stretto.protocol.bursts import AskBack, GivenBack, Redirect, Redirected, Returned, StepsSent, To, TwinBegins
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
    Following,
    Give,
    GiveMore,
    Given,
    GivenInMemory,
    MoveShards,
    ShardsMoved,
    Taken,
)
from stretto.protocol.frames import Control, Peer
from stretto.protocol.handover import (
    Bequest,
    BequestInMemory,
    CallOff,
    FormerActor,
    HandOver,
    Passed,
    Prepared,
    Received,
    TakeOver,
)
from stretto.protocol.jobs import (
    Deploy,
    Drain,
    Failed,
    Failure,
    Finished,
    Hosts,
    HostsLeft,
    Loaded,
    Promise,
    Promised,
    Ready,
    Start,
    Stop,
    Stopped,
)
from stretto.protocol.leasing import Ack, Lease, Register, Registered, SyncAck, SyncReply, SyncRequest, Told, Unsync
from stretto.protocol.membership import Heartbeat, Hello, Join, Leave, Left, Member, MemberRole, Members
from stretto.protocol.reports import LongRuns, Misbehaved, Report, Stuck
from stretto.protocol.scheduling import Offered, ScheduleReply, ScheduleRequest
from stretto.protocol.sharing import Held, ObjectsAsked, ObjectsSent
from stretto.runtime import codec
from stretto.runtime.codec import COPY_BELOW_BYTES, Decoder, encode

HEADER_BYTES = 48
SCHEMA = pa.schema(
    [("i", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", tz="UTC")), ("l", pa.list_(pa.float64()))]
)
ints = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**40)
# Surrogates have no encoding.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
maybe_texts = st.none() | texts
floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | ints | floats | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
members = st.builds(Member, texts, texts, texts, texts, counts, st.sampled_from(MemberRole))
failures = st.builds(Failure, texts, texts, maybe_texts, maybe_texts, maybe_texts, maybe_texts, maybe_texts)
sketches = st.builds(SketchBins, st.dictionaries(st.integers(-2000, 2000), floats, max_size=3), floats, floats)
metrics = st.builds(
    FunctionMetrics,
    rows_in=counts,
    rows_out=counts,
    busy_ns=counts,
    executed_from=st.dictionaries(texts, counts, max_size=3),
    sent_to=st.dictionaries(texts, counts, max_size=3),
    counts=st.dictionaries(texts, counts, max_size=3),
    latency=st.none() | sketches,
)
functions = st.dictionaries(texts, st.dictionaries(st.integers(0, 100), metrics, max_size=2), max_size=2)
critical = (
    st.builds(Watermark, ints)
    | st.builds(EndOfInput)
    | st.builds(UserCritical, texts, plain, st.booleans())
    | st.builds(Mark, counts)
)
pieces = st.builds(Piece, texts, counts, counts, texts)
fragments = st.lists(st.builds(FragmentRecord, counts, pieces), max_size=2)
records = st.builds(ActorRecord, st.none() | pieces, st.dictionaries(texts, fragments, max_size=2), st.booleans())
manifests = st.builds(Manifest, texts, counts, st.dictionaries(texts, st.lists(records, max_size=2), max_size=2))
storages = st.none() | st.builds(Storage, texts, counts)
lasts = st.builds(Last, texts, texts, counts, counts)
payloads = st.lists(lasts, max_size=3).map(tuple)
programs = st.none() | st.builds(SyncProgram, payloads, st.booleans())
states = st.none() | st.binary(max_size=20)
names = st.lists(texts, max_size=3)
actors = st.builds(Address, texts, texts, counts)
rows = st.fixed_dictionaries(
    {
        "i": st.none() | ints,
        "s": maybe_texts,
        "t": st.none() | st.integers(-(2**50), 2**50),
        "l": st.none() | st.lists(floats, max_size=3),
    }
)
plain = st.none() | st.booleans() | ints | texts | st.lists(ints | floats, max_size=3)
steps = st.builds(Advance, ints) | st.builds(Call, texts, plain, texts) | st.builds(Finish) | st.builds(Snap, counts)
followings = st.builds(Following, counts, lasts)
promises = st.builds(Promise, st.none() | ints, floats)
SHAPES = {"f": FunctionShape("f", 2, feeds=(Feed("source", "in", False),), shards=ShardMap.even(2))}
bequests = st.builds(
    Bequest,
    texts,
    counts,
    texts,
    counts,
    counts,
    counts,
    st.binary(max_size=50),
    st.booleans(),
    st.lists(texts, max_size=2).map(tuple),
    st.booleans(),
)
FRAMES: dict[type, st.SearchStrategy[Any]] = {
    Join: st.builds(Join, members),
    Heartbeat: st.builds(Heartbeat),
    Hello: st.builds(Hello),
    Members: st.builds(Members, ints, st.lists(members, max_size=3)),
    Deploy: st.builds(
        Deploy,
        texts,
        texts,
        st.dictionaries(texts, st.lists(texts, max_size=3), max_size=3),
        storages,
        st.none() | manifests,
        promise=st.none() | promises,
    ),
    Promised: st.builds(Promised, texts, promises),
    Loaded: st.builds(Loaded, texts),
    Ready: st.builds(Ready, texts),
    Start: st.builds(Start, texts, names),
    Hosts: st.builds(Hosts, texts, names, counts),
    HostsLeft: st.builds(HostsLeft, texts, counts),
    Drain: st.builds(Drain, texts),
    Stop: st.builds(Stop, texts),
    Stopped: st.builds(Stopped, texts),
    Finished: st.builds(Finished, actors, counts),
    Checkpoint: st.builds(Checkpoint, texts, counts),
    Abandon: st.builds(Abandon, texts, counts),
    Overdue: st.builds(Overdue, texts, counts),
    Stored: st.builds(Stored, actors, counts, records),
    StoredInParts: st.builds(StoredInParts, actors, counts, names),
    Unstored: st.builds(Unstored, actors, counts, texts),
    Unfetched: st.builds(Unfetched, texts, counts, texts, st.booleans()),
    Publish: st.builds(Publish, texts, counts),
    Published: st.builds(Published, actors, counts),
    Broken: st.builds(Broken, texts, texts, texts),
    Failed: st.builds(Failed, texts, failures),
    Report: st.builds(Report, texts, functions, counts),
    LongRuns: st.builds(LongRuns, texts, texts, ints, st.dictionaries(texts, ints)),
    Misbehaved: st.builds(Misbehaved, texts, st.none() | texts, texts, texts),
    Stuck: st.builds(Stuck, texts, st.none() | texts, ints, texts),
    Leave: st.builds(Leave),
    Left: st.builds(Left),
    CriticalSent: st.builds(CriticalSent, ints, ints, ints, critical, programs, st.none() | ints, ints),
    Lease: st.builds(Lease, actors, ints, counts, states),
    SyncRequest: st.builds(SyncRequest, actors, counts, payloads, st.lists(steps, max_size=3).map(tuple)),
    SyncAck: st.builds(SyncAck, actors, counts),
    SyncReply: st.builds(
        SyncReply, actors, counts, states, st.lists(st.builds(Told, counts, lasts), max_size=3).map(tuple)
    ),
    Ack: st.builds(Ack, actors),
    Unsync: st.builds(Unsync, actors, counts, ints, counts, st.booleans(), states),
    Register: st.builds(Register, actors, actors, counts, counts, st.booleans()),
    Registered: st.builds(Registered, actors, counts, counts, names),
    MoveShards: st.builds(MoveShards, actors, counts, st.lists(st.tuples(counts, texts), max_size=3).map(tuple)),
    ShardsMoved: st.builds(ShardsMoved, actors, counts, counts, counts, counts, maybe_texts),
    Give: st.builds(Give, actors, counts, st.lists(counts, max_size=3).map(tuple), texts, payloads, counts),
    Given: st.builds(
        Given, actors, counts, counts, counts, st.binary(max_size=20), st.lists(followings, max_size=3).map(tuple)
    ),
    Prepared: st.builds(Prepared, texts),
    HandOver: st.builds(HandOver, texts, counts, st.just(SHAPES), texts, st.just(SHAPES), st.just({"f": ["w0~1"]})),
    CallOff: st.builds(CallOff, texts, counts),
    Passed: st.builds(Passed, actors, counts, st.booleans(), st.integers(-(2**63), 2**63 - 1)),
    Bequest: bequests,
    BequestInMemory: st.builds(BequestInMemory, bequests, texts, counts),
    Received: st.builds(Received, texts, counts),
    TakeOver: st.builds(
        TakeOver,
        texts,
        counts,
        st.dictionaries(texts, st.lists(st.builds(FormerActor, st.booleans(), counts), max_size=3), max_size=2),
    ),
    GivenInMemory: st.builds(
        GivenInMemory, actors, counts, counts, counts, texts, counts, st.lists(followings, max_size=3).map(tuple)
    ),
    Taken: st.builds(Taken, actors, counts, counts),
    Redirect: st.builds(Redirect, texts, st.dictionaries(texts, st.builds(To, st.tuples(texts), floats), max_size=2)),
    Redirected: st.builds(
        Redirected,
        actors,
        counts,
        texts,
        st.binary(max_size=50),
        st.none() | st.binary(max_size=50),
        ints,
        st.none() | ints,
        ints,
        ints,
    ),
    Returned: st.builds(
        Returned,
        actors,
        counts,
        counts,
        st.lists(st.tuples(counts, st.binary(max_size=20)), max_size=3),
        counts,
        st.dictionaries(texts, counts, max_size=2),
        st.none() | ints,
    ),
    ObjectsAsked: st.builds(ObjectsAsked, texts, texts, counts, counts, names.map(tuple)),
    ObjectsSent: st.builds(
        ObjectsSent,
        texts,
        texts,
        counts,
        counts,
        st.lists(st.builds(Held, st.none() | texts, st.binary(max_size=50), counts), max_size=3).map(tuple),
        st.dictionaries(texts, counts, max_size=3),
    ),
    TwinBegins: st.builds(TwinBegins, actors, st.binary(max_size=50)),
    StepsSent: st.builds(StepsSent, actors, counts, st.lists(steps, max_size=3).map(tuple)),
    AskBack: st.builds(AskBack, actors, counts, st.booleans()),
    GivenBack: st.builds(GivenBack, actors, counts, states, st.booleans()),
    GiveMore: st.builds(GiveMore, actors, counts, counts),
    AwaitCriticals: st.builds(AwaitCriticals, actors, actors, counts),
    Grant: st.builds(Grant, ints, ints, floats, floats),
    Offered: st.builds(Offered, ints, ints, st.booleans()),
    ScheduleRequest: st.builds(ScheduleRequest, actors, counts, plain),
    ScheduleReply: st.builds(ScheduleReply, counts, plain),
    **entity_frames(failures),
    **question_frames(failures),
}


def opening(number: int, schema: pa.Schema = SCHEMA) -> OpenChannel:
    return OpenChannel(number, Address("job", "f", 0), Address("job", "g", 1), "in", schema.serialize().to_pybytes())


def opened(*numbers: int) -> Decoder:
    decoder = Decoder()
    for number in numbers:
        decoder.decode("w1~1", encode(opening(number)))
    return decoder


def batch_of(found: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)


def wire(parts: list[Any]) -> list[bytes]:
    return [bytes(part) for part in parts]


def test_every_frame_of_the_protocol_is_tried_here() -> None:
    assert FRAMES.keys() | {OpenChannel, Data} == set(get_args(Control)) | set(get_args(Peer))


@pytest.mark.parametrize("kind", FRAMES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_control_and_channel_frames_survive_the_wire(kind: type, data: st.DataObject) -> None:
    frame = data.draw(FRAMES[kind])
    parts = wire(encode(frame))
    assert len(parts) == 1
    found = Decoder().decode("w1~1", parts)
    assert type(found) is kind
    assert found == frame


@given(st.lists(rows, max_size=5), ints, ints, ints, st.none() | ints, ints)
@example([], 1, 1, 0, -(2**63), 0)
@example([], 1, 1, 2**63 - 1, 2**63 - 1, 2**63 - 1)
def test_batches_survive_the_wire_without_their_schema(
    found: list[dict[str, Any]], number: int, seq: int, arrived_ns: int, progress_us: int | None, deadline_ns: int
) -> None:
    batch = batch_of(found)
    decoder = opened(number)
    parts = wire(encode(Data(number, seq, arrived_ns, batch, progress_us, deadline_ns)))
    decoded = decoder.decode("w1~1", parts)
    assert type(decoded) is Data
    assert (decoded.number, decoded.seq, decoded.arrived_ns) == (number, seq, arrived_ns)
    assert (decoded.progress_us, decoded.deadline_ns) == (progress_us, deadline_ns)
    assert decoded.batch.equals(batch)
    assert decoded.batch.schema == SCHEMA
    assert SCHEMA.serialize().to_pybytes() not in b"".join(parts), "the schema is sent once, before the batches"


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1, 1.5, None])
def test_a_batch_with_a_time_of_more_than_64_bits_is_not_sent(time: Any) -> None:
    with pytest.raises(ProtocolError, match="a time that is no integer of 64 bits"):
        encode(Data(1, 1, time, batch_of([])))


@given(st.integers(0, 63))
def test_a_body_may_lie_at_any_address(offset: int) -> None:
    batch = batch_of([{"i": 1, "s": "x", "t": 2, "l": [3.0]}] * 5)
    (whole,) = wire(encode(Data(1, 1, 0, batch)))
    shifted = memoryview(bytes(offset) + whole)[offset:]
    assert opened(1).decode("w1~1", [shifted]).batch.equals(batch)
    header, body = whole[:HEADER_BYTES], memoryview(bytes(offset) + whole[HEADER_BYTES:])[offset:]
    assert opened(1).decode("w1~1", [header, body]).batch.equals(batch)


def test_a_large_body_has_a_part_of_its_own_and_is_not_copied() -> None:
    batch = batch_of([{"s": "x" * COPY_BELOW_BYTES}])
    header, body = encode(Data(1, 7, 9, batch))
    assert len(header) == HEADER_BYTES
    assert isinstance(body, pa.Buffer)
    found = opened(1).decode("w1~1", [header, body])
    assert (found.seq, found.arrived_ns) == (7, 9)
    assert found.batch.equals(batch)


def test_a_channels_schema_belongs_to_its_sender_and_goes_with_it() -> None:
    parts = wire(encode(Data(1, 1, 0, batch_of([]))))
    decoder = opened(1)
    assert decoder.decode("w1~1", parts).batch.num_rows == 0
    with pytest.raises(ProtocolError, match="w2~1"):
        decoder.decode("w2~1", parts)
    decoder.forget("w1~1")
    with pytest.raises(ProtocolError, match="a frame cannot be decoded: KeyError"):
        decoder.decode("w1~1", parts)


DEEP = b"\x95\xa8critical\x01\x01\x00\x93\xa1u\xa1x" + b"\x91" * 100_000 + b"\xc0"
HEADER = bytes(encode(Data(1, 1, 1, batch_of([])))[0])[:HEADER_BYTES]
BAD: dict[str, list[bytes]] = {
    "no parts": [],
    "an empty part": [b""],
    "kind alone": [b"d"],
    "unknown kind": [b"p\x80"],
    "kind in a part of its own": [b"c", bytes(encode(Stop("j"))[0])[1:]],
    "no messagepack": [b"c\xc1"],
    "trailing bytes": [bytes(encode(Stop("j"))[0]) + b"\x00"],
    "not a mapping": [b"c\x93\x01\x02\x03"],
    "unknown tag": [b"c" + msgspec.msgpack.encode({"type": "halt"})],
    "channel frame as control": [b"c" + bytes(encode(Grant(1, 1))[0])[1:]],
    "control frame as channel": [b"h" + bytes(encode(Stop("j"))[0])[1:]],
    "text for a number": [b"h" + msgspec.msgpack.encode(["grant", "1", 1])],
    "deep nesting": [b"h" + DEEP],
    "a long list that is not there": [b"h" + DEEP[:17] + b"\xdd\xff\xff\xff\xff"],
    "a schema that is none": [
        b"c" + msgspec.msgpack.encode(OpenChannel(1, Address("j", "f", 0), Address("j", "g", 0), "in", b"no"))
    ],
    "half a header": [HEADER[:20]],
    "no body": [HEADER],
    "empty body": [HEADER, b""],
    "body that is none": [HEADER + b"\x00" * 100],
    "bytes between header and body": [HEADER + b"\x00", b"\x00" * 100],
    "three parts": [HEADER, b"", b""],
    "more parts than a frame has": [*wire(encode(Heartbeat())), b""],
}


@pytest.mark.parametrize("parts", BAD.values(), ids=BAD.keys())
def test_what_is_no_frame_is_a_protocol_error(parts: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="a frame cannot be decoded"):
        opened(1).decode("w1~1", parts)


kinds = st.sampled_from([b"c", b"h", b"d"])


@given(
    st.lists(st.binary(max_size=60), max_size=4) | st.lists(st.builds(bytes.__add__, kinds, st.binary()), max_size=1)
)
def test_arbitrary_bytes_never_raise_anything_else(parts: Any) -> None:
    with suppress(ProtocolError):
        opened(1).decode("w1~1", list(parts))


@given(st.data())
def test_a_damaged_batch_is_refused_or_at_least_has_whole_buffers(data: st.DataObject) -> None:
    batch = batch_of([{"i": n, "s": "text", "t": n, "l": [1.0, 2.0]} for n in range(4)])
    (whole,) = wire(encode(Data(1, 1, 0, batch)))
    header, body = whole[:HEADER_BYTES], whole[HEADER_BYTES:]
    damaged = bytearray(body[: data.draw(st.integers(0, len(body)))])
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)) if damaged else ():
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        found = opened(1).decode("w1~1", [header + bytes(damaged)])
    except ProtocolError:
        return
    found.batch.validate()


@pytest.mark.parametrize(
    "payload",
    [object(), {1, 2}.__iter__(), math.sqrt, 2**70, {"inner": [object()]}],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_that_is_no_plain_data_is_named_before_it_is_sent(payload: Any) -> None:
    with pytest.raises(ProtocolError, match="Critical messages and schedule requests carry plain data"):
        encode(CriticalSent(1, 1, 0, UserCritical("mine", payload)))


def test_nothing_longer_than_a_frame_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "FRAME_BYTES_MAX", 1_000)
    encode(Stop("j" * 900))
    with pytest.raises(ProtocolError, match=r"a message is longer than a frame may be: .* bytes of at most 1000"):
        encode(Stop("j" * 1_000))
    with pytest.raises(ProtocolError, match="a batch is longer than a frame may be"):
        encode(Data(1, 1, 0, batch_of([{"s": "x" * 1_000}])))


PACKAGE = Path(stretto.__file__).parent
FACING_THE_SOCKET = [
    *sorted((PACKAGE / "protocol").glob("*.py")),
    *(PACKAGE / "runtime" / name for name in ("codec.py", "transport.py", "keys.py")),
]


@pytest.mark.parametrize("path", FACING_THE_SOCKET, ids=lambda path: path.stem)
def test_what_faces_the_socket_cannot_unpickle(path: Path) -> None:
    """Checks that these modules neither import pickle nor call pyzmq's methods that unpickle."""
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imported |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    assert not [name for name in imported if {"pickle", "cloudpickle", "marshal", "shelve"} & set(name.split("."))]
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"recv_pyobj", "send_pyobj", "recv_serialized", "loads"}
