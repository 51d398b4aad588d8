"""`stream.call`: what the app says of a call when it is built."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stretto import App, Entity, reads, sinks, sources
from stretto.api.entity_types import column_of, fits
from stretto.api.stream import Stream
from stretto.errors import PlanError
from stretto.expressions.types import TIMESTAMP

ROW = {"payer": "ann", "payee": "bob", "amount": 3, "price": 1.5, "tags": ["a"], "reply": 1}


class Account(Entity):
    async def transfer(self, to: str, amount: int, note: str | None = None) -> int:
        return amount

    async def key_of(self, key: str, parallelism: int) -> None: ...

    async def untold(self): ...  # type: ignore[no-untyped-def]

    async def table(self) -> dict[str, int]:
        return {}

    @reads
    async def look(self) -> list[float]:
        return []


class Base(Entity):
    async def shared(self) -> None: ...


class One(Base):
    pass


class Other(Base):
    pass


class Stranger(Entity):
    async def greet(self) -> None: ...


def payments() -> Stream:
    return App("bank", entities=[Account, One, Other]).source("payments", sources.memory([ROW]))


def test_the_rows_out_have_the_result_and_the_error() -> None:
    rows = payments().call(Account.transfer, key="payer", to="payee", amount="amount", into="left")
    added = [(field.name, field.type) for field in rows.schema][len(ROW) :]
    assert added == [("left", pa.int64()), ("left_error", pa.string()), ("left_error_text", pa.string())]
    nothing = payments().call(Account.key_of, key="payer", arguments={"key": "payee", "parallelism": "amount"})
    assert nothing.schema.names[len(ROW) :] == ["reply_error", "reply_error_text"]
    looks = payments().call(Account.look, key="amount", into="looked")
    assert looks.schema.field("looked").type == pa.list_(pa.float64())


def test_the_plan_says_when_rows_are_called() -> None:
    app = App("bank", entities=[Account])
    rows = app.source("payments", sources.memory([ROW]))
    rows = rows.call(Account.transfer, key="payer", to="payee", amount="amount", into="left", name="paid")
    rows.call(Account.look, key="payer", into="looked").sink(sinks.collect())
    text = app.explain()
    assert "paid [x1]: calls Account.transfer when a checkpoint has the row" in text
    assert "calls Account.look at once" in text
    assert "because it calls entities" in text


def transfer(**columns: Any) -> Callable[[], Any]:
    return lambda: payments().call(Account.transfer, **{"key": "payer", "to": "payee", "amount": "amount", **columns})


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        (transfer(), ("there is a column 'reply' already", "into=")),
        (transfer(into="left", amount="price"), ("'price' does not fit 'amount' of Account.transfer", "double", "int")),
        (transfer(into="left", to="nobody"), ("there is no column 'nobody' for 'to'", "payer, payee")),
        (transfer(into="left", key="price"), ("column 'price' cannot be a key", "double")),
        (transfer(into="left", sum="amount"), ("Account.transfer has no parameter 'sum'", "to, amount, note")),
        (lambda: payments().call(Account.transfer, key="payer", to="payee"), ("no column is given for 'amount'",)),
        (lambda: payments().call(Stranger.greet, key="payer"), ("no entity of the app has Stranger.greet", "Account")),
        (lambda: payments().call(Base.shared, key="payer"), ("is a method of several entities", "One, Other")),
        (lambda: payments().call(Account.untold, key="payer", into="x"), ("cannot be a column", "not said")),
        (lambda: payments().call(Account.table, key="payer", into="x"), ("cannot be a column", "dict[str, int]")),
        (
            lambda: payments().key_by("payer").aggregate("count(*) AS n").call(Account.look, key="payer"),
            ("call cannot follow", "replace"),
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong: Callable[[], Any], parts: tuple[str, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        wrong()
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "kind", "result"),
    [
        (bool, pa.bool_(), pa.bool_()),
        (int, pa.int32(), pa.int64()),
        (float, pa.int64(), pa.float64()),
        (str | None, pa.string(), pa.string()),
        (bytes, pa.binary(), pa.binary()),
        (Decimal, pa.decimal128(10, 2), pa.decimal128(38, 18)),
        (datetime.datetime, pa.timestamp("us", tz="UTC"), TIMESTAMP),
        (datetime.date, pa.date32(), pa.date32()),
        (list[int], pa.list_(pa.int64()), pa.list_(pa.int64())),
    ],
)
def test_columns_fit_what_they_can_be(annotation: Any, kind: pa.DataType, result: pa.DataType) -> None:
    assert fits(annotation, kind)
    assert fits(Any, kind)
    assert column_of(annotation) == result
    assert not fits(annotation, pa.struct([("a", pa.int64())]))
    assert not fits(list[annotation], kind)
