"""Objects and the writes that change them, against plain Python values."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from stretto.errors import FunctionError
from stretto.sharing.contents import Act, Kind, ObjectContent, Write, check_kind, written

encode = msgspec.msgpack.encode


def held(content: ObjectContent | None) -> Any:
    return None if content is None else msgspec.msgpack.decode(content.data)


def test_a_list_keeps_the_last_values() -> None:
    content, model = None, []
    chance = random.Random(1)
    for number in range(50):
        keep = chance.choice((None, None, 1, 3))
        content = written("x", content, Write(Act.APPEND, encode(number), keep=keep))
        model.append(number)
        model = model[-keep:] if keep else model
        assert held(content) == model


def test_entries_of_a_map_are_written_one_by_one() -> None:
    content: ObjectContent | None = None
    model: dict[int, str] = {}
    chance = random.Random(2)
    for number in range(100):
        key = chance.randrange(5)
        if chance.random() < 0.3:
            content = written("x", content, Write(Act.REMOVE, key=encode(key)))
            model.pop(key, None)
        else:
            content = written("x", content, Write(Act.PUT, encode(f"v{number}"), encode(key)))
            model[key] = f"v{number}"
        assert held(content) == model


def test_a_value_is_replaced_a_counter_added_to_and_both_deleted() -> None:
    value = written("x", written("x", None, Write(Act.SET, encode([1]))), Write(Act.SET, encode({"a": 2})))
    assert held(value) == {"a": 2}
    counter = written("x", written("x", None, Write(Act.ADD, encode(5))), Write(Act.ADD, encode(-7)))
    assert held(counter) == -2
    assert written("x", value, Write(Act.DELETE)) is None
    assert held(written("x", None, Write(Act.ADD, encode(1)))) == 1


def test_an_object_has_one_kind() -> None:
    counter = written("likes", None, Write(Act.ADD, encode(5)))
    with pytest.raises(FunctionError, match=r"'likes' is a counter: it was used as a list"):
        written("likes", counter, Write(Act.APPEND, encode(1)))
    with pytest.raises(FunctionError, match=r"used as a map"):
        check_kind("likes", counter, Kind.MAP)
