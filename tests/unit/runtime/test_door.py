"""Who stands in the door, which connections may have lost frames, and how far the limit of descriptors is raised."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest
import zmq

from stretto.runtime.connections import Link
from stretto.runtime.descriptors import DESCRIPTORS_MAX, raise_descriptor_limit
from stretto.runtime.door import Crowd

ACCEPTED, GONE = zmq.EVENT_ACCEPTED, zmq.EVENT_DISCONNECTED
WELCOME = zmq.EVENT_HANDSHAKE_SUCCEEDED
WRONG_KEY, BROKEN = zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Two open descriptors, as a connection has one."""
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # The test has closed it.


def test_connections_are_counted_until_they_end(pipe: tuple[int, int]) -> None:
    crowd = Crowd()
    for fd in pipe:
        crowd.observe(ACCEPTED, fd)
    crowd.observe(WELCOME, 0)
    assert len(crowd) == 2
    crowd.observe(GONE, pipe[0])
    crowd.recount()
    assert len(crowd) == 1


def test_a_connection_that_ended_without_an_event_is_forgotten(pipe: tuple[int, int]) -> None:
    """A socket reports no end of a connection that a member has replaced by another."""
    crowd = Crowd()
    for fd in pipe:
        crowd.observe(ACCEPTED, fd)
    os.close(pipe[0])
    crowd.recount()
    assert len(crowd) == 1


def test_a_descriptor_that_is_another_file_by_now_is_forgotten(pipe: tuple[int, int]) -> None:
    crowd = Crowd()
    crowd.observe(ACCEPTED, pipe[0])
    other = os.open(os.devnull, os.O_RDONLY)
    os.dup2(other, pipe[0])
    os.close(other)
    crowd.recount()
    assert len(crowd) == 0


LIVES = {
    "it breaks": ([WELCOME, GONE], [False, True]),
    "it is cut in its handshake and made again": ([GONE, WELCOME], [False, False]),
    "it breaks after it was made again": ([GONE, WELCOME, GONE], [False, False, True]),
    "its key is refused, which is not tried again": ([WRONG_KEY, GONE], [True, False]),
    "its handshake is wrong, which is not tried again": ([BROKEN, GONE], [True, False]),
    "it breaks twice": ([WELCOME, GONE, WELCOME, GONE], [False, True, False, True]),
}


@pytest.mark.parametrize(("events", "broken"), LIVES.values(), ids=LIVES.keys())
def test_only_a_connection_that_carried_frames_can_lose_them(events: list[int], broken: list[bool]) -> None:
    link = Link("w1~1")
    assert [link.breaks(event) for event in events] == broken


LIMITS = {
    "the usual one": ((1_024, 4_096), 4_096),
    "a hard limit beyond what is useful": ((1_024, 1 << 30), DESCRIPTORS_MAX),
    "no hard limit": ((1_024, resource.RLIM_INFINITY), DESCRIPTORS_MAX),
    "already high": ((100_000, 200_000), 100_000),
    "already at the hard one": ((256, 256), 256),
    "none at all": ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), resource.RLIM_INFINITY),
}


@pytest.mark.parametrize(("limits", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_the_limit_of_descriptors_is_raised_but_never_lowered(
    limits: tuple[int, int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: now.append(wanted))
    assert raise_descriptor_limit() == expected
    assert now[-1] == (expected, limits[1])


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: int, wanted: tuple[int, int]) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_descriptor_limit() == 1_024
    assert "the limit of open descriptors stays at 1024: not permitted" in caplog.text
