"""An instance takes over from one of another attempt: by content, divided or whole, or the function as it is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import InChannel
from stretto.actors.context import Clock, Context
from stretto.actors.deployment import FunctionSpec, Stage
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.seat import Seat
from stretto.actors.snapshot import Origin
from stretto.actors.work import BEQUEATH, OPEN
from stretto.state import MapState

SCHEMA = pa.schema([("k", pa.int64())])
KEYS = range(40)


class Counts(Function):
    """Counts rows by key, with a timer for each, and says how often it was opened and closed."""

    def __init__(self) -> None:
        self.counts: Any = MapState()
        self.opened = 0
        self.closed = 0

    def open(self, ctx: Context) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed += 1

    def timer_key(self, tag: Any) -> Any:
        return tag


def made(attempt: str, partition: int, parallelism: int) -> Instance:
    spec = FunctionSpec("f", Counts(), parallelism, {"out": Stage("f", SCHEMA)})
    spec.partitioned_by = {"in": SCHEMA}
    instance = Instance(Address(attempt, "f", partition), spec, is_source=False, is_sink=False)
    seat = Seat(instance)
    instance.inputs.append(InChannel(Address(attempt, "up", 0), seat, "in"))
    return instance


def running() -> Instance:
    """Returns an instance of the old attempt that has counted all keys."""
    instance = made("job", 0, 1)
    instance.apply(OPEN, 0)
    for k in KEYS:
        instance.function.counts[k] = k
        instance.ctx.set_timer(100 + k, k, Clock.EVENT)
    instance.timers.take_from(instance.ctx)
    instance.at_watermark(70)
    instance.inputs[0].watermark_us = 70
    return instance


def test_content_is_divided_among_the_followers_and_the_giver_keeps_it() -> None:
    before = running()
    given = before.apply(BEQUEATH, 0).states
    assert given is not None
    found: dict[int, int] = {}
    timers: list[int] = []
    for partition in range(3):
        follower = made("job~2", partition, 3)
        channels = {("up", 0): (70, False)}
        leads = frozenset({0}) if partition == 0 else frozenset[int]()
        follower.origin = Origin(1, {}, False, False, 1, None, leads, channels, {0: (given,)})
        follower.apply(OPEN, 0)
        assert follower.watermark_us == 70
        part = dict(follower.function.counts.items())
        assert part, "each has some keys"
        assert not found.keys() & part.keys()
        found |= part
        timers += [tag for _, tag in follower.timers.pending()[Clock.EVENT.value]]
    assert found == {k: k for k in KEYS}
    assert sorted(timers) == list(KEYS)
    assert dict(before.function.counts.items()) == found, "it can go on if the handover is called off"


def adopted(before: Instance) -> Instance:
    follower = made("job~2", 0, 1)
    follower.origin = Origin(1, {}, adopts=before)
    follower.apply(OPEN, 0)
    return follower


def test_a_function_on_the_same_worker_is_taken_over_as_it_is() -> None:
    before = running()
    follower = adopted(before)
    assert follower.function is before.function
    assert follower.function.opened == 1
    assert (follower.watermark_us, follower.inputs[0].watermark_us) == (70, 70)
    assert follower.timers.pending() == before.timers.pending()


def test_it_is_closed_once_by_whoever_has_it() -> None:
    before = running()
    follower = adopted(before)
    follower.close()
    assert not before.function.closed, "the handover was called off"
    follower = adopted(before)
    follower.keep()
    before.close()
    assert not follower.function.closed, "it is the follower's now"
    follower.close()
    assert follower.function.closed == 1
