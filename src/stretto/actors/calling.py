"""Functions that call entities: what they have called and have no answer to is theirs, and all else follows behind it.

Such a function gives calls, which the worker carries (`worker/calling.py`), and gets answers by an errand. Watermarks
and the end wait for the rows before them, so the function sends the watermarks itself, and it is finished when it says
so. It seals at marks and is told of complete checkpoints, as sinks are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from stretto.actors.function import EVENT_TIME_MIN_US, Function
from stretto.actors.work import Bequeath, Errand, Open, Outcome, Work

if TYPE_CHECKING:
    from stretto.actors.context import Context
    from stretto.actors.instance import Instance


class EntityCall(NamedTuple):
    """A call of an entity, named by the client and its number. The arguments are msgpack."""

    client: str
    number: int
    kind: str
    key: str
    method: str
    arguments: bytes
    only_reads: bool


class EntityAnswer(NamedTuple):
    """The answer to a call: its value as msgpack, or the class and the text of the error that aborted it."""

    client: str
    number: int
    value: bytes | None
    error: str | None = None
    text: str | None = None


class CallingFunction(Function):
    """A function that calls entities."""

    sent_watermark_us: int = EVENT_TIME_MIN_US
    """The last watermark that it has sent."""

    @property
    def sequential_because(self) -> str | None:
        return "it calls entities"

    @property
    def order_matters(self) -> bool:
        return False

    def answer(self, answers: list[EntityAnswer]) -> None:
        """Called with answers; also with some that it has had."""
        raise NotImplementedError

    def proceed(self, ctx: Context) -> int | None:
        """Makes the calls that may be made now, and sends on what can be sent. Returns when the last event of that had
        arrived; None if nothing was sent."""
        raise NotImplementedError

    def call_again(self) -> None:
        """Whoever carries its calls is another one now, and has none of them."""
        raise NotImplementedError

    def take_calls(self) -> list[EntityCall]:
        """Returns the calls that were made since the last time."""
        raise NotImplementedError

    def take_settled(self) -> dict[str, int]:
        """Returns up to which number the replies of each client can be forgotten, if that has changed."""
        raise NotImplementedError

    @property
    def is_full(self) -> bool:
        """Whether it should get no more rows now."""
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """Whether nothing of the rows so far is left to do."""
        raise NotImplementedError


class Answering(Errand):
    """Answers to calls have come."""

    __slots__ = ("answers",)

    def __init__(self, answers: list[EntityAnswer]) -> None:
        self.answers = answers


class CallAgain(Errand):
    """An attempt of the job has started: all that may be called and is not answered is called."""

    __slots__ = ()


CALL_AGAIN = CallAgain()


def answered(instance: Instance, errand: Answering, now_ns: int) -> Outcome:
    instance.function.answer(errand.answers)
    return Outcome(now_ns)


def called_again(instance: Instance, errand: CallAgain, now_ns: int) -> Outcome:
    instance.function.call_again()
    return Outcome(now_ns)


def after_run(instance: Instance, work: Work, outcome: Outcome) -> None:
    """Goes on after any run but those that must send nothing, or nothing more: a mark is the last that is sent before
    what follows it, and at that of a handover everything stops."""
    if isinstance(work, Open | Bequeath) or outcome.passed or outcome.snapshot is not None or instance.finished:
        return
    arrived_ns = instance.function.proceed(instance.ctx)
    if arrived_ns is not None:
        outcome.arrived_ns = arrived_ns
    instance.collect(outcome)
    if instance.inputs_ended and instance.function.is_done:
        instance.finish(outcome)


APPLIES: dict[type[Errand], Callable[[Any, Any, int], Outcome]] = {Answering: answered, CallAgain: called_again}
