"""The events of a simulated run, in order, for the checkers and for debugging."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.critical import EndOfInput, Granularity, Mark, UserCritical, Watermark, granularity
from stretto.actors.instance import Instance
from stretto.actors.mailbox_states import MailboxState, Role, Trigger
from stretto.actors.work import Barrier, Outcome, Work

Edge = tuple[Address, Address, str]
"""From an actor to an input of another, for all instances at both ends."""


@dataclass(frozen=True, slots=True)
class Sent:
    """An instance has sent a payload on an edge."""

    time_ns: int
    member: str
    edge: Edge
    payload: Any


@dataclass(frozen=True, slots=True)
class Began:
    """A run of one message, or of the critical messages of a barrier, has begun; `whole` if no upstream is missing."""

    time_ns: int
    member: str
    edges: tuple[Edge, ...]
    payloads: tuple[Any, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """A run has ended."""

    time_ns: int
    member: str
    edges: tuple[Edge, ...]
    payloads: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """The state of a mailbox has changed."""

    time_ns: int
    member: str
    address: Address
    role: Role
    before: MailboxState
    trigger: Trigger
    after: MailboxState


@dataclass(frozen=True, slots=True)
class Noted:
    """A critical message was processed without a barrier."""

    time_ns: int
    member: str
    edge: Edge
    payload: Any


Happening = Sent | Began | Ended | Moved | Noted


@dataclass
class History:
    """Records the runs and transitions that the simulator reports."""

    happenings: list[Happening] = field(default_factory=list)

    def began(self, time_ns: int, member: str, instance: Instance, work: Work) -> None:
        messages = _messages(work)
        if messages:
            one = granularity(messages[0].payload) is Granularity.ONE if isinstance(work, Barrier) else False
            live = sum(1 for channel in instance.inputs if not channel.ended)
            whole = not one or len(messages) == live
            self.happenings.append(Began(time_ns, member, *_what(instance, messages), whole))

    def ended(self, time_ns: int, member: str, instance: Instance, work: Work, outcome: Outcome) -> None:
        messages = _messages(work)
        if messages:
            self.happenings.append(Ended(time_ns, member, *_what(instance, messages)))
        for out, payload in outcome.sends:
            self.happenings.append(Sent(time_ns, member, (instance.address, out.receiver, out.input), payload))

    def moved(
        self,
        time_ns: int,
        member: str,
        address: Address,
        role: Role,
        before: MailboxState,
        trigger: Trigger,
        after: MailboxState,
    ) -> None:
        self.happenings.append(Moved(time_ns, member, address, role, before, trigger, after))

    def noted(self, time_ns: int, member: str, message: Message) -> None:
        channel = message.channel
        edge = (channel.sender, channel.seat.address, channel.input)
        self.happenings.append(Noted(time_ns, member, edge, message.payload))

    def log(self, last: int = 40) -> str:
        """Returns the last events as text, one line each: time, worker, event."""
        return "\n".join(map(_line, self.happenings[-last:]))


def _messages(work: Work) -> list[Message]:
    if isinstance(work, Message):
        return [work]
    return work.messages if isinstance(work, Barrier) else []


def _what(instance: Instance, messages: list[Message]) -> tuple[tuple[Edge, ...], tuple[Any, ...]]:
    edges = tuple((message.channel.sender, instance.address, message.channel.input) for message in messages)
    return edges, tuple(message.payload for message in messages)


def _line(happening: Happening) -> str:
    time = f"{happening.time_ns / 1e6:12.3f} ms  {happening.member:<10}"
    match happening:
        case Moved(address=address, role=role, before=before, trigger=trigger, after=after):
            return f"{time}  {role.value} of {_actor(address)}: {before.value} -> {after.value} ({trigger.value})"
        case Noted(edge=edge, payload=payload):
            return f"{time}  {_actor(edge[1])} notes {_text(payload)} of {_actor(edge[0])}"
        case Sent(edge=edge, payload=payload):
            return f"{time}    {_actor(edge[0])} sends {_text(payload)} to {_actor(edge[1])}"
        case _:
            verb = "begins" if isinstance(happening, Began) else "ends"
            items = ", ".join(
                f"{_text(payload)} of {_actor(edge[0])}"
                for edge, payload in zip(happening.edges, happening.payloads, strict=True)
            )
            return f"{time}  {_actor(happening.edges[0][1])} {verb} {items}"


def _actor(address: Address) -> str:
    return f"{address.function}/{address.partition}"


def _text(payload: Any) -> str:
    match payload:
        case Watermark(time_us=time_us):
            return f"WATERMARK {time_us}"
        case EndOfInput():
            return "END"
        case Mark(checkpoint=checkpoint):
            return f"MARK {checkpoint}"
        case UserCritical(name=name, payload=content, one=one):
            return f"{'SYNC_ONE ' if one else ''}CRITICAL {name} {content}"
        case pa.RecordBatch():
            first = payload.column(0)[0].as_py() if payload.num_rows else "-"
            return f"batch #{first}"
    return str(payload)
