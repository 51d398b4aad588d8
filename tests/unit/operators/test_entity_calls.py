"""Rows that call entities, one function at a time: what may be called when, what is remembered, what goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from stretto.actors.address import Attempt
from stretto.actors.calling import EntityAnswer, EntityCall
from stretto.actors.context import Context
from stretto.actors.critical import Watermark
from stretto.operators import calling
from stretto.operators.calling import Called, EntityCalls
from stretto.operators.replying import Replies

SCHEMA = pa.schema([("who", pa.string()), ("amount", pa.int64())])
REPLIED = pa.schema([*SCHEMA, ("reply", pa.int64()), ("reply_error", pa.string()), ("reply_error_text", pa.string())])


class Caller:
    """A function in a context, as an instance has it."""

    def __init__(self, durable: bool = True, only_reads: bool = False, partition: int = 0) -> None:
        called = Called("Account", "deposit", 0, (("amount", 1),), only_reads)
        self.function = EntityCalls(called, SCHEMA, Replies(REPLIED, pa.int64()))
        self.ctx = Context("bank", "calls", partition, 1, {"out": REPLIED})
        self.ctx.attempt = Attempt("a", 1, 1) if durable else None
        self.function.open(self.ctx)

    def rows(self, *rows: tuple[str | None, int]) -> list[EntityCall]:
        batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
        self.function.process(batch, self.ctx)
        return self.proceed()

    def proceed(self) -> list[EntityCall]:
        self.function.proceed(self.ctx)
        return self.function.take_calls()

    def complete(self, checkpoint: int) -> list[EntityCall]:
        self.function.seal(checkpoint)
        self.function.publish(checkpoint)
        return self.proceed()

    def answer(self, call: EntityCall, value: int) -> list[EntityCall]:
        self.function.answer([EntityAnswer(call.client, call.number, msgspec.msgpack.encode(value))])
        return self.proceed()

    def sent(self) -> list[Any]:
        found: list[Any] = []
        for _, payload in self.ctx.sent:
            found += (
                [payload.time_us]
                if isinstance(payload, Watermark)
                else map(tuple, map(dict.values, payload.to_pylist()))
            )
        self.ctx.sent = []
        return found


def test_a_row_is_called_when_a_complete_checkpoint_has_it() -> None:
    caller = Caller()
    assert caller.rows(("ann", 1), ("bob", 2)) == []
    caller.function.seal(1)
    assert caller.rows(("cid", 3)) == []
    caller.function.publish(1)
    first, second = caller.proceed()
    assert (first.key, first.method, msgspec.msgpack.decode(first.arguments)) == ("ann", "deposit", {"amount": 1})
    assert first.client == second.client
    assert (first.number, second.number) == (0, 1)
    assert [call.key for call in caller.complete(2)] == ["cid"]


def test_without_checkpoints_and_for_looks_rows_are_called_at_once() -> None:
    assert len(Caller(durable=False).rows(("ann", 1))) == 1
    (look,) = Caller(only_reads=True).rows(("ann", 1))
    assert look.only_reads


def test_replies_and_watermarks_keep_the_order_of_the_rows() -> None:
    caller = Caller(durable=False)
    one, two = caller.rows(("ann", 1), ("bob", 2))
    caller.function.on_watermark(10, caller.ctx)
    (three,) = caller.rows(("cid", 3))
    caller.answer(three, 33)
    caller.answer(two, 22)
    assert caller.sent() == []
    caller.answer(one, 11)
    assert caller.sent() == [("ann", 1, 11, None, None), ("bob", 2, 22, None, None), 10, ("cid", 3, 33, None, None)]
    assert caller.function.sent_watermark_us == 10


def test_an_abort_and_a_row_without_a_key_have_errors() -> None:
    caller = Caller(durable=False)
    (one,) = caller.rows(("ann", 1), (None, 2))
    caller.function.answer([EntityAnswer(one.client, one.number, None, "NotEnough", "ann has 0")])
    caller.proceed()
    aborted, keyless = caller.sent()
    assert aborted == ("ann", 1, None, "NotEnough", "ann has 0")
    assert keyless[2:4] == (None, "UserError")
    assert "null" in keyless[4]


def test_a_result_beyond_its_column_is_an_error_of_its_row() -> None:
    caller = Caller(durable=False)
    one, two = caller.rows(("ann", 1), ("bob", 2))
    caller.answer(one, 2**63)
    caller.answer(two, 5)
    first, second = caller.sent()
    assert first[2:4] == (None, "OverflowError")
    assert second == ("bob", 2, 5, None, None)


def test_what_is_remembered_is_called_again_by_the_same_names() -> None:
    caller = Caller()
    caller.rows(("ann", 1), ("bob", 2))
    caller.rows(("cid", 3))
    calls = caller.complete(1)
    caller.answer(calls[0], 11)
    caller.function.on_watermark(7, caller.ctx)
    caller.function.seal(2)
    remembered = caller.function.remember()

    other = Caller()
    other.function.recall(remembered)
    other.function.call_again()
    again = other.proceed()  # Checkpoint 1 is known to be complete, and had them.
    assert again == calls[1:]
    other.function.publish(2)
    assert other.proceed() == []
    for call in again:
        other.answer(call, 5)
    assert other.sent() == [("bob", 2, 5, None, None), ("cid", 3, 5, None, None), 7]
    other.rows(("dan", 4))
    (new,) = other.complete(3)
    assert (new.client, new.number) == (calls[0].client, 3)


def test_replies_are_settled_by_the_checkpoint_that_is_behind_them() -> None:
    caller = Caller()
    caller.rows(("ann", 1), ("bob", 2))
    one, two = caller.complete(1)
    caller.answer(one, 1)
    caller.answer(two, 2)
    assert caller.function.take_settled() == {one.client: -1}  # At the mark, nothing had gone on.
    assert not caller.function.is_done
    caller.function.seal(2)
    assert caller.function.take_settled() == {}
    caller.function.publish(2)
    assert caller.function.take_settled() == {one.client: 1}
    assert caller.function.is_done


def test_without_checkpoints_replies_are_settled_when_their_rows_have_gone_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "AHEAD_MAX", 2)
    caller = Caller(durable=False)
    calls = caller.rows(*[("ann", number) for number in range(3)])
    calls += caller.answer(calls[0], 1)
    assert caller.function.take_settled() == {}
    caller.answer(calls[1], 1)
    assert caller.function.take_settled() == {calls[0].client: 1}
    caller.answer(calls[2], 1)
    assert caller.function.take_settled() == {calls[0].client: 2}, "nothing is left"
    assert caller.function.take_settled() == {}


def test_another_number_of_partitions_keeps_names_and_begins_new_ones() -> None:
    formers = [Caller(partition=partition) for partition in range(2)]
    for number, each in enumerate(formers):
        each.rows(("ann", number))
        each.function.on_watermark(10 + number, each.ctx)
        each.function.seal(1)
    remembered = {partition: each.function.remember() for partition, each in enumerate(formers)}
    one = Caller()
    one.function.recall(one.function.regroup(remembered, 1))
    one.function.publish(1)
    calls = one.proceed()
    assert len({call.client for call in calls}) == 2
    assert {call.number for call in calls} == {0}
    for call in calls:
        one.answer(call, 1)
    assert one.sent()[-1] == 10  # The watermark of the slower one.
    one.rows(("bob", 1))
    (new,) = one.complete(2)
    assert new.number == 0
    assert new.client not in {call.client for call in calls}


def test_calls_under_way_and_rows_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "AHEAD_MAX", 2)
    monkeypatch.setattr(calling, "WAITING_MAX", 3)
    caller = Caller(durable=False)
    one, two = caller.rows(*[("ann", number) for number in range(4)])
    assert caller.function.is_full
    assert caller.answer(two, 1) == []  # It has not gone on, as the first is missing.
    assert len(caller.answer(one, 1)) == 2
    assert not caller.function.is_full


def test_rows_of_another_schema_are_refused() -> None:
    caller = Caller()
    caller.rows(("ann", 1))
    caller.function.seal(1)
    remembered = list(caller.function.remember())
    client, first, sealed, _ = remembered[-1][0]
    remembered[-1] = [(client, first, sealed, pa.table({"x": [1]}))]
    with pytest.raises(ValueError, match="schema"):
        Caller().function.recall(remembered)
