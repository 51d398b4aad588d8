"""States of shards in shared memory: who may read what, what is left, and when the socket is used instead."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from stretto.actors.address import Address
from stretto.errors import ProtocolError
from stretto.protocol.elastic import Given, GivenInMemory
from stretto.protocol.membership import Member
from stretto.runtime.codec import Decoder, encode
from stretto.runtime.shared_states import SHARED_FROM_BYTES, SharedStates

STATES = os.urandom(SHARED_FROM_BYTES)
GIVEN = Given(Address("job", "f", 0), 3, 1, 2, STATES)
HERE = Member("w2", "tcp://127.0.0.1:1", "key", "host", os.getpid())


@dataclass
class Pair:
    """A sender, a receiver and their directory."""

    directory: Path
    sender: SharedStates
    receiver: SharedStates

    def sent(self, frame: Given = GIVEN) -> GivenInMemory:
        found = self.sender.outgoing(frame, HERE)
        assert isinstance(found, GivenInMemory)
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, SharedStates(tmp_path), SharedStates(tmp_path))


def test_states_arrive_and_the_file_is_gone(pair: Pair) -> None:
    frame = pair.sent()
    (file,) = pair.directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    decoded = Decoder().decode("w1", encode(frame))
    assert decoded == frame
    assert len(encode(frame)[0]) < 300
    assert pair.receiver.incoming(decoded) == GIVEN
    assert not list(pair.directory.iterdir())


def test_names_cannot_be_guessed(pair: Pair) -> None:
    names = {pair.sent().name for _ in range(20)}
    assert len(names) == 20
    assert all(len(name.rpartition("-")[2]) == 32 for name in names)


def test_small_states_go_through_the_socket(pair: Pair) -> None:
    small = msgspec.structs.replace(GIVEN, states=STATES[:-1])
    assert pair.sender.outgoing(small, HERE) is small


@pytest.mark.parametrize("pid", [2**22 + 1, -1], ids=["no such process", "no process at all"])
def test_a_receiver_elsewhere_gets_them_through_the_socket(pair: Pair, pid: int) -> None:
    elsewhere = Member("w3", "tcp://127.0.0.1:1", "key", "host", pid)
    assert pair.sender.outgoing(GIVEN, elsewhere) is GIVEN
    assert not list(pair.directory.iterdir())


def test_without_shared_memory_they_go_through_the_socket(tmp_path: Path) -> None:
    assert SharedStates(tmp_path / "missing").outgoing(GIVEN, HERE) is GIVEN


def test_full_shared_memory_leaves_nothing_behind(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert pair.sender.outgoing(GIVEN, HERE) is GIVEN
    assert not list(pair.directory.iterdir())


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "secret", "stretto-states-1-../../secret", "stretto-states-1-" + "0" * 31, ""]
)
def test_a_name_that_no_worker_gives_is_refused_and_nothing_is_removed(pair: Pair, name: str) -> None:
    (pair.directory / "secret").write_bytes(STATES)
    frame = msgspec.structs.replace(pair.sent(), name=name)
    with pytest.raises(ProtocolError, match="a name that no worker gives"):
        pair.receiver.incoming(frame)
    assert (pair.directory / "secret").exists()


def test_another_length_is_refused(pair: Pair) -> None:
    frame = pair.sent()
    with pytest.raises(ProtocolError, match="not what was announced"):
        pair.receiver.incoming(msgspec.structs.replace(frame, length=frame.length - 1))


def test_a_link_is_not_followed(pair: Pair) -> None:
    frame = pair.sent()
    target = pair.directory / "target"
    (pair.directory / frame.name).rename(target)
    (pair.directory / frame.name).symlink_to(target)
    with pytest.raises(ProtocolError, match="cannot be read"):
        pair.receiver.incoming(frame)


def test_a_file_is_read_once(pair: Pair) -> None:
    frame = pair.sent()
    pair.receiver.incoming(frame)
    with pytest.raises(ProtocolError, match="cannot be read"):
        pair.receiver.incoming(frame)


def test_what_nobody_has_read_goes_with_its_writer(pair: Pair) -> None:
    pair.receiver.incoming(pair.sent())
    pair.sent()
    pair.sender.close()
    assert not list(pair.directory.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_else(pair: Pair) -> None:
    living = pair.sent().name
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = f"stretto-states-{int(ended.stdout)}-{'0' * 32}"
    for name in (dead, "other"):
        (pair.directory / name).write_bytes(b"")
    SharedStates(pair.directory)
    assert {path.name for path in pair.directory.iterdir()} == {living, "other"}
