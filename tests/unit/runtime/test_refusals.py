"""Refusals are counted once per attempt, logged without flooding, and reported to the coordinator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
import zmq

from stretto.actors.deployment import Deployment
from stretto.errors import ProtocolError
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Stop, Stopped
from stretto.protocol.machines import FrameArrived
from stretto.protocol.membership import COORDINATOR, Member, Members
from stretto.protocol.reports import Report
from stretto.runtime.connections import routing_id
from stretto.runtime.refusals import Handshakes, Refusals
from stretto.runtime.transport import Transport
from stretto.runtime.worker_loop import REFUSALS_EVERY_NS, WorkerLoop
from stretto.worker.machine import Worker

ACCEPTED, GONE = zmq.EVENT_ACCEPTED, zmq.EVENT_DISCONNECTED
WELCOME, WRONG_KEY = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_HANDSHAKE_FAILED_AUTH
BROKEN, SILENT = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

LIVES = {
    "a member comes and goes": ([(ACCEPTED, 9), (WELCOME, 0), (GONE, 9)], 0),
    "a wrong key, which the allow-list counts": ([(ACCEPTED, 9), (WRONG_KEY, 400), (GONE, 9)], 0),
    "a broken handshake": ([(ACCEPTED, 9), (BROKEN, 1), (GONE, 9)], 1),
    "a connection that says nothing": ([(ACCEPTED, 9), (SILENT, 104), (GONE, 9)], 1),
    "noise, of which only the end is reported": ([(ACCEPTED, 9), (GONE, 9)], 1),
    "noise while a member stays": ([(ACCEPTED, 8), (WELCOME, 0), (ACCEPTED, 9), (GONE, 9)], 1),
    "a member goes after noise": ([(ACCEPTED, 8), (WELCOME, 0), (ACCEPTED, 9), (GONE, 9), (GONE, 8)], 1),
    "a descriptor's number is used again": ([(ACCEPTED, 9), (WELCOME, 0), (GONE, 9), (ACCEPTED, 9), (GONE, 9)], 1),
    "two members at once": ([(ACCEPTED, 8), (ACCEPTED, 9), (WELCOME, 0), (WELCOME, 0), (GONE, 8), (GONE, 9)], 0),
    "much noise": ([(event, fd) for fd in range(50) for event in (ACCEPTED, GONE)], 50),
}


@pytest.mark.parametrize(("events", "refused"), LIVES.values(), ids=LIVES.keys())
def test_connections_that_never_authenticated_are_counted(events: list[tuple[int, int]], refused: int) -> None:
    refusals = Refusals("w0~1")
    handshakes = Handshakes(refusals)
    for event, value in events:
        handshakes.observe(event, value)
    assert refusals.count == refused


def test_the_first_of_a_kind_is_loud_and_the_rest_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals("w0~1")
    with caplog.at_level(logging.WARNING, "stretto.transport"):
        for _ in range(100):
            refusals.add("a frame of another cluster")
    assert refusals.count == 100
    assert refusals.reasons == {"a frame of another cluster": 100}
    assert [record.getMessage() for record in caplog.records] == ["w0~1 refused a frame of another cluster"]


def test_reasons_do_not_grow_without_limit() -> None:
    refusals = Refusals("w0~1")
    for number in range(3_000):
        refusals.add(f"a frame of {number}")
    assert refusals.count == 3_000
    assert len(refusals.reasons) <= 1_001


def test_a_routing_id_cannot_be_guessed() -> None:
    ids = {routing_id("c1", "w0~1", "main") for _ in range(100)}
    assert len(ids) == 100
    assert all(identity.startswith(b"c1/w0~1/main/") and len(identity) < 255 for identity in ids)


class NoNetwork:
    """A stand-in for a transport: keeps what is sent, and refuses frames of type `unsendable`."""

    def __init__(self) -> None:
        self.refusals = Refusals("w0~1")
        self.sent: list[tuple[str, Frame]] = []
        self.unsendable: type | None = None

    def send(self, to: str, frame: Frame) -> None:
        if self.unsendable is not None and isinstance(frame, self.unsendable):
            raise ProtocolError("a message cannot be sent", "it is too long")
        self.sent.append((to, frame))

    def set_members(self, members: list[Member]) -> None:
        """Does nothing."""

    def watch(self, fd: int, wake: Callable[[], None]) -> None:
        """Does nothing."""


def loop_on(network: NoNetwork) -> WorkerLoop:
    def no_code(job: str, digest: str) -> Deployment:
        raise AssertionError("nothing is deployed here")

    return WorkerLoop(Worker("w0~1"), cast(Transport, network), no_code)


def test_refusals_are_reported_to_the_coordinator_even_when_no_job_runs() -> None:
    network = NoNetwork()
    loop = loop_on(network)
    now_ns = 10**18
    network.refusals.add("noise before it was a member")
    loop._report_refusals(now_ns)
    assert network.sent == [], "a worker that has not joined does not report"
    member = Member("w0~1", "tcp://127.0.0.1:1", "key", "127.0.0.1", 1)
    loop._handle(FrameArrived(COORDINATOR, Members(1, [member])), now_ns)
    loop._report_refusals(now_ns)
    loop._report_refusals(now_ns)
    assert network.sent == [(COORDINATOR, Report("", {}, 1))]
    assert loop._refusals_due_ns == now_ns + REFUSALS_EVERY_NS


def test_a_frame_that_cannot_be_sent_and_is_no_functions_fault_raises() -> None:
    network = NoNetwork()
    network.unsendable = Stopped
    with pytest.raises(ProtocolError, match="a message cannot be sent"):
        loop_on(network)._handle(FrameArrived(COORDINATOR, Stop("unknown")), 0)


def test_the_machines_refusals_and_the_sockets_are_one_count() -> None:
    network = NoNetwork()
    loop = loop_on(network)
    member = Member("w0~1", "tcp://127.0.0.1:1", "key", "127.0.0.1", 1)
    loop._handle(FrameArrived(COORDINATOR, Members(1, [member])), 0)
    network.refusals.add("noise")
    loop._report_refusals(0)
    loop._handle(FrameArrived("w9~1", Members(7, [])), 0)
    loop._report_refusals(0)
    told: list[Any] = [frame.refused for _, frame in network.sent]
    assert told == [1, 2]
    assert loop._machine.refused == network.refusals.count == 2
