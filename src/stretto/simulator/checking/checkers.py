"""Checks the history of a run and returns violations, each with a witness. Nothing here knows how the protocol works.

On each edge the critical messages divide the sent messages into parts. Virtual time is the same everywhere, so the part
in which a message was sent is known exactly; the protocol must ensure that it also runs in that part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from stretto.actors.channel import Payload
from stretto.actors.critical import EndOfInput, Mark, UserCritical, Watermark
from stretto.actors.mailbox_states import BEGINNING, TRANSITIONS, MailboxState, Role
from stretto.simulator.checking.history import Began, Edge, Ended, History, Moved, Noted, Sent

BARRIER_NS_MAX = 20_000_000_000
"""Upper bound for the virtual time of a barrier, under any random delays and pauses."""

CRITICAL = (Watermark, EndOfInput, UserCritical, Mark)


@dataclass(frozen=True, slots=True)
class Violation:
    """The kind of a violation, and the event that shows it."""

    kind: str
    witness: str


def check(history: History) -> list[Violation]:
    """Returns all violations of order, completeness and state transitions in a run."""
    return [violation for checker in CHECKERS for violation in checker(history)]


def _is_critical(payload: Payload) -> bool:
    return isinstance(payload, CRITICAL)


def order(history: History) -> Iterator[Violation]:
    """The dependency set runs before the critical message, the pending set after it.

    Critical messages that were only noted are ignored: no run depends on them."""
    divides = dividing(history)
    sent: Counter[Edge] = Counter()
    begun: Counter[Edge] = Counter()
    ended: Counter[Edge] = Counter()
    part: dict[tuple[Edge, int], int] = {}
    for event in history.happenings:
        if isinstance(event, Sent):
            if not _is_critical(event.payload):
                part[event.edge, id(event.payload)] = sent[event.edge]
            elif next(divides[event.edge], True):
                sent[event.edge] += 1
        elif isinstance(event, Began):
            if not event.whole:
                yield Violation("incomplete", f"a barrier over all upstream actors began without some of them: {event}")
            for edge, payload in zip(event.edges, event.payloads, strict=True):
                if _is_critical(payload):
                    begun[edge] += 1
                elif ended[edge] < part.get((edge, id(payload)), 0):
                    yield Violation("pending", f"ran before a critical message that was sent before it: {event}")
        elif isinstance(event, Ended):
            for edge, payload in zip(event.edges, event.payloads, strict=True):
                if _is_critical(payload):
                    ended[edge] += 1
                elif begun[edge] > part.get((edge, id(payload)), 0):
                    yield Violation("dependency", f"ran after a critical message that was sent after it: {event}")


def dividing(history: History) -> dict[Edge, Iterator[bool]]:
    """Returns for each edge, in order, whether each critical message ran (True) or was only noted (False)."""
    ran: dict[Edge, list[bool]] = defaultdict(list)
    for event in history.happenings:
        if isinstance(event, Noted):
            ran[event.edge].append(False)
        elif isinstance(event, Began):
            for edge, payload in zip(event.edges, event.payloads, strict=True):
                if _is_critical(payload):
                    ran[edge].append(True)
    return defaultdict(lambda: iter(()), {edge: iter(flags) for edge, flags in ran.items()})


def once(history: History) -> Iterator[Violation]:
    """Every message runs exactly once."""
    sent = Counter((event.edge, id(event.payload)) for event in history.happenings if isinstance(event, Sent))
    runs: Counter[tuple[Edge, int]] = Counter()
    for event in history.happenings:
        if isinstance(event, Ended):
            runs.update((edge, id(payload)) for edge, payload in zip(event.edges, event.payloads, strict=True))
        elif isinstance(event, Noted):
            runs[event.edge, id(event.payload)] += 1
    for key, count in (sent - runs).items():
        yield Violation("lost", f"{count} of {sent[key]} on {key[0]} never ran")
    for key, count in (runs - sent).items():
        yield Violation("twice", f"{count} more than the {sent[key]} that were sent on {key[0]} ran")


def moves(history: History, handed_over: Collection[str] = ()) -> Iterator[Violation]:
    """Every transition is in the table, and every barrier ends in time. The last barrier of an attempt that was
    `handed_over` need not: the attempt is dropped while ACKs are under way."""
    states: dict[tuple[Any, Role, str], MailboxState] = {}
    blocked_ns: dict[tuple[Any, Role, str], int] = {}
    for event in history.happenings:
        if not isinstance(event, Moved):
            continue
        key = (event.address, event.role, event.member)
        if states.get(key, BEGINNING[event.role]) is not event.before or (
            TRANSITIONS.get((event.role, event.before, event.trigger)) is not event.after
        ):
            yield Violation("transition", f"not in the table: {event}")
        states[key] = event.after
        if event.role is Role.LESSOR and event.after is MailboxState.BLOCKED:
            blocked_ns[key] = event.time_ns
        elif event.role is Role.LESSOR and event.after is MailboxState.RUNNABLE and key in blocked_ns:
            took_ns = event.time_ns - blocked_ns.pop(key)
            if took_ns > BARRIER_NS_MAX:
                yield Violation("liveness", f"a barrier took {took_ns / 1e9:.3f} s: {event}")
    for (address, _, member), since_ns in blocked_ns.items():
        if address.job not in handed_over:
            yield Violation("liveness", f"a barrier of {address} on {member} began at {since_ns} ns and never ended")


def barriers(history: History) -> Iterator[Violation]:
    """A run without any barrier proves nothing, so it is a violation."""
    if not barriers_of(history):
        yield Violation("empty", "no barrier in the whole run")


def barriers_of(history: History) -> int:
    return sum(
        1
        for event in history.happenings
        if isinstance(event, Moved) and event.role is Role.LESSOR and event.after is MailboxState.CRITICAL
    )


def messages_of(history: History) -> int:
    return sum(len(event.payloads) for event in history.happenings if isinstance(event, Ended))


Checker = Callable[[History], Iterator[Violation]]
CHECKERS: tuple[Checker, ...] = (order, once, moves, barriers)
