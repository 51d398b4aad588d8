"""Idempotency keys of callers: which call is the first, who gets its reply, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from stretto.errors import UserError
from stretto.protocol.transactions import EntityName, Origin, Reply, Request
from stretto.transactions import idempotency
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity, reads
from stretto.transactions.idempotency import KeptKey, Keys
from stretto.transactions.log import Logged
from stretto.transactions.placement import Placement


class Shop(Entity):
    sold: int = 0

    async def sell(self, what: str, count: int = 1, tags: set[str] = set()) -> int:  # noqa: B006
        self.sold += count
        return self.sold

    @reads
    async def look(self) -> int:
        return self.sold


CATALOG = Catalog([Shop])


def request(made: Any, key: str | None = "order-7") -> Request:
    assert isinstance(made, MadeCall)
    return CATALOG.request(made.under(key))


def keys(kept: list[KeptKey] | None = None) -> Keys:
    return Keys(CATALOG, 100, kept or [])


def begun(of: Keys, wanted: Request, client: str = "c", at_us: int = 0) -> Logged:
    """The first call under a key, in the log for good."""
    assert of.is_new(wanted, at_us)
    call = Logged(Origin(client, 4, -1), wanted, at_us)
    of.logged(call)
    of.written(call)
    return call


REPLY = Reply("c", 4, b"\x07", None, None, 3)


def test_others_wait_for_the_first_one_and_get_its_reply() -> None:
    some = keys()
    wanted = request(Shop("a").sell("x"))
    begun(some, wanted)
    assert not some.is_new(wanted, 1)
    assert some.reply(Origin("d", 9, -1), wanted) is None
    assert some.reply(Origin("d", 9, -1), wanted) is None
    assert some.replied(wanted, REPLY) == [Reply("d", 9, b"\x07", None, None, 3)]
    assert some.reply(Origin("e", 1, 0), wanted) == Reply("e", 1, b"\x07", None, None, 3)


def test_equal_calls_are_those_with_equal_arguments_however_they_are_written() -> None:
    some = keys()
    begun(some, request(Shop("a").sell("x", tags={"red", "green", "blue"})))
    assert not some.is_new(request(Shop("a").sell(tags={"blue", "green", "red"}, count=1, what="x")), 1)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: Shop("b").sell("x"), "it was Shop/a.sell, and this is Shop/b.sell"),
        (lambda: Shop("a").sell("y"), "it was Shop/a.sell with other arguments"),
    ],
)
def test_another_call_under_a_key_is_refused_when_the_first_one_cannot_be_lost(other: Any, text: str) -> None:
    some = keys()
    wanted = request(Shop("a").sell("x"))
    some.logged(Logged(Origin("c", 4, -1), wanted, 0))
    assert not some.is_new(request(other()), 1)
    assert some.reply(Origin("d", 1, 0), request(other())) is None
    some.written(Logged(Origin("c", 4, -1), wanted, 0))
    with pytest.raises(UserError, match=f"another call has the idempotency key 'order-7': {text}"):
        some.is_new(request(other()), 1)
    assert some.replied(wanted, REPLY) == [], "who was another call does not wait"


def test_a_key_is_kept_for_its_time_and_as_long_as_its_call_is_open() -> None:
    some = keys()
    wanted = request(Shop("a").sell("x"))
    begun(some, wanted, at_us=50)
    assert not some.is_new(wanted, 1_000)
    some.replied(wanted, REPLY)
    assert not some.is_new(wanted, 149)
    assert some.is_new(wanted, 150)
    assert len(some) == 0


def test_the_reply_of_an_earlier_call_under_a_key_is_not_that_of_a_later_one() -> None:
    """A replay has both calls in its log, before either is run."""
    some = keys()
    wanted = request(Shop("a").sell("x"))
    some.logged(Logged(Origin("c", 4, -1), wanted, 0))
    some.logged(Logged(Origin("d", 8, -1), wanted, 200))
    some.replied(wanted, REPLY)
    assert some.reply(Origin("e", 1, 0), wanted) is None
    assert some.replied(wanted, Reply("d", 8, b"\x08", None)) == [Reply("e", 1, b"\x08", None)]


def test_a_snapshot_has_what_has_changed_and_comes_back() -> None:
    some = keys()
    one, other = request(Shop("a").sell("x"), "1"), request(Shop("a").sell("x"), "2")
    begun(some, one)
    assert [each.key for each in some.kept(False, 1)] == ["1"]
    begun(some, other)
    assert [each.key for each in some.kept(False, 2)] == ["2"]
    assert some.kept(False, 3) == []
    some.replied(one, REPLY)
    assert [each.reply for each in some.kept(False, 4)] == [REPLY]
    whole = some.kept(True, 5)
    again = keys(whole)
    assert again.kept(True, 5) == whole
    assert again.reply(Origin("e", 1, 0), one) == Reply("e", 1, b"\x07", None, None, 3)
    assert again.kept(True, 300) == [each for each in whole if each.key == "2"], "that call is still open"


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "KEYS_MAX", 1)
    some = keys()
    wanted = request(Shop("a").sell("x"), "1")
    begun(some, wanted)
    some.replied(wanted, REPLY)
    with pytest.raises(UserError, match="there are too many idempotency keys"):
        some.is_new(request(Shop("a").sell("x"), "2"), 99)
    assert some.is_new(request(Shop("a").sell("x"), "2"), 100), "the first one is not needed any more"


@pytest.mark.parametrize("key", ["", "x" * 256, "two\nlines", 7])
def test_a_wrong_key_is_refused_where_the_call_is_made(key: Any) -> None:
    with pytest.raises(UserError, match="this is not an idempotency key"):
        request(Shop("a").sell("x"), key)


def test_what_only_reads_takes_no_key() -> None:
    with pytest.raises(UserError, match=r"Shop\.look takes no idempotency key"):
        request(Shop("a").look())


def test_the_worker_of_a_call_is_that_of_its_key() -> None:
    placement = Placement(3)
    workers = {CATALOG.worker_of(request(Shop(entity).sell("x"), "order-7"), placement) for entity in "abcdefgh"}
    assert len(workers) == 1
    without = {CATALOG.worker_of(request(Shop(entity).sell("x"), None), placement) for entity in "abcdefgh"}
    assert without == {placement.worker_of(EntityName("Shop", entity)) for entity in "abcdefgh"} == {1, 2, 3}
