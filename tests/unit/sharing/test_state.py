"""What users write, what it refuses, and what it shows."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from stretto import SharedState
from stretto.errors import FunctionError, PlanError
from stretto.sharing.contents import ObjectContent
from stretto.sharing.state import Access, Server

PASSWORD = "s3cr3t"


class Post(msgspec.Struct):
    number: int


def bound(**view: ObjectContent | None) -> tuple[SharedState, Access]:
    access = Access()
    access.view = dict(view)
    return SharedState().bound(access), access


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://:{PASSWORD}@host:6379/0", "redis://host:6379/0"),
        (f"redis://user:{PASSWORD}@host/0?socket_timeout=3", "redis://host/0"),
        (f"redis://:a?{PASSWORD}@host/0", "redis://..."),
        (f"rediss://host/0?password={PASSWORD}", "rediss://host/0"),
        (f"rediss://host/0?password=x@{PASSWORD}", "rediss://..."),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_a_server_shows_no_credentials(url: str, shown: str) -> None:
    state = pickle.loads(pickle.dumps(SharedState(url)))
    assert repr(state.server) == shown
    assert PASSWORD not in f"{state!r} {state.server} {state.server!s}"
    assert state.server.reveal() == url
    assert state.server == Server(url)


def test_what_was_written_is_read_in_the_same_run() -> None:
    state, access = bound(a=None, p=None, m=None, n=None)
    state.list("a", int).append(1)
    state.list("a", int).append(2)
    state.value("p", Post).set(Post(7))
    state.map("m", int).put("x", 3)
    state.counter("n").add(4)
    assert state.list("a", int).get() == [1, 2]
    assert state.value("p", Post).get() == Post(7)
    assert state.map("m", int).get() == {"x": 3}
    assert state.counter("n").get() == 4
    state.list("a", int).delete()
    assert state.list("a", int).get() == []
    assert [name for name, _ in access.writes] == ["a", "a", "p", "m", "n", "a"]


def test_an_absent_value_has_its_default() -> None:
    state, _ = bound(p=None)
    assert state.value("p", int, default=5).get() == 5


def test_what_was_not_asked_for_cannot_be_read() -> None:
    state, _ = bound()
    with pytest.raises(FunctionError, match=r"'a' is not here: shared_reads\(\) did not ask for it"):
        state.list("a", int).get()


def test_types_are_checked_when_written_and_when_read() -> None:
    state, _ = bound(p=ObjectContent("value", msgspec.msgpack.encode("text")))
    with pytest.raises(FunctionError, match="'p' has another type"):
        state.value("p", int).get()
    with pytest.raises(FunctionError, match="'p' has another type"):
        state.value("p", int).set("text")
    with pytest.raises(FunctionError, match="'p' has another type"):
        state.value("p").set(object())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(PlanError, match="the server of shared objects is not known"):
        SharedState("http://host")
    with pytest.raises(PlanError, match="cannot be named 'a:b'"):
        SharedState(space="a:b")
    with pytest.raises(PlanError, match="cannot have -1 copies"):
        SharedState(cached=-1)
    with pytest.raises(FunctionError, match="outside of a running function"):
        SharedState().counter("x").add()
    with pytest.raises(FunctionError, match="a shared object needs a name"):
        SharedState().counter("")
