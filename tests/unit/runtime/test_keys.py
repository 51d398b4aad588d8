"""Secrets stay secret, and the allow-list admits exactly the listed keys."""

from __future__ import annotations

from stretto.runtime.keys import AllowList, KeyPair
from stretto.runtime.worker_process import WorkerSettings


def test_a_secret_shows_in_no_repr() -> None:
    keys = KeyPair.new()
    settings = WorkerSettings("c1", "w0~1", keys, "tcp://127.0.0.1:1", KeyPair.new().public, "somewhere")
    for text in (repr(keys), str(keys), repr(settings), str(settings), f"{[keys]} {settings}"):
        assert keys.secret not in text
        assert keys.public in text


def test_each_pair_is_new() -> None:
    pairs = [KeyPair.new() for _ in range(5)]
    assert len({pair.public for pair in pairs} | {pair.secret for pair in pairs}) == 10
    assert all(len(pair.public) == len(pair.secret) == 40 for pair in pairs)


def test_the_allow_list_admits_listed_keys_and_reports_the_others() -> None:
    refused: list[str] = []
    allowed = AllowList(refused.append)
    first, second, stranger = (KeyPair.new().public for _ in range(3))
    assert not allowed.callback("*", first.encode()), "an empty list admits nobody"
    allowed.replace({first})
    assert allowed.callback("*", first.encode())
    allowed.replace({second})
    assert allowed.callback("*", second.encode())
    assert not allowed.callback("*", first.encode()), "a key that is not on the new list is refused"
    assert not allowed.callback("*", stranger.encode())
    assert refused == ["a connection with a key that is not this cluster's"] * 3
    assert not any(stranger in reason for reason in refused)
