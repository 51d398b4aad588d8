"""Values that cannot be encoded, in fields and results: they abort their own transaction and harm nobody else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stretto import App, Entity, UserError, reads
from stretto.protocol.transactions import EntityName, Look, Origin, Request
from stretto.transactions.catalog import Catalog
from stretto.transactions.looking import looked

DEEP = 100_000


class Box(Entity):
    n: int = 0
    value: Any = None

    async def add(self, amount: int) -> int:
        self.n += amount
        return 0

    async def double(self, amount: int) -> int:
        return 2 * amount

    async def keep(self, what: str) -> None:
        self.value = _misfit(what)

    async def give(self, what: str) -> Any:
        return _misfit(what)

    async def ask(self, what: str) -> None:
        self.value = _misfit(what)
        await Box(self.key).peek("nothing")

    @reads
    async def peek(self, what: str) -> Any:
        if what != "nothing":
            self.value = _misfit(what)
        return self.n


def _misfit(what: str) -> Any:
    if what == "deep":
        value: Any = 0
        for _ in range(DEEP):
            value = [value]
        return value
    return {"large": 1 << 64, "surrogate": "\ud800", "object": object()}[what]


WHATS = ["large", "surrogate", "object", "deep"]


@pytest.mark.parametrize("what", WHATS)
def test_what_cannot_be_encoded_aborts_its_own_transaction(what: str) -> None:
    app = App("boxes", entities=[Box]).in_process()
    with pytest.raises(UserError, match="a field of Box/b has a wrong value"):
        app.call(Box("b").keep(what))
    with pytest.raises(UserError, match=r"Box\.give returned a wrong value"):
        app.call(Box("b").give(what))
    with pytest.raises(UserError, match="a field of Box/b has a wrong value"):
        app.call(Box("b").peek(what))
    with pytest.raises(UserError, match="a field of Box/b has a wrong value"):
        app.call(Box("b").ask(what))
    app.call(Box("b").add(1))
    assert app.call(Box("b").peek("nothing")) == 1


def test_a_number_that_outgrows_the_encoding_aborts() -> None:
    app = App("boxes", entities=[Box]).in_process()
    app.call(Box("b").add(1 << 63))
    with pytest.raises(UserError, match="a field of Box/b has a wrong value"):
        app.call(Box("b").add(1 << 63))
    with pytest.raises(UserError, match=r"Box\.double returned a wrong value"):
        app.call(Box("b").double(1 << 63))
    assert app.call(Box("b").peek("nothing")) == 1 << 63


def test_arguments_that_cannot_be_encoded_are_refused_where_the_call_is_made() -> None:
    for wrong in (1 << 64, "\ud800", object()):
        with pytest.raises(UserError, match=r"wrong arguments for Box\.add"):
            Box("b").add(wrong)  # type: ignore[arg-type]
    for key in ("\ud800", "a\udfff"):
        with pytest.raises(UserError, match="the key of Box has no UTF-8"):
            Box(key)
    assert Box("café 😀")


def test_arguments_and_states_that_are_too_deep_here_are_refused() -> None:
    deep = b"\x91" * DEEP + b"\x00"
    catalog = Catalog([Box])
    with pytest.raises(UserError, match=r"wrong arguments for Box\.peek"):
        catalog.checked(Request(EntityName("Box", "b"), "peek", b"\x81\xa4what" + deep))
    arguments = msgspec.msgpack.encode({"what": "nothing"})
    look = Look(Origin("c", 0, -1), Request(EntityName("Box", "b"), "peek", arguments), 0)
    reply = looked(catalog, {EntityName("Box", "b"): b"\x81\xa5value" + deep}, look, 0, 0)
    assert reply.failure is not None
    assert "the state of Box/b does not fit its fields" in reply.failure.text
    with pytest.raises(UserError, match=r"what Box\.give returned is too deep"):
        catalog.kind("Box").method("give").decode_result(deep)
