"""What the twins of an instance do on transient workers, and what the instance does with what they give back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyarrow import RecordBatch

from stretto.actors.away import Slot
from stretto.actors.batches import packed_batch
from stretto.actors.channel import Message
from stretto.actors.work import Errand, Outcome
from stretto.errors import FunctionError

if TYPE_CHECKING:
    from stretto.actors.instance import Instance


class RunTwin(Errand):
    """A twin runs a batch of its instance. `returns` is what that gave, by the index of the channel, and `counts` what
    the function has counted."""

    __slots__ = ("counts", "message", "number", "returns")

    def __init__(self, number: int, message: Message) -> None:
        self.number = number
        self.message = message
        self.returns: list[tuple[int, bytes]] = []
        self.counts: dict[str, int] = {}


class RunHere(Errand):
    """An instance runs a batch itself, and what that gives waits for the results of earlier batches."""

    __slots__ = ("slot",)

    def __init__(self, slot: Slot) -> None:
        self.slot = slot


class GiveBack(Errand):
    """A twin gives back the state that it has built."""

    __slots__ = ("round",)

    def __init__(self, round_: int) -> None:
        self.round = round_


class TakeBack(Errand):
    """An instance merges what twins gave back."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts


class Redo(Errand):
    """An instance runs batches again whose results are sent already, and whose state was lost with a twin."""

    __slots__ = ("messages",)

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages


def run_twin(instance: Instance, errand: RunTwin, now_ns: int) -> Outcome:
    """Runs a batch. What it sends goes back to the instance, which alone has channels."""
    outcome = instance.apply(errand.message, now_ns)
    refuse_critical(instance, outcome)
    errand.returns = [(out.index, packed_batch(batch)) for out, batch in outcome.sends]
    outcome.sends = []
    errand.counts, instance.ctx.counts = instance.ctx.counts, {}
    return outcome


def refuse_critical(instance: Instance, outcome: Outcome) -> None:
    """Refuses a critical message that a function sends for some of its rows."""
    if not all(isinstance(payload, RecordBatch) for _, payload in outcome.sends):
        raise FunctionError(
            f"function '{instance.address.function}' sent a critical message from process() during a burst",
            "a critical message speaks for all rows before it, and some of them are on transient workers",
            "Send critical messages from on_watermark(), on_critical() or on_end(), or keep it out of bursts.",
        )


def run_here(instance: Instance, errand: RunHere, now_ns: int) -> Outcome:
    """Runs a batch and keeps what it gave."""
    outcome = errand.slot.outcome = instance.apply(errand.slot.work, now_ns)
    return Outcome(outcome.arrived_ns, outcome.progress_us)


def give_back(instance: Instance, errand: GiveBack, now_ns: int) -> Outcome:
    """Takes the state out of a twin, which starts again from nothing."""
    outcome = Outcome(now_ns)
    outcome.states = instance.discipline.surrender(instance.function)
    return outcome


def take_back(instance: Instance, errand: TakeBack, now_ns: int) -> Outcome:
    """Merges what twins gave back."""
    for part in errand.parts:
        instance.discipline.consolidate(instance.function, part)
    return Outcome(now_ns)


def redo(instance: Instance, errand: Redo, now_ns: int) -> Outcome:
    """Runs batches again for their state alone; what they sent and counted came back with their first run."""
    counts = dict(instance.ctx.counts)
    for message in errand.messages:
        instance.apply(message, now_ns)
    instance.ctx.counts = counts
    return Outcome(now_ns)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {
    RunTwin: run_twin,
    RunHere: run_here,
    GiveBack: give_back,
    TakeBack: take_back,
    Redo: redo,
}
