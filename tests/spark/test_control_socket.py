"""The control socket: one request and one reply, of the same user only, with bounds on everything. Without Spark, but
with real sockets."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stretto.errors import ClusterError, ProtocolError
from stretto.observation.model import Observation, WorkerObserved
from stretto.protocol.control import About, AskAbout, AskScale, AskStatus, Refused, Reply, Scaled
from stretto.protocol.membership import Member, MemberRole
from stretto.runtime import control_socket
from stretto.runtime.cluster_control import controlled, status_of
from stretto.runtime.control_socket import (
    CONNECTIONS_MAX,
    REQUEST_BYTES_MAX,
    ControlSocket,
    ask,
    running_drivers,
    the_driver,
)

WAIT_S = 300.0
"""Only ends what hangs."""

pytestmark = pytest.mark.usefixtures("short_tmp")


@pytest.fixture
def short_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of the test's own for temporary files, with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="st-") as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def scaled(request: AskScale) -> Reply:
    if request.add > 2:
        raise ClusterError("3 more workers were asked for", "Spark has 2 slots", "Use fewer.")
    return Scaled([f"w{request.add}~1"], [], 3)


def driver(pid: int, *apps: str) -> ControlSocket:
    return ControlSocket({AskAbout: lambda _: About(pid, "c", list(apps)), AskScale: scaled})


@pytest.fixture
def control() -> Iterator[ControlSocket]:
    made = driver(1, "bids")
    yield made
    made.close()


def test_a_request_is_answered_and_an_error_is_an_error_at_the_other_end(control: ControlSocket) -> None:
    assert ask(control.path, AskScale(add=2), WAIT_S) == Scaled(["w2~1"], [], 3)
    with pytest.raises(ClusterError, match=r"3 more workers were asked for: Spark has 2 slots\n  Use fewer"):
        ask(control.path, AskScale(add=3), WAIT_S)
    with pytest.raises(ClusterError, match="this driver does not answer AskStatus"):
        ask(control.path, AskStatus(), WAIT_S)


def test_only_its_user_can_reach_it_and_nothing_is_left_behind(control: ControlSocket) -> None:
    assert stat.S_IMODE(control.path.parent.stat().st_mode) == 0o700
    control.close()
    assert not control.path.parent.exists()


@pytest.mark.parametrize("side", ["driver", "user"])
def test_a_peer_of_another_user_is_refused(
    control: ControlSocket,
    monkeypatch: pytest.MonkeyPatch,
    side: str,
    caplog: pytest.LogCaptureFixture,
    eventually: Callable[..., object],
) -> None:
    mine, here = os.getuid(), threading.get_ident()
    other = SimpleNamespace(**vars(os))
    # Both sides are in this process, so one of them takes itself for another user.
    other.getuid = lambda: mine + ((threading.get_ident() == here) is (side == "user"))
    monkeypatch.setattr(control_socket, "os", other)
    # A driver that closes the connection is noticed when the request is sent, or when the reply is read.
    fact = "another user" if side == "user" else "does not answer|closed the connection"
    with pytest.raises((ClusterError, ProtocolError), match=fact):
        ask(control.path, AskAbout(), WAIT_S)
    if side == "driver":
        eventually(lambda: "another user" in caplog.text, what="the driver's own account of it")


def raw(control: ControlSocket, content: bytes) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(WAIT_S)
        connection.connect(os.fspath(control.path))
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        parts = b"".join(iter(lambda: connection.recv(65_536), b""))
    return msgspec.msgpack.decode(parts[4:], type=Refused)


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (struct.pack(">I", REQUEST_BYTES_MAX + 1), "a message is too long"),
        (struct.pack(">I", 100) + b"x", "the other end has closed the connection"),
        (struct.pack(">I", 3) + b"\x80\x04.", "the driver does not know this request"),
        (struct.pack(">I", 16) + msgspec.msgpack.encode({"type": "rmtree"})[:16].ljust(16, b"\0"), "does not know"),
    ],
)
def test_what_is_no_request_is_refused_by_name(control: ControlSocket, content: bytes, fact: str) -> None:
    assert fact in raw(control, content).fact
    assert ask(control.path, AskAbout(), WAIT_S) == About(1, "c", ["bids"])


def test_requests_at_once_are_bounded() -> None:
    begun, ends = threading.Semaphore(0), threading.Event()

    def slow(_: AskScale) -> Reply:
        begun.release()
        ends.wait()
        return Scaled([], [], 1)

    control = ControlSocket({AskScale: slow})
    threads = [threading.Thread(target=ask, args=(control.path, AskScale(add=1), None)) for _ in range(CONNECTIONS_MAX)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    with pytest.raises(ClusterError, match="8 requests are being carried out"):
        ask(control.path, AskScale(add=1), None)
    ends.set()
    for thread in threads:
        thread.join()
    control.close()


def test_the_driver_is_found_by_app_or_process_id() -> None:
    with pytest.raises(ClusterError, match="no cluster is running"):
        the_driver()
    one, other = driver(11, "bids"), driver(12, "bids", "trades")
    assert [found.about.pid for found in running_drivers()] == [11, 12]
    assert the_driver(app="trades").path == other.path
    assert the_driver(pid=11).path == one.path
    with pytest.raises(ClusterError, match="2 clusters are running: pid 11 runs bids; pid 12 runs bids, trades"):
        the_driver()
    with pytest.raises(ClusterError, match="no running cluster has app 'other'"):
        the_driver(app="other")
    one.close()
    assert the_driver().path == other.path
    other.close()


def test_a_directory_that_others_can_write_is_not_asked(control: ControlSocket) -> None:
    control.path.parent.chmod(0o777)
    assert running_drivers() == []


class FakeCluster(SimpleNamespace):
    """A cluster that notes what is asked of it."""

    def scale_out(self, workers: int, timeout: float) -> list[Member]:
        self.asked.append(("out", workers, timeout))
        return [Member("w2~1", "", "", "host", 1)]

    def scale_in(self, workers: int, timeout: float) -> list[str]:
        self.asked.append(("in", workers, timeout))
        return ["w1~1"]

    def drain(self, worker: str, timeout: float) -> None:
        self.asked.append(("drain", worker, timeout))


def test_a_cluster_adds_and_drains_workers_on_request() -> None:
    cluster: Any = FakeCluster(id="c", asked=[], workers=[1, 2], observation=Observation(), workers_wanted=2)
    with controlled(cluster) as control:
        reply = ask(control.path, AskScale(add=1, leave=2, drain="w0~1", timeout_s=WAIT_S), WAIT_S)
        assert reply == Scaled(["w2~1"], ["w0~1", "w1~1"], 2)
        assert cluster.asked == [("out", 1, WAIT_S), ("drain", "w0~1", WAIT_S), ("in", 2, WAIT_S)]
        with pytest.raises(ClusterError, match="nothing to scale"):
            ask(control.path, AskScale(), WAIT_S)


def test_the_status_names_spare_and_draining_workers() -> None:
    def worker(name: str, role: MemberRole = MemberRole.WORKER, **more: bool) -> WorkerObserved:
        return WorkerObserved(Member(name, "", "", "host", 7, role), more.pop("parked", False), 0.5, 3, 0, **more)

    members = [worker("w0~1"), worker("w1~1", parked=True), worker("w2~1", leaving=True)]
    members.append(worker("driver~1", MemberRole.DRIVER))
    found = status_of("c", 1, Observation(workers={each.member.name: each for each in members}))
    states = {each.name: (each.role, each.state) for each in found.workers}
    assert states["w0~1"] == ("worker", "active")
    assert states["w1~1"] == ("worker", "parked")
    assert states["w2~1"] == ("worker", "draining")
    assert states["driver~1"] == ("driver", "active")
