"""A transient worker has no open port, reaches ordinary workers only, and is reached over its own connections. Sockets
without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil
import pytest
from tests.waiting import eventually

from stretto.actors.address import Address
from stretto.errors import InvariantError
from stretto.protocol.frames import Frame
from stretto.protocol.membership import COORDINATOR, Leave, Member, MemberRole
from stretto.protocol.scheduling import ScheduleRequest
from stretto.runtime.connections import Connections
from stretto.runtime.keys import KeyPair
from stretto.runtime.outward import OutwardTransport
from stretto.runtime.transport import Transport

CLUSTER = "c1"
HERE = "127.0.0.1"


def member(name: str, transport: Connections, keys: KeyPair, role: MemberRole) -> Member:
    return Member(name, transport.endpoint, keys.public, HERE, os.getpid(), role)


@contextmanager
def coordinated(transport: Connections) -> Iterator[None]:
    """As if it had a coordinator elsewhere: its members may send it only what workers send each other."""
    transport._coordinator = object()
    try:
        yield
    finally:
        transport._coordinator = None


@contextmanager
def ordinary(name: str) -> Iterator[tuple[Transport, Member]]:
    keys = KeyPair.new()
    with closing(Transport(CLUSTER, name, keys, HERE)) as transport, coordinated(transport):
        yield transport, member(name, transport, keys, MemberRole.WORKER)


@contextmanager
def transient(name: str) -> Iterator[tuple[OutwardTransport, Member]]:
    keys = KeyPair.new()
    with closing(OutwardTransport(CLUSTER, name, keys)) as transport, coordinated(transport):
        yield transport, member(name, transport, keys, MemberRole.TRANSIENT)


def request(text: str) -> ScheduleRequest:
    return ScheduleRequest(Address("job", "function", 0), 1, text)


def arrived(*transports: Connections) -> list[list[tuple[str, Frame]]]:
    return [transport.poll(5) for transport in transports]


def listening() -> int:
    return sum(1 for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_LISTEN)


def test_it_opens_no_port_and_frames_go_both_ways() -> None:
    with ordinary("w0~1") as (worker, w0):
        before = listening()
        with transient("t0~1") as (guest, t0):
            assert t0.endpoint == ""
            for transport in (worker, guest):
                transport.set_members([w0, t0])
            # What is sent before the connection is made waits for it.
            worker.send("t0~1", request("first"))
            guest.send("w0~1", request("there"))
            worker.send("t0~1", request("second"))
            at_worker: list[Frame] = []
            at_guest: list[Frame] = []

            def both() -> bool:
                for found, transport in ((at_worker, worker), (at_guest, guest)):
                    found += transport.poll(5)
                return len(at_worker) == 1 and len(at_guest) == 2

            eventually(both)
            assert at_worker == [("t0~1", request("there"))]
            assert at_guest == [("w0~1", request("first")), ("w0~1", request("second"))]
            assert listening() == before
            assert worker.taken_broken() == guest.taken_broken() == []


def test_a_worker_that_has_not_heard_of_it_is_asked_again() -> None:
    with ordinary("w0~1") as (worker, w0), transient("t0~1") as (guest, t0):
        worker.set_members([w0])
        guest.set_members([w0, t0])
        eventually(lambda: arrived(worker, guest) and worker.refusals.count >= 2)
        worker.set_members([w0, t0])
        worker.send("t0~1", request("now"))
        at_guest: list[Frame] = []

        def is_there() -> bool:
            worker.poll(5)
            at_guest.extend(guest.poll(5))
            return bool(at_guest)

        eventually(is_there)
        assert at_guest == [("w0~1", request("now"))]
        assert guest.taken_broken() == []


def test_two_transient_workers_cannot_talk_to_each_other() -> None:
    with transient("t0~1") as (first, t0), transient("t1~1") as (_, t1):
        first.set_members([t0, t1])
        with pytest.raises(InvariantError, match="two transient workers"):
            first.send("t1~1", request("psst"))
        assert not first._peers


def test_one_that_was_lost_is_cut_off() -> None:
    with ordinary("w0~1") as (worker, w0), transient("t0~1") as (guest, t0):
        for transport in (worker, guest):
            transport.set_members([w0, t0])
        guest.send("w0~1", request("there"))
        eventually(lambda: any(arrived(worker, guest)))
        worker.set_members([w0])
        guest.send("w0~1", request("again"))
        refused = worker.refusals.count
        eventually(lambda: arrived(worker, guest) and worker.refusals.count > refused)
        worker.send("t0~1", request("of no use"))  # It is not a member any more.
        assert guest.poll(20) == []


def test_only_the_coordinator_decides_for_it_too() -> None:
    with ordinary("w0~1") as (worker, w0), transient("t0~1") as (guest, t0):
        for transport in (worker, guest):
            transport.set_members([w0, t0])
        worker.send("t0~1", Leave())
        eventually(lambda: arrived(worker, guest) and guest.refusals.count == 1)
        assert COORDINATOR in next(iter(guest.refusals.reasons))
