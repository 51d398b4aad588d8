"""What a keyed instance and its twins on transient workers run while a burst is redirected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.batches import packed_batch
from stretto.actors.channel import Message
from stretto.actors.context import Clock
from stretto.actors.partitioning import hash_columns, hash_rows
from stretto.actors.tasks import Step, TaskBarrier, run_task_barrier
from stretto.actors.timers import Timers
from stretto.actors.twins import refuse_critical
from stretto.actors.work import Errand, Outcome
from stretto.state.kinds import key_columns
from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.actors.instance import Instance

Hashes = npt.NDArray[np.uint64]


class Whole:
    """A message whose rows go several ways. It is settled when all of them have run."""

    __slots__ = ("left", "message")

    def __init__(self, message: Message, left: int) -> None:
        self.message = message
        self.left = left


class Entry:
    """What a twin is sent: rows of a message, or the steps of a barrier. It is `done` once its results are here."""

    __slots__ = ("done", "number", "watermark_us", "whole", "work")

    def __init__(self, work: Message | tuple[Step, ...], whole: Whole | None, watermark_us: int) -> None:
        self.work = work
        self.whole = whole
        self.watermark_us = watermark_us
        self.number = 0
        self.done = False


class Survey(Errand):
    """An instance finds out which keys it has state of. `hashes` are theirs."""

    __slots__ = ("hashes", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.hashes: list[Hashes] = []


class Divide(Errand):
    """An instance finds out where the rows of a message belong: `hashes` are those of their keys."""

    __slots__ = ("hashes", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.hashes: Hashes = np.empty(0, np.uint64)


class RunPart(Errand):
    """An instance runs those rows of a message that belong here."""

    __slots__ = ("message", "whole")

    def __init__(self, message: Message, whole: Whole) -> None:
        self.message = message
        self.whole = whole


class Rebuild(Errand):
    """An instance runs again what a lost twin had, from its first state on, and sends what had not come back. If the
    twin has `stepped`, the work that is held does not concern its keys any more."""

    __slots__ = ("base", "entries", "stepped")

    def __init__(self, base: bytes, entries: list[Entry], stepped: bool) -> None:
        self.base = base
        self.entries = entries
        self.stepped = stepped


class TakeKeys(Errand):
    """An instance takes in keys that a twin had, with their state and timers. If it `begins` with them, it forgets what
    it had."""

    __slots__ = ("begins", "states")

    def __init__(self, states: bytes, begins: bool = False) -> None:
        self.states = states
        self.begins = begins


class GiveKeys(Errand):
    """A twin gives back all that it has, or a copy of it."""

    __slots__ = ("copy", "round")

    def __init__(self, round_: int, copy: bool) -> None:
        self.round = round_
        self.copy = copy


class Elsewhere(Errand):
    """Something of an instance has run on a transient worker."""

    __slots__ = ()


ELSEWHERE = Elsewhere()


class RunTwinSteps(Errand):
    """A twin runs the steps of a barrier on its keys; `returns` is what that gave, by the index of the channel."""

    __slots__ = ("counts", "number", "returns", "steps")

    def __init__(self, number: int, steps: tuple[Step, ...]) -> None:
        self.number = number
        self.steps = steps
        self.returns: list[tuple[int, bytes]] = []
        self.counts: dict[str, int] = {}


# At home.


def survey(instance: Instance, errand: Survey, now_ns: int) -> Outcome:
    """Finds the keys that an instance has state or timers of; the outcome has what a twin without keys begins with."""
    function = instance.function
    empty: dict[str, Any] = {}
    for name, state in function.states().items():
        keys = instance.spec.keys_of(function.input_of(name))
        surveyed = state.survey(keys)
        empty[name] = surveyed.empty
        errand.hashes += [_hashes(columns, keys) for columns in surveyed.columns]
    pending = instance.timers.pending()
    tags = [tag for timers in pending.values() for _, tag in timers]
    if tags:
        keys = instance.spec.keys_of(None)
        errand.hashes.append(_hashes(key_columns(map(function.timer_key, tags), keys), keys))
    outcome = Outcome(now_ns)
    outcome.states = packed({"states": empty, "timers": dict.fromkeys(pending, ())})
    return outcome


def divide(instance: Instance, errand: Divide, now_ns: int) -> Outcome:
    """Hashes the keys of the rows of a message."""
    message = errand.message
    errand.hashes = hash_columns(message.payload, instance.spec.partitioned_by[message.channel.input].names)
    return Outcome(message.arrived_ns)


def run_part(instance: Instance, errand: RunPart, now_ns: int) -> Outcome:
    """Runs rows of a message."""
    outcome = instance.apply(errand.message, now_ns)
    refuse_critical(instance, outcome)
    return outcome


def rebuild(instance: Instance, errand: Rebuild, now_ns: int) -> Outcome:
    """Does what a lost twin did, in an instance of its own: event time was another then. The outcome has the state."""
    outcome = Outcome(now_ns)
    twin = type(instance)(instance.address, instance.spec, is_source=False, is_sink=False)
    twin.outs, twin.outputs = instance.outs, instance.outputs
    twin.ctx.attempt = instance.ctx.attempt
    twin.function.open(twin.ctx)
    twin.ctx.timers_set, twin.ctx.timers_cancelled = [], []
    begin(twin, errand.base)
    for entry in errand.entries:
        work = entry.work
        twin.ctx.counts = {}
        if isinstance(work, Message):
            twin.at_watermark(entry.watermark_us)
            gave = twin.apply(work, now_ns)
        else:
            gave = run_task_barrier(twin, TaskBarrier(work), now_ns)
        if not entry.done:
            outcome.sends += gave.sends
            outcome.rows_in += gave.rows_in
            for name, count in twin.ctx.counts.items():
                instance.ctx.count(name, count)
    outcome.states = exported_keys(twin)
    twin.close()
    return outcome


def take_keys(instance: Instance, errand: TakeKeys, now_ns: int) -> Outcome:
    """Adds keys that another instance had."""
    if errand.begins:
        begin(instance, errand.states)
    else:
        _receive(instance, errand.states)
    return Outcome(now_ns)


# A twin.


def run_twin_steps(instance: Instance, errand: RunTwinSteps, now_ns: int) -> Outcome:
    """Runs the steps of a barrier. What they send goes back to the instance, which alone has channels."""
    outcome = run_task_barrier(instance, TaskBarrier(errand.steps), now_ns)
    errand.returns = [(out.index, packed_batch(batch)) for out, batch in outcome.sends]
    outcome.sends = []
    errand.counts, instance.ctx.counts = instance.ctx.counts, {}
    return outcome


def give_keys(instance: Instance, errand: GiveKeys, now_ns: int) -> Outcome:
    """Returns all that a twin has, and lets it go unless a copy was asked for."""
    outcome = Outcome(now_ns)
    outcome.states = exported_keys(instance)
    if not errand.copy:
        instance.function.bind_states()
        instance.timers = Timers()
    return outcome


def begin(instance: Instance, states: bytes) -> None:
    """Has a twin begin with these states and nothing else."""
    instance.function.bind_states()
    instance.timers = Timers()
    _receive(instance, states)


def exported_keys(instance: Instance) -> bytes:
    """Returns the states and timers of all keys of an instance."""
    states = {name: state.export() for name, state in instance.function.states().items()}
    return packed({"states": states, "timers": instance.timers.pending()})


def next_timer_ns(instance: Instance) -> int | None:
    """Returns when a twin's next timer on the clock is due; it fires at home."""
    return instance.timers.next_due(Clock.PROCESSING)


def _receive(instance: Instance, data: bytes) -> None:
    content = unpacked(data)
    states = instance.function.states()
    for name, given in content["states"].items():
        theirs = states[name].fresh()
        theirs.restore(given)
        states[name].take_in(theirs)
    instance.timers.add(content["timers"])


def _hashes(columns: Any, keys: pa.Schema) -> Hashes:
    return hash_rows([columns[name] for name in keys.names])


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    Survey: survey,
    Divide: divide,
    RunPart: run_part,
    Rebuild: rebuild,
    TakeKeys: take_keys,
    GiveKeys: give_keys,
    RunTwinSteps: run_twin_steps,
}
