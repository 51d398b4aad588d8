"""What an instance of an elastic executor does: the home routes rows, owners give and take shards, tasks run barriers.

The worker decides when (`worker/elastic/`). Each task runs a barrier on the keys of its own shards, so no state has to
come home; the critical messages themselves are sent on by the home alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors import marking
from stretto.actors.channel import InChannel, Message
from stretto.actors.context import Clock
from stretto.actors.critical import EndOfInput, Mark, UserCritical, Watermark
from stretto.actors.dividing import ShardKeys
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.partitioning import divided, hash_columns
from stretto.actors.shards import SHARDS, shards_within
from stretto.actors.work import Errand, Outcome
from stretto.errors import FunctionError
from stretto.state.kinds import key_columns
from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance

SAMPLE_EVERY = 16
"""While all shards are at home, the rows of one batch in so many are counted by shard."""
SAMPLE_EVERY_NS = 20_000_000
"""A batch is counted too if none was for so long: where runs are long, counting costs little beside them."""


class Route(Errand):
    """The home divides a message among the owners of its shards."""

    __slots__ = ("message", "routes", "version")

    def __init__(self, message: Message, routes: npt.NDArray[np.uint8], version: int) -> None:
        self.message = message
        self.routes = routes
        self.version = version


class GiveShards(Errand):
    """An owner gives the state of shards away."""

    __slots__ = ("move", "shards", "target")

    def __init__(self, move: int, shards: tuple[int, ...], target: str) -> None:
        self.move = move
        self.shards = shards
        self.target = target


class TakeShards(Errand):
    """The new owner of shards takes their state in."""

    __slots__ = ("move", "states")

    def __init__(self, move: int, states: bytes) -> None:
        self.move = move
        self.states = states


class Advance(msgspec.Struct, frozen=True, tag="a", array_like=True):
    """A step of a barrier: event time advances."""

    watermark_us: int


class Call(msgspec.Struct, frozen=True, tag="c", array_like=True):
    """A step of a barrier: a critical message of the user's own."""

    name: str
    payload: Any
    input: str


class Finish(msgspec.Struct, frozen=True, tag="f", array_like=True):
    """A step of a barrier: all inputs have ended."""


class Snap(msgspec.Struct, frozen=True, tag="s", array_like=True):
    """A step of a barrier: the mark of a checkpoint, or of a handover."""

    checkpoint: int
    handover: bool = False


Step = Advance | Call | Finish | Snap


class TaskBarrier(Errand):
    """A task's part of a barrier: the steps that its home runs too, on the keys of its own shards."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps


class ShardRows:
    """How many rows each shard had, counted for all batches or for a sample."""

    __slots__ = ("_keys", "_sampled_ns", "_skipped", "_skipped_rows", "row_bytes", "rows")

    def __init__(self, keys: dict[str, pa.Schema]) -> None:
        self._keys = {name: tuple(schema.names) for name, schema in keys.items()}
        self._skipped = self._skipped_rows = 0
        self._sampled_ns = 0
        self.rows: npt.NDArray[np.int64] = np.zeros(SHARDS, np.int64)
        self.row_bytes = 0.0

    def sample(self, batch: pa.RecordBatch, input_name: str, now_ns: int) -> None:
        """Counts a batch, if it is its turn, for those that are not counted."""
        self._skipped += 1
        self._skipped_rows += batch.num_rows
        is_due = self._skipped >= SAMPLE_EVERY or now_ns - self._sampled_ns >= SAMPLE_EVERY_NS
        if not is_due or not batch.num_rows:
            return
        stands_for, remainder = divmod(self._skipped_rows, batch.num_rows)
        self._weigh(batch)
        self._sampled_ns, self._skipped_rows = now_ns, remainder
        self.rows += stands_for * np.bincount(self.shards(batch, input_name), minlength=SHARDS)

    def count(self, batch: pa.RecordBatch, shards: npt.NDArray[np.uint8]) -> None:
        """Counts the rows of a batch by their shards."""
        self.rows += np.bincount(shards, minlength=SHARDS)
        self._skipped += 1
        if self._skipped >= SAMPLE_EVERY:
            self._weigh(batch)

    def _weigh(self, batch: pa.RecordBatch) -> None:
        self._skipped = 0
        self.row_bytes = batch.nbytes / max(1, batch.num_rows)

    def shards(self, batch: pa.RecordBatch, input_name: str) -> npt.NDArray[np.uint8]:
        """Returns the shard of each row."""
        return shards_within(hash_columns(batch, self._keys[input_name]))


# The home.


def route(instance: Instance, errand: Route, now_ns: int) -> Outcome:
    """Divides the rows of a message by the routes of their shards; the outcome has the parts."""
    message = errand.message
    outcome = Outcome(message.arrived_ns)
    counted = instance.shard_rows
    assert counted is not None
    shards = counted.shards(message.payload, message.channel.input)
    counted.count(message.payload, shards)
    outcome.parts = divided(message.payload, errand.routes[shards])
    return outcome


def steps_of(instance: Instance, messages: list[Message]) -> tuple[Step, ...]:
    """Returns the steps of a barrier with these critical messages, for the tasks; the home runs the messages."""
    first = messages[0].payload
    if isinstance(first, Mark):
        return (Snap(first.checkpoint, first.handover),)
    if isinstance(first, UserCritical) and first.one:
        ordered = sorted(messages, key=lambda message: (message.channel.sender, message.channel.input))
        return (Call(first.name, [message.payload.payload for message in ordered], ordered[0].channel.input),)
    times_us = {channel: channel.watermark_us for channel in instance.inputs}
    ended = {channel for channel in instance.inputs if channel.ended}
    reached_us, steps = instance.watermark_us, list[Step]()
    for message in messages:
        reached_us = _add_steps(message, times_us, ended, reached_us, steps)
    return tuple(steps)


def _add_steps(
    message: Message, times_us: dict[InChannel, int], ended: set[InChannel], reached_us: int, steps: list[Step]
) -> int:
    """Adds the steps of one critical message; returns the event time after them."""
    channel, critical = message.channel, message.payload
    if isinstance(critical, UserCritical):
        steps.append(Call(critical.name, critical.payload, channel.input))
        return reached_us
    time_us = critical.time_us if isinstance(critical, Watermark) else EVENT_TIME_MAX_US
    times_us[channel] = max(times_us[channel], time_us)
    least_us = min(times_us.values())
    if least_us > reached_us:
        steps.append(Advance(least_us))
    if isinstance(critical, EndOfInput):
        ended.add(channel)
        if len(ended) == len(times_us):
            steps.append(Finish())
    return max(least_us, reached_us)


# A task.


def run_task_barrier(instance: Instance, barrier: TaskBarrier, now_ns: int) -> Outcome:
    """Runs the steps of a barrier on the keys of this task."""
    outcome = Outcome(now_ns)
    function, ctx = instance.function, instance.ctx
    for step in barrier.steps:
        match step:
            case Advance(watermark_us=watermark_us):
                instance.fire_timers(Clock.EVENT, watermark_us, outcome)
                instance.at_watermark(watermark_us)
                function.on_watermark(watermark_us, ctx)
            case Call(name=name, payload=payload, input=input_name):
                ctx.input = input_name
                function.on_critical(name, payload, ctx)
            case Finish():
                function.on_end(ctx)
            case Snap(checkpoint=number, handover=True):
                outcome.passed = number
            case Snap(checkpoint=checkpoint):
                outcome.snapshot = marking.snapshot_of(instance, checkpoint)
        # The home makes the same call and sends the critical messages, once for the whole actor.
        ctx.sent = [sent for sent in ctx.sent if sent[0] is not None]
        instance.collect(outcome)
    return outcome


# An owner.


def give(instance: Instance, errand: GiveShards, now_ns: int) -> Outcome:
    """Takes the state of shards, and their timers, out of an instance."""
    function = instance.function
    states = {name: state.give(_part(instance, name, errand)) for name, state in function.states().items()}
    timers = instance.timers.give(lambda tags: _are_given(instance, errand, tags))
    outcome = Outcome(now_ns)
    outcome.states = packed({"states": states, "timers": timers})
    return outcome


def take(instance: Instance, errand: TakeShards, now_ns: int) -> Outcome:
    """Adds the state and the timers of shards to an instance."""
    content = unpacked(errand.states)
    states = instance.function.states()
    for name, given in content["states"].items():
        states[name].receive(given)
    instance.timers.add(content["timers"])
    return Outcome(now_ns)


def _part(instance: Instance, state: str, errand: GiveShards) -> ShardKeys:
    return ShardKeys(instance.spec.keys_of(instance.function.input_of(state)), errand.shards)


def _are_given(instance: Instance, errand: GiveShards, tags: list[Any]) -> list[bool]:
    """Returns which timers belong to the shards."""
    keys = instance.spec.keys_of(None)
    columns = key_columns(map(instance.function.timer_key, tags), keys)
    given: list[bool] = ShardKeys(keys, errand.shards).mine(columns).tolist()
    return given


def after_rows(instance: Instance, message: Message) -> None:
    """Counts the rows of an elastic function that ran on a message; those that were routed have been counted."""
    if message.routed is None and instance.shard_rows is not None and not message.channel.forwards:
        instance.shard_rows.sample(message.payload, message.channel.input, instance.ctx.now_ns)
    instance.shard_sizes.measure_if_due(instance, instance.ctx.now_ns)
    refuse_critical(instance)


def refuse_critical(instance: Instance) -> None:
    """Refuses a critical message that a function sends for some of its keys."""
    if any(output is None for output, _ in instance.ctx.sent):
        raise FunctionError(
            f"function '{instance.address.function}' sent a critical message for some of its keys",
            "it is elastic, and a critical message speaks for all keys",
            "Send critical messages from on_watermark(), on_critical() or on_end(), or leave it out of elastic().",
        )


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    Route: route,
    GiveShards: give,
    TakeShards: take,
    TaskBarrier: run_task_barrier,
}
