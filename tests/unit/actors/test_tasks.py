"""What instances of an elastic executor do: rows by route, the steps of a barrier, shards given and taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stretto.actors.address import Address
from stretto.actors.channel import InChannel, Message
from stretto.actors.context import Clock, Context
from stretto.actors.critical import END_OF_INPUT, Mark, UserCritical, Watermark
from stretto.actors.deployment import FunctionSpec, Stage
from stretto.actors.executor import HELD, Executor, Move
from stretto.actors.function import EVENT_TIME_MAX_US, Function
from stretto.actors.instance import Instance
from stretto.actors.partitioning import divided, hash_rows
from stretto.actors.seat import Seat
from stretto.actors.shards import SHARDS, shards_within
from stretto.actors.tasks import (
    SAMPLE_EVERY_NS,
    Advance,
    Call,
    Finish,
    GiveShards,
    ShardRows,
    Snap,
    TakeShards,
    TaskBarrier,
    steps_of,
)
from stretto.errors import FunctionError
from stretto.state import MapState

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


class Counts(Function):
    """Counts rows by key, and sends what it is called for."""

    def __init__(self) -> None:
        self.counts: Any = MapState()

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for k in batch.column("k").to_pylist():
            self.counts[k] = self.counts.get(k, 0) + 1
            ctx.set_timer(100 + k, k)

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        ctx.send(rows((tag, self.counts[tag])))

    def timer_key(self, tag: Any) -> Any:
        return tag

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        ctx.send_critical("passed", watermark_us)

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        ctx.send(rows(*sorted(self.counts.items())))


class Critical(Counts):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send_critical("now")


def rows(*found: tuple[int, int]) -> pa.RecordBatch:
    columns = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(list(column)) for column in columns], schema=SCHEMA)


def instance(function: Function | None = None) -> Instance:
    spec = FunctionSpec("f", function or Counts(), 1, {"out": Stage("f", SCHEMA)}, tasks_max=3)
    spec.partitioned_by = {"in": pa.schema([SCHEMA.field("k")])}
    made = Instance(Address("job", "f", 0), spec, is_source=False, is_sink=False)
    sent: list[pa.RecordBatch] = []
    made.outputs["out"] = type("Out", (), {"emit": lambda _, batch, sends: sent.append(batch)})()  # type: ignore[assignment]
    made.sent = sent  # type: ignore[attr-defined]
    return made


def channels(made: Instance, count: int) -> list[InChannel]:
    seat = Seat(made)
    made.inputs += [InChannel(Address("job", "up", n), seat, "in") for n in range(count)]
    return made.inputs


def shard_of(key: int) -> int:
    return int(shards_within(hash_rows([pa.array([key])]))[0])


def test_rows_are_divided_by_their_routes_in_their_order() -> None:
    batch = rows((1, 1), (2, 2), (1, 3), (3, 4), (2, 5))
    parts = divided(batch, np.array([0, HELD, 0, 2, HELD], np.uint8))
    assert [(place, part.to_pylist()) for place, part in parts] == [
        (0, [{"k": 1, "n": 1}, {"k": 1, "n": 3}]),
        (2, [{"k": 3, "n": 4}]),
        (HELD, [{"k": 2, "n": 2}, {"k": 2, "n": 5}]),
    ]
    assert divided(batch, np.zeros(5, np.uint8)) == [(0, batch)]


def test_the_steps_of_a_barrier_are_what_the_home_does() -> None:
    made = instance()
    one, other = channels(made, 2)
    other.watermark_us = 50

    def message(channel: InChannel, critical: Any) -> Message:
        return Message(channel, 1, critical, 0)

    assert steps_of(made, [message(one, Watermark(40))]) == (Advance(40),)
    assert steps_of(made, [message(one, Watermark(70))]) == (Advance(50),)
    ends = [message(one, END_OF_INPUT), message(other, END_OF_INPUT)]
    assert steps_of(made, ends) == (Advance(50), Advance(EVENT_TIME_MAX_US), Finish())
    assert steps_of(made, [message(one, Mark(3)), message(other, Mark(3))]) == (Snap(3),)
    asked = [message(one, UserCritical("a", 1)), message(one, Watermark(10))]
    assert steps_of(made, asked) == (Call("a", 1, "in"), Advance(10))
    joint = [message(other, UserCritical("a", 2, True)), message(one, UserCritical("a", 1, True))]
    assert steps_of(made, joint) == (Call("a", [1, 2], "in"),)


def test_a_task_runs_a_barrier_on_its_keys_and_leaves_critical_messages_to_the_home() -> None:
    made = instance()
    (channel,) = channels(made, 1)
    made.apply(Message(channel, 1, rows((1, 0), (2, 0)), 0), 0)
    outcome = made.apply(TaskBarrier((Advance(101), Call("all", None, "in"))), 0)
    assert outcome.sends == []
    assert [batch.to_pylist() for batch in made.sent] == [  # type: ignore[attr-defined]
        [{"k": 1, "n": 1}],
        [{"k": 1, "n": 1}, {"k": 2, "n": 1}],
    ]
    assert made.watermark_us == 101


def test_shards_move_with_their_entries_and_timers() -> None:
    source, target = instance(), instance()
    (channel,) = channels(source, 1)
    source.apply(Message(channel, 1, rows(*((k, 0) for k in range(20))), 0), 0)
    shard = shard_of(7)
    gone = {k for k in range(20) if shard_of(k) == shard}
    states = source.apply(GiveShards(1, (shard,), "w1~1"), 0).states
    assert states is not None
    target.apply(TakeShards(1, states), 0)
    assert set(target.function.counts) == gone
    assert set(source.function.counts) == set(range(20)) - gone
    assert {tag for _, tag in target.timers.pending()["event"]} == gone
    assert {tag for _, tag in source.timers.pending()["event"]} == set(range(20)) - gone
    assert target.timers.next_due(Clock.EVENT) == 100 + min(gone)


def test_a_critical_message_for_some_keys_is_refused() -> None:
    made = instance(Critical())
    (channel,) = channels(made, 1)
    with pytest.raises(FunctionError, match="sent a critical message for some of its keys"):
        made.apply(Message(channel, 1, rows((1, 0)), 0), 0)


def test_an_executor_knows_owners_and_when_it_is_idle() -> None:
    executor = Executor("home")
    assert executor.is_idle
    move = Move(1, 1, (3, 5), "home", "w1")
    executor.begin(move)
    assert not executor.is_idle
    assert executor.routes[3] == HELD
    assert executor.owner(3) == "home"
    assert executor.owns_any("w1"), "it will"
    executor.end(move)
    assert executor.owner(3) == executor.owner(5) == "w1"
    owners = executor.all_owners()
    assert [shard for shard, owner in enumerate(owners) if owner == "w1"] == [3, 5]
    assert owners.count("home") == SHARDS - 2
    back = Move(2, 1, (3, 5), "w1", "home")
    executor.begin(back)
    executor.end(back)
    assert executor.is_idle
    assert not executor.owns_any("w1")


@pytest.mark.parametrize(
    ("gap_ns", "expected"), [(SAMPLE_EVERY_NS, [10, 20, 150, 160, 320]), (1_000, [0, 0, 0, 160, 320])]
)
def test_where_runs_are_long_each_batch_is_counted_and_else_one_in_sixteen(gap_ns: int, expected: list[int]) -> None:
    counted = ShardRows({"in": pa.schema([SCHEMA.field("k")])})
    sums = {0: 0}
    for number in range(1, 33):
        counted.sample(rows(*((k, k) for k in range(10))), "in", number * gap_ns + (gap_ns < SAMPLE_EVERY_NS))
        sums[number] = int(counted.rows.sum())
    assert [sums[number] for number in (1, 2, 15, 16, 32)] == expected


def test_a_sampled_batch_stands_for_the_rows_since_the_last_one() -> None:
    counted = ShardRows({"in": pa.schema([SCHEMA.field("k")])})
    for number, size in enumerate((1, 4, 100, 7), start=1):
        counted.sample(rows(*((k, k) for k in range(size))), "in", number * SAMPLE_EVERY_NS // 2)
    # The second and the fourth are counted: five rows are one time four, and the rest counts with the next.
    assert counted.rows.sum() == 4 + 7 * ((1 + 100 + 7) // 7)


def test_an_executor_learns_what_a_row_costs_and_bounds_batches_by_it() -> None:
    executor = Executor("a")
    executor.batch_rows = 1_000
    assert executor.rows_within(10_000_000) == 1_000
    executor.ran(5_000_000, 0, routed=True)
    executor.ran(7_000_000, 0, routed=False)
    assert (executor.routing_ns, executor.row_ns) == (5_000_000, 0.0)
    executor.ran(100_000_000, 100, routed=False)
    assert executor.rows_within(10_000_000) == 10
    for _ in range(40):
        executor.ran(20_000_000, 10, routed=False)
    assert executor.rows_within(10_000_000) in (4, 5)
    assert executor.rows_within(1) == 1
