"""Values of every type on their way from a column to a parameter, and from a result to a column."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
import pytest

from stretto import Entity
from stretto.actors.calling import EntityAnswer, EntityCall
from stretto.actors.context import Context
from stretto.api.entity_types import column_of, fits
from stretto.operators.calling import Called, EntityCalls
from stretto.operators.replying import Replies
from stretto.transactions.kinds import Method

NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


class Echo(Entity):
    async def boolean(self, value: bool) -> bool: ...  # type: ignore[empty-body]
    async def number(self, value: int) -> int: ...  # type: ignore[empty-body]
    async def real(self, value: float) -> float: ...  # type: ignore[empty-body]
    async def text(self, value: str | None) -> str | None: ...
    async def data(self, value: bytes) -> bytes: ...  # type: ignore[empty-body]
    async def exact(self, value: Decimal) -> Decimal: ...  # type: ignore[empty-body]
    async def moment(self, value: datetime.datetime) -> datetime.datetime: ...  # type: ignore[empty-body]
    async def day(self, value: datetime.date) -> datetime.date: ...  # type: ignore[empty-body]
    async def moments(self, value: list[datetime.date]) -> list[datetime.date]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "kind", "value"),
    [
        (Echo.boolean, pa.bool_(), True),
        (Echo.number, pa.int16(), -7),
        (Echo.number, pa.int64(), 2**63 - 1),
        (Echo.real, pa.float64(), 0.1),
        (Echo.real, pa.int32(), 3),
        (Echo.text, pa.string(), "ann"),
        (Echo.text, pa.string(), None),
        (Echo.data, pa.binary(), b"\x00\xff"),
        (Echo.exact, pa.decimal128(10, 2), Decimal("12.50")),
        (Echo.exact, pa.int64(), 12),
        (Echo.moment, pa.timestamp("us", tz="UTC"), NOON),
        (Echo.day, pa.date32(), NOON.date()),
        (Echo.moments, pa.list_(pa.date32()), [NOON.date()]),
    ],
)
def test_a_value_comes_back_as_it_went(function: Any, kind: pa.DataType, value: Any) -> None:
    method = Method("Echo", function)
    hint = get_type_hints(function)["value"]
    assert fits(hint, kind)
    result = column_of(hint)
    schema = pa.schema([("key", pa.string()), ("value", kind)])
    replied = pa.schema([*schema, ("reply", result), ("reply_error", pa.string()), ("reply_error_text", pa.string())])
    called = Called("Echo", method.name, 0, (("value", 1),))
    calls = EntityCalls(called, schema, Replies(replied, result))
    ctx = Context("app", "calls", 0, 1, {"out": replied})
    calls.open(ctx)
    calls.process(pa.RecordBatch.from_pylist([{"key": "k", "value": value}], schema=schema), ctx)
    calls.proceed(ctx)
    (call,) = calls.take_calls()
    assert isinstance(call, EntityCall)
    arrived = method.decode(call.arguments)["value"]
    assert arrived == value
    calls.answer([EntityAnswer(call.client, call.number, method.encode_result(arrived))])
    calls.proceed(ctx)
    (row,) = ctx.sent[0][1].to_pylist()
    assert row["reply"] == value
    assert row["reply_error"] is None


def test_a_time_without_a_zone_is_that_of_utc_in_a_reply() -> None:
    schema = pa.schema([("key", pa.string())])
    kind = pa.timestamp("us", tz="UTC")
    replies = Replies(pa.schema([*schema, ("reply", kind), ("e", pa.string()), ("t", pa.string())]), kind)
    batch = pa.RecordBatch.from_pylist([{"key": "k"}], schema=schema)
    answer = EntityAnswer("c", 0, msgspec.msgpack.encode(NOON.replace(tzinfo=None)))
    assert replies.rows(batch, [answer]).to_pylist()[0]["reply"] == NOON
