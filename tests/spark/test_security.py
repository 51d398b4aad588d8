"""Strangers and impostors at the ports of a running cluster: nothing changes, and each attempt is counted and logged.

The strangers know what anyone on the network could: ports, public keys, the cluster's id, the code. Impostors have the
key of one member and try to be, or to command, another. A job that runs at the same time must return its exact result,
which is computed from the generator and not by the code under test.
"""

from __future__ import annotations

import logging
import os
import pickle
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pytest
import zmq
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Cluster, Job
from stretto.actors.address import Address
from stretto.actors.critical import EndOfInput
from stretto.api.memory import CollectSink
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.source import NexmarkSource
from stretto.coordinator.records import JobStatus
from stretto.errors import ClusterError
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Deploy, Failed, Failure, Finished, Stop
from stretto.protocol.membership import COORDINATOR, Heartbeat, Join, Leave, Member, Members
from stretto.runtime.codec import encode
from stretto.runtime.connections import MAIN, dealer, routing_id
from stretto.runtime.door import STRANGERS_MAX
from stretto.runtime.keys import KeyPair
from stretto.runtime.transport import Transport

EVENTS, RATE = 3_000, 4_000.0
SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.string())])
BATCH = pa.record_batch([pa.array([1, 2, 3]), pa.array(["x", "y", "z"])], schema=SCHEMA)


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


class Outside:
    """Sockets outside the cluster; all are closed after the test."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._sockets: list[Any] = []

    def dealer(self, endpoint: str, server_key: str, keys: KeyPair, identity: bytes) -> Any:
        self._sockets.append(dealer(self._context, endpoint, server_key, keys, identity))
        return self._sockets[-1]

    def plain(self, identity: bytes) -> Any:
        """A socket without CURVE, not connected yet."""
        self._sockets.append(self._context.socket(zmq.DEALER))
        self._sockets[-1].setsockopt(zmq.ROUTING_ID, identity)
        return self._sockets[-1]

    def close(self) -> None:
        for made in self._sockets:
            made.close(linger=0)
        self._context.term()


def knock(peer: Any, parts: list[Any]) -> None:
    """Sends, unless the socket was refused already: it then has no peer, and would block for ever."""
    with suppress(zmq.Again):
        peer.send_multipart(parts, zmq.NOBLOCK)


@pytest.fixture
def outside() -> Iterator[Outside]:
    made = Outside()
    yield made
    made.close()


class Target:
    """A port of the cluster, and the name under which its refusals are counted."""

    def __init__(self, name: str, endpoint: str, public_key: str) -> None:
        self.name, self.endpoint, self.public_key = name, endpoint, public_key
        host, port = endpoint.removeprefix("tcp://").split(":")
        self.address = (host, int(port))


@pytest.fixture(params=["coordinator", "worker"])
def target(request: pytest.FixtureRequest, cluster: Cluster) -> Target:
    if request.param == "coordinator":
        return Target(COORDINATOR, cluster._coordinator.endpoint, cluster._coordinator.keys.public)
    worker = member(cluster, "w0~1")
    return Target(worker.name, worker.endpoint, worker.public_key)


def member(cluster: Cluster, name: str) -> Member:
    return next(worker for worker in cluster.workers if worker.name == name)


def keys_of(cluster: Cluster, name: str) -> KeyPair:
    """Returns the secret of a worker, as an attacker in its process would have it."""
    return next(host for host in cluster._hosts if host.member == name)._settings.keys


def bids_per_auction(name: str, events: int | None = EVENTS, gate: Gate | None = None) -> App:
    app = App(name, engine="actors", parallelism=2, batch_rows=50)
    source = NexmarkSource("bid", NexmarkConfig(events=events), RATE, ["auction"], block=50)
    bids = app.source("bids", source if gate is None else gate.before(source))
    bids.key_by("auction").aggregate("count(*) AS n").sink(CollectSink(), name="out")
    return app


def counted(job: Job) -> dict[int, int]:
    result = job.results("out")
    return dict(zip(result.column("auction").to_pylist(), result.column("n").to_pylist(), strict=True))


@contextmanager
def undisturbed(cluster: Cluster) -> Iterator[Job]:
    """Runs a job during the block, and checks its exact result and that the same two processes ran it."""
    processes = {worker.name: worker.pid for worker in cluster.workers}
    with TemporaryDirectory() as directory:
        gate = Gate(Path(directory) / "gate", 0.9)  # It is still running at the end of the block.
        job = cluster.submit(bids_per_auction("meanwhile", gate=gate))
        yield job
        gate.open()
        assert job.wait(WAIT_S).status is JobStatus.FINISHED
    expected = Counter(generate(NexmarkConfig(), "bid", 0, EVENTS, ["auction"]).column("auction").to_pylist())
    assert counted(job) == expected
    assert {worker.name: worker.pid for worker in cluster.workers} == processes


def refusals_grow(
    cluster: Cluster, target: Target, before: dict[str, int], eventually: Callable[..., Any], by: int = 1
) -> None:
    eventually(
        lambda: cluster.refused.get(target.name, 0) >= before.get(target.name, 0) + by,
        what=f"{by} more refusals of {target.name} than {before}",
    )


def frames_refused(cluster: Cluster) -> int:
    """Returns the number of frames that the coordinator has refused. Connections are not counted: one whose handshake
    takes longer than HANDSHAKE_MS, as on a loaded machine, is refused once and made again."""
    reasons = cluster._coordinator.transport.refusals.reasons
    return sum(count for reason, count in list(reasons.items()) if not reason.startswith("a connection"))


def test_an_undisturbed_cluster_refuses_nothing(cluster: Cluster) -> None:
    with undisturbed(cluster):
        pass
    assert set(cluster.refused) == {"w0~1", "w1~1", "driver~1", COORDINATOR}
    assert set(cluster.refused.values()) == {0}


def test_ports_are_open_on_loopback_only(cluster: Cluster) -> None:
    endpoints = [cluster._coordinator.endpoint, *(worker.endpoint for worker in cluster.workers)]
    assert all(endpoint.startswith("tcp://127.0.0.1:") for endpoint in endpoints)


# Strangers.

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)
GARBAGE = {
    "text": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "noise": bytes(range(7, 256)) * 4,
    "a greeting and noise": GREETING + bytes(range(256)),
    "a greeting and the header of an endless frame": GREETING + b"\x06" + (2**62).to_bytes(8, "big"),
    "a pickle": pickle.dumps({"deploy": "now"}),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_cut_off(
    cluster: Cluster,
    target: Target,
    garbage: bytes,
    eventually: Callable[..., Any],
) -> None:
    before = cluster.refused
    with undisturbed(cluster), socket.create_connection(target.address, timeout=WAIT_S) as stranger:
        stranger.sendall(garbage)
        received = b""
        try:
            while chunk := stranger.recv(4096):
                received += chunk
        except ConnectionResetError:
            pass  # The connection was cut before all of the garbage was read.
        assert len(received) <= 256, "at most a greeting is answered"
        refusals_grow(cluster, target, before, eventually)
    assert cluster.refused[target.name] == before[target.name] + 1


def test_connections_that_say_nothing_are_counted_when_they_end(
    cluster: Cluster, target: Target, eventually: Callable[..., Any]
) -> None:
    before = cluster.refused
    with undisturbed(cluster):
        for _ in range(5):
            socket.create_connection(target.address, timeout=WAIT_S).close()
        refusals_grow(cluster, target, before, eventually, by=5)


STRANGERS = 3_000
DESCRIPTORS = 1_024
"""The usual limit of a process."""


def strangers_at(address: tuple[str, int], count: int) -> list[socket.socket]:
    """Returns connections that are made or under way, and say nothing."""
    made = []
    for number in range(count):
        made.append(socket.socket())
        made[-1].setblocking(False)
        made[-1].connect_ex(address)
        if number % 50 == 49:
            time.sleep(0.05)  # Not as fast as loopback can: the thread at the worker's door needs its turn.
    return made


def test_strangers_cannot_use_up_the_descriptors_of_a_worker(
    cluster: Cluster, tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    """A worker with few descriptors takes its checkpoints while three times as many connections say nothing."""
    worker = member(cluster, "w0~1")
    target = Target(worker.name, worker.endpoint, worker.public_key)
    former = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = cluster.refused
    process = psutil.Process(worker.pid)
    job = cluster.submit(bids_per_auction("besieged", events=None), checkpoint=tmp_path, every=None)
    job.checkpoint(WAIT_S)
    made = []
    in_use = process.num_fds()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (own[1], own[1]))
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, former[1]))
        made = strangers_at(target.address, STRANGERS)
        eventually(lambda: process.num_fds() >= in_use + STRANGERS_MAX, what="strangers in the worker's process")
        for _ in range(3):
            job.checkpoint(WAIT_S)
        assert process.num_fds() < DESCRIPTORS
        assert not job.checkpoints.failed
        refusals_grow(cluster, target, before, eventually)
        assert job.status is JobStatus.RUNNING
    finally:
        for stranger in made:
            stranger.close()
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, former)
        resource.setrlimit(resource.RLIMIT_NOFILE, own)
        job.stop()
    with undisturbed(cluster):
        pass


def test_a_strangers_key_is_refused(
    cluster: Cluster, target: Target, outside: Outside, eventually: Callable[..., Any]
) -> None:
    before = cluster.refused
    with undisturbed(cluster) as job:
        identity = routing_id(cluster.id, "w1~1", MAIN)
        stranger = outside.dealer(target.endpoint, target.public_key, KeyPair.new(), identity)
        for frame in (Leave(), Stop(job.name), Heartbeat()):
            knock(stranger, encode(frame))
        refusals_grow(cluster, target, before, eventually)
        assert not stranger.poll(0), "not even a heartbeat is answered"


@pytest.mark.parametrize("mechanism", ["null", "plain"])
def test_a_client_without_curve_gets_nothing(
    cluster: Cluster, target: Target, mechanism: str, outside: Outside, eventually: Callable[..., Any]
) -> None:
    before = cluster.refused
    with undisturbed(cluster) as job:
        stranger = outside.plain(routing_id(cluster.id, "w1~1", MAIN))
        if mechanism == "plain":
            stranger.plain_username, stranger.plain_password = b"stretto", b"stretto"
        stranger.connect(target.endpoint)
        for frame in (Leave(), Stop(job.name), Heartbeat()):
            knock(stranger, encode(frame))
        refusals_grow(cluster, target, before, eventually)
        assert not stranger.poll(0)


def test_refusals_of_the_coordinator_are_logged(
    cluster: Cluster, outside: Outside, eventually: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    cluster._coordinator.transport.refusals.reasons.clear()  # Only the first of a kind is a warning.
    with caplog.at_level(logging.WARNING, "stretto.transport"):
        loop = cluster._coordinator
        knock(outside.dealer(loop.endpoint, loop.keys.public, KeyPair.new(), b"stranger"), encode(Leave()))
        eventually(lambda: "coordinator refused a connection with a key that is not this cluster's" in caplog.text)


# Impostors: the key of w1, and names that are not w1's.


def replayed(job: str) -> list[list[Any]]:
    """Returns valid recorded frames, each of which would do harm if it were accepted."""
    frames: list[Frame] = [
        Stop(job),
        Deploy(job, "0" * 64, {"bids": ["w0~1", "w1~1"]}),
        Members(1_000_000, []),
        Leave(),
        Finished(Address(job, "bids", 0)),
        Failed(job, Failure("UserError", "said an impostor")),
        OpenChannel(
            1, Address(job, "bids", 1), Address(job, "bids.aggregate", 0), "in", SCHEMA.serialize().to_pybytes()
        ),
        Data(1, 1, 0, BATCH),
        CriticalSent(1, 1, 0, EndOfInput()),
        Grant(1, 1000),
    ]
    return [encode(frame) for frame in frames]


IMPOSTORS = {
    "another cluster": lambda cluster: routing_id("0badcafe", "w1~1", MAIN),
    "a dead incarnation": lambda cluster: routing_id(cluster, "w1~0", MAIN),
    "an incarnation to come": lambda cluster: routing_id(cluster, "w1~2", MAIN),
    "another worker": lambda cluster: routing_id(cluster, "w0~1", MAIN),
    "the driver's worker": lambda cluster: routing_id(cluster, "driver~1", MAIN),
    "the coordinator": lambda cluster: routing_id(cluster, COORDINATOR, MAIN),
    "nobody": lambda cluster: b"\xff/\xfe",
}


@pytest.mark.parametrize("named", IMPOSTORS.values(), ids=IMPOSTORS.keys())
def test_a_member_cannot_speak_for_others(
    cluster: Cluster,
    target: Target,
    named: Callable[[str], bytes],
    outside: Outside,
    eventually: Callable[..., Any],
) -> None:
    before, frames_before = cluster.refused, frames_refused(cluster)
    with undisturbed(cluster) as job:
        eventually(lambda: job.status is JobStatus.RUNNING)
        impostor = outside.dealer(target.endpoint, target.public_key, keys_of(cluster, "w1~1"), named(cluster.id))
        frames = replayed(job.name)
        for parts in frames:
            knock(impostor, parts)
        refusals_grow(cluster, target, before, eventually, by=len(frames))
    # Each is refused once, and nothing else is.
    assert frames_refused(cluster) == frames_before + (len(frames) if target.name == COORDINATOR else 0)


def test_a_member_cannot_command_another_worker(
    cluster: Cluster, outside: Outside, eventually: Callable[..., Any]
) -> None:
    """It sends frames in its own name that only the coordinator may send."""
    before = cluster.refused
    worker = member(cluster, "w0~1")
    target = Target(worker.name, worker.endpoint, worker.public_key)
    with undisturbed(cluster) as job:
        identity = routing_id(cluster.id, "w1~1", MAIN)
        usurper = outside.dealer(target.endpoint, target.public_key, keys_of(cluster, "w1~1"), identity)
        commands = [Stop(job.name), Members(1_000_000, []), Leave(), Deploy(job.name, "0" * 64, {}), Heartbeat()]
        for frame in commands:
            knock(usurper, encode(frame))
        refusals_grow(cluster, target, before, eventually, by=len(commands))
        assert not usurper.poll(0)


# A legitimate member whose messages are broken.


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def header_of(channel: int) -> bytes:
    whole: bytes = encode(Data(channel, 1, 0, BATCH))[0]
    return whole[: len(whole) - BATCH.serialize().size]


def broken(fuse: Path) -> dict[str, list[bytes]]:
    bomb = pickle.dumps(Bomb(fuse))
    header, body = header_of(10**6), BATCH.serialize().to_pybytes()
    critical = b"\x95" + msgspec.msgpack.encode("critical") + b"\x01\x01\x00\x93\xa1u\xa1x"
    return {
        "no kind": [b""],
        "unknown kind": [b"z\x80"],
        "kind alone": [b"c"],
        "no messagepack": [b"c" + b"\xc1\xc1\xc1"],
        "unknown tag": [b"c" + msgspec.msgpack.encode({"type": "shutdown"})],
        "wrong field": [b"c" + msgspec.msgpack.encode({"type": "stop", "job": 7})],
        "missing field": [b"c" + msgspec.msgpack.encode({"type": "deploy", "job": "x"})],
        "cut short": [b"c" + bytes(encode(Finished(Address("job", "function", 1)))[0])[1:-3]],
        "too many parts": [*encode(Heartbeat()), b"and more"],
        "endless list": [b"h" + critical + b"\xdd\xff\xff\xff\xff"],
        "deep nesting": [b"h" + critical + b"\x91" * 100_000 + b"\xc0"],
        "no schema": [
            b"c" + msgspec.msgpack.encode(OpenChannel(1, Address("j", "f", 0), Address("j", "g", 0), "in", b"nonsense"))
        ],
        "channel never opened": [header_of(10**9) + body],
        "no Arrow": [header + b"nonsense" * 10],
        "empty Arrow": [header, b""],
        "Arrow cut short": [header + body[:-40]],
        "Arrow of another schema": [header + pa.record_batch({"a": ["text"] * 9}).serialize().to_pybytes()],
        "a pickle": [bomb],
        "a pickle as control": [b"c" + bomb],
        "a pickle as a batch": [header + bomb],
    }


def test_broken_messages_of_a_member_are_refused_and_never_unpickled(
    cluster: Cluster, target: Target, tmp_path: Path, outside: Outside, eventually: Callable[..., Any]
) -> None:
    before = cluster.refused
    messages = broken(tmp_path / "exploded")
    with undisturbed(cluster):
        identity = routing_id(cluster.id, "w1~1", MAIN)
        peer = outside.dealer(target.endpoint, target.public_key, keys_of(cluster, "w1~1"), identity)
        opening = OpenChannel(
            10**6, Address("no such job", "f", 0), Address("no such job", "g", 0), "in", SCHEMA.serialize().to_pybytes()
        )
        peer.send_multipart(encode(opening))  # So that the next frames on it are decoded as batches.
        for parts in messages.values():
            peer.send_multipart(parts)
        refusals_grow(cluster, target, before, eventually, by=len(messages))
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
    assert (tmp_path / "exploded").exists(), "the bomb would have gone off"


def test_frames_over_the_length_limit_are_refused(
    cluster: Cluster, outside: Outside, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = cluster._coordinator
    target = Target(COORDINATOR, loop.endpoint, loop.keys.public)
    monkeypatch.setattr(loop.transport, "frame_bytes_max", 100_000)
    before = cluster.refused
    with undisturbed(cluster):
        identity = routing_id(cluster.id, "w1~1", MAIN)
        peer = outside.dealer(target.endpoint, target.public_key, keys_of(cluster, "w1~1"), identity)
        peer.send_multipart([b"c" + bytes(100_001)])
        refusals_grow(cluster, target, before, eventually)
    assert "a frame of w1~1 that is longer than 100000 bytes" in loop.transport.refusals.reasons


# A worker that is gone.


def test_frames_of_a_dead_incarnation_are_refused(
    spark: SparkSession, outside: Outside, eventually: Callable[..., Any]
) -> None:
    """The key of a lost worker, and even an older connection of it, have no effect."""
    with Cluster.on_spark(spark, workers=2) as cluster:
        keys, identity = keys_of(cluster, "w1~1"), routing_id(cluster.id, "w1~1", MAIN)
        loop, survivor = cluster._coordinator, member(cluster, "w0~1")
        standing = outside.dealer(loop.endpoint, loop.keys.public, keys, identity)
        standing.send_multipart(encode(Heartbeat()))
        assert standing.poll(WAIT_S * 1_000), "while w1 is a member, its heartbeats are answered"
        standing.recv_multipart()

        doomed = cluster.submit(bids_per_auction("doomed", events=None))
        eventually(lambda: doomed.status is JobStatus.RUNNING)
        os.kill(member(cluster, "w1~1").pid, signal.SIGKILL)
        with pytest.raises(ClusterError, match="worker w1~1 was lost"):
            doomed.wait(WAIT_S)

        before = cluster.refused
        job = cluster.submit(bids_per_auction("alive"))
        late = outside.dealer(survivor.endpoint, survivor.public_key, keys, identity)
        back = Join(Member("w1~1", "tcp://127.0.0.1:1", keys.public, "127.0.0.1", 1))
        frames = [
            back,
            Heartbeat(),
            Failed("alive", Failure("UserError", "said a ghost")),
            Finished(Address("alive", "bids", 0)),
        ]
        for frame in frames:
            standing.send_multipart(encode(frame))
        knock(late, encode(Data(1, 1, 0, BATCH)))
        eventually(lambda: cluster.refused[COORDINATOR] >= before[COORDINATOR] + len(frames))
        eventually(lambda: cluster.refused["w0~1"] > before["w0~1"])
        while standing.poll(0):
            assert standing.recv_multipart() == encode(Leave()), "a ghost is asked to leave, and gets no other answer"
        expected = Counter(generate(NexmarkConfig(), "bid", 0, EVENTS, ["auction"]).column("auction").to_pylist())
        job.wait(WAIT_S)
        assert counted(job) == expected
        assert "w1~1" not in [worker.name for worker in cluster.workers]


# Transports alone, where more is visible.


class Pair:
    """A server's transport and the keys of one member that it admits."""

    def __init__(self, frame_bytes_max: int = 10_000) -> None:
        self.keys = KeyPair.new()
        self.peer = KeyPair.new()
        self.server = Transport("c1", "w0~1", self.keys, "127.0.0.1", frame_bytes_max)
        self.server.expect("w1~1", self.peer.public)

    def received(self, until: Callable[[list[Any]], bool]) -> list[Any]:
        """Returns what arrives before the condition is true."""
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while not until(found):
            assert time.monotonic() < deadline, f"only {found} arrived, {self.server.refusals.reasons} was refused"
            found += self.server.poll(20)
        return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.server.close()


def test_over_long_frames_are_refused_or_cut_and_later_ones_arrive(
    pair: Pair, outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    sender = outside.dealer(pair.server.endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
    sender.send_multipart([b"c" + bytes(10_001)])
    pair.received(lambda _: pair.server.refusals.count == 1)
    assert "w0~1 refused a frame of w1~1 that is longer than 10000 bytes" in caplog.text
    sender.send_multipart([b"c" + bytes(1_000_000)])  # The socket itself cuts this connection.
    deadline = time.monotonic() + WAIT_S
    arrivals: list[Any] = []
    while not arrivals:
        assert time.monotonic() < deadline
        sender.send_multipart(encode(Heartbeat()))
        arrivals = pair.server.poll(50)
    assert all(arrival == ("w1~1", Heartbeat()) for arrival in arrivals)


def test_a_member_gets_in_when_the_strangers_have_lost_their_places(pair: Pair, outside: Outside) -> None:
    host, port = pair.server.endpoint.removeprefix("tcp://").split(":")
    standing = outside.dealer(pair.server.endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
    standing.send_multipart(encode(Grant(1, 1)))
    assert pair.received(bool) == [("w1~1", Grant(1, 1))]
    strangers = strangers_at((host, int(port)), 2 * STRANGERS_MAX)
    try:
        pair.received(lambda _: any("too many connections" in reason for reason in pair.server.refusals.reasons))
        newcomer = outside.dealer(pair.server.endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
        newcomer.send_multipart(encode(Grant(2, 2)))
        standing.send_multipart(encode(Grant(1, 3)))
        found = pair.received(lambda found: len(found) == 2)
        assert set(found) == {("w1~1", Grant(1, 3)), ("w1~1", Grant(2, 2))}
    finally:
        for stranger in strangers:
            stranger.close()


def test_a_connection_that_is_cut_in_its_handshake_loses_nothing(pair: Pair) -> None:
    host, port = pair.server.endpoint.removeprefix("tcp://").split(":")
    worker = Transport("c1", "w1~1", pair.peer, "127.0.0.1")
    joining = Join(Member("w1~1", worker.endpoint, pair.peer.public, "127.0.0.1", 1))
    try:
        with socket.create_server((host, 0)) as listener:
            worker.connect_coordinator(f"tcp://{host}:{listener.getsockname()[1]}", pair.keys.public)
            worker.send(COORDINATOR, joining)
            cut, _ = listener.accept()
            assert cut.recv(10), "its greeting"
            cut.close()
            wire = threading.Thread(target=_record, args=(listener, (host, int(port)), bytearray()), daemon=True)
            wire.start()
            assert pair.received(bool) == [("w1~1", joining)]
            worker.poll(0)
            assert worker.taken_broken() == []
    finally:
        worker.close()
    wire.join(20)


def test_recorded_bytes_of_a_valid_conversation_cannot_be_played_again(pair: Pair, outside: Outside) -> None:
    host, port = pair.server.endpoint.removeprefix("tcp://").split(":")
    recorded = bytearray()
    with socket.create_server((host, 0)) as listener:
        wire = threading.Thread(target=_record, args=(listener, (host, int(port)), recorded), daemon=True)
        wire.start()
        endpoint = f"tcp://{host}:{listener.getsockname()[1]}"
        sender = outside.dealer(endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
        sender.send_multipart(encode(Grant(1, 5)))
        assert pair.received(bool) == [("w1~1", Grant(1, 5))]
        sender.close(linger=0)
        wire.join(WAIT_S)
    refused = pair.server.refusals.count
    assert len(recorded) > 200
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as replay:
        replay.sendall(recorded)
        assert pair.received(lambda _: pair.server.refusals.count > refused) == []


def _record(listener: socket.socket, to: tuple[str, int], recorded: bytearray) -> None:
    """Proxies between one client and the server, and records what the client sends."""
    client, _ = listener.accept()
    server = socket.create_connection(to)

    def back() -> None:
        while data := server.recv(4096):
            client.sendall(data)

    returning = threading.Thread(target=back, daemon=True)
    returning.start()
    while data := client.recv(4096):
        recorded += data
        server.sendall(data)
    server.shutdown(socket.SHUT_RDWR)
    returning.join(WAIT_S)
    for end in (server, client):
        end.close()


def test_a_member_that_left_is_cut_off(pair: Pair, outside: Outside) -> None:
    sender = outside.dealer(pair.server.endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
    sender.send_multipart(encode(Grant(1, 1)))
    assert pair.received(bool) == [("w1~1", Grant(1, 1))]
    pair.server.dismiss("w1~1")
    sender.send_multipart(encode(Grant(1, 2)))
    assert pair.received(lambda _: pair.server.refusals.count == 1) == []
    assert pair.server.refusals.reasons == {"a frame of 'w1~1', which is not a member": 1}


def test_a_broken_frame_from_the_coordinator_is_refused_and_the_next_one_accepted(pair: Pair) -> None:
    worker = Transport("c1", "w1~1", pair.peer, "127.0.0.1")
    try:
        worker.connect_coordinator(pair.server.endpoint, pair.keys.public)
        worker.send(COORDINATOR, Join(Member("w1~1", worker.endpoint, pair.peer.public, "127.0.0.1", 1)))
        pair.received(bool)
        pair.server._router.send_multipart([pair.server._routes["w1~1"], b"c\xc1 broken"])
        pair.server.send_routed("w1~1", Leave())
        arrivals: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while not arrivals and time.monotonic() < deadline:
            arrivals = worker.poll(50)
        assert arrivals == [(COORDINATOR, Leave())]
        assert worker.refusals.count == 1
    finally:
        worker.close()


def test_a_member_cannot_take_over_anothers_connection(pair: Pair, outside: Outside) -> None:
    """Frames of the coordinator to w1 go to the connection by which w1 joined, even if another one uses its name."""
    other = KeyPair.new()
    pair.server.expect("w2~1", other.public)
    worker = outside.dealer(pair.server.endpoint, pair.keys.public, pair.peer, routing_id("c1", "w1~1", MAIN))
    thief = outside.dealer(pair.server.endpoint, pair.keys.public, other, routing_id("c1", "w1~1", MAIN))
    joining = encode(Join(Member("w1~1", "tcp://127.0.0.1:1", pair.peer.public, "127.0.0.1", 1)))
    thief.send_multipart(joining)
    pair.received(lambda _: pair.server.refusals.count == 1)
    worker.send_multipart(joining)
    pair.received(bool)
    thief.send_multipart(joining)
    pair.received(lambda _: pair.server.refusals.count == 2)
    pair.server.send_routed("w1~1", Leave())
    assert worker.poll(WAIT_S * 1_000)
    assert worker.recv_multipart() == encode(Leave())
    assert not thief.poll(0)
