"""What a worker's copies promise, case by case. The whole protocol is in `tests/simulation/test_shared_objects.py`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stretto.errors import PlanError
from stretto.sharing.cache import Cache
from stretto.sharing.contents import Act, ObjectContent, Write
from stretto.sharing.freshness import freshness

MS = 1_000_000
ALWAYS, WITHIN, WRITTEN = freshness("always"), freshness("5 ms"), freshness("until written")


def numbers(*values: int) -> ObjectContent:
    return ObjectContent("list", msgspec.msgpack.encode(list(values)))


def append(value: int) -> Write:
    return Write(Act.APPEND, msgspec.msgpack.encode(value))


def seen(cache: Cache, name: str) -> Any:
    content = cache.seen(name, cache.copy_of(name))
    return None if content is None else msgspec.msgpack.decode(content.data)


def test_a_copy_is_as_old_as_its_question() -> None:
    cache = Cache(10)
    cache.take_in("a", numbers(1), 1, asked_ns=100 * MS)
    assert cache.find("a", ALWAYS, 100 * MS) is not None
    assert cache.find("a", ALWAYS, 100 * MS + 1) is None
    assert cache.find("a", WITHIN, 105 * MS) is not None
    assert cache.find("a", WITHIN, 105 * MS + 1) is None
    assert cache.find("a", WRITTEN, 10**15) is not None


def test_until_written_a_copy_is_used_and_then_no_more() -> None:
    cache = Cache(10)
    cache.take_in("a", numbers(1), 1, 0)
    cache.wrote((0, "w"), 1, "a", append(2), WRITTEN)
    assert cache.find("a", WRITTEN, 0) is None


def test_what_was_written_here_is_seen_here_until_its_home_has_it() -> None:
    cache = Cache(10)
    cache.take_in("a", numbers(1), 1, 0)
    cache.wrote((0, "w"), 1, "a", append(2), WITHIN)
    assert seen(cache, "a") == [1, 2]
    cache.take_in("a", numbers(1, 9), 2, 1)  # The home had another write, and not ours yet.
    cache.confirm(0, {}, {"a": 2})
    assert seen(cache, "a") == [1, 9, 2]
    cache.take_in("a", numbers(1, 9, 2), 3, 2)
    cache.confirm(0, {"w": 1}, {"a": 3})
    assert seen(cache, "a") == [1, 9, 2]
    assert not cache.unconfirmed(0)


def test_a_confirmed_write_becomes_a_part_of_copies_from_before() -> None:
    cache = Cache(10)
    cache.take_in("a", numbers(1), 1, 0)
    cache.wrote((0, "w"), 7, "a", append(2), WITHIN)
    cache.confirm(0, {"w": 7}, {})
    assert seen(cache, "a") == [1, 2]
    cache.wrote((0, "w"), 7, "a", append(2), WITHIN)  # It was heard of before: it is there already.
    assert seen(cache, "a") == [1, 2]


def test_an_older_answer_changes_nothing() -> None:
    cache = Cache(10)
    cache.take_in("a", numbers(1, 2), 2, 5)
    cache.take_in("a", numbers(1), 1, 6)
    assert seen(cache, "a") == [1, 2]


def test_the_least_recently_used_copies_are_forgotten_but_those_in_use() -> None:
    cache = Cache(2)
    for name in "abc":
        cache.take_in(name, numbers(1), 1, 0)
    used = cache.find("a", WRITTEN, 0)
    assert used is not None
    cache.trim()
    assert len(cache) == 2
    assert cache.find("b", WRITTEN, 0) is None
    cache.take_in("d", numbers(1), 1, 0)
    cache.trim()
    assert cache.find("a", WRITTEN, 0) is used
    assert cache.find("c", WRITTEN, 0) is None


@pytest.mark.parametrize("text", ["", "soon", "5", "5 parsecs", "-1 s"])
def test_an_unknown_freshness_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="the freshness of shared objects is not known"):
        freshness(text)


def test_an_answer_from_before_what_is_confirmed_is_known() -> None:
    cache = Cache(10)
    cache.confirm(0, {"w": 7}, {})
    assert cache.predates(0, {"w": 6})
    assert cache.predates(0, {})
    assert not cache.predates(0, {"w": 7, "v": 1})
    assert not cache.predates(1, {})
