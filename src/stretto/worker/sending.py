"""After a run: what follows its kind of work, and sending what it gave.

A critical message waits until it is decided where all batches before it go, and so does all that a barrier asks of an
instance. Until then the run is interrupted, and its instance does not run.
"""

from __future__ import annotations

from typing import Protocol

from pyarrow import RecordBatch

from stretto.actors.channel import OutChannel, Payload
from stretto.actors.seat import Seat
from stretto.actors.work import Errand, Outcome, Work
from stretto.worker.events import Ran
from stretto.worker.part import AfterRun, Follows, Host

UNDECIDED_MAX = 16
"""Batches of one instance that may wait for replies; then it does not run until one is decided."""


class Sender(Protocol):
    """Whoever puts payloads on channels."""

    def send(self, channel: OutChannel, payload: Payload, outcome: Outcome) -> None:
        """Send what a run gave."""


class MustWait(Protocol):
    """Whoever knows what a critical message waits for."""

    def must_wait(self, seat: Seat) -> bool:
        """Whether batches before it are without a place."""


class AfterRuns(Host, Protocol):
    """The machine, which hears when all is done."""

    def after_run(self, seat: Seat, outcome: Outcome) -> None: ...


class Sending:
    """What follows runs, by the kind of errand."""

    def __init__(self, host: AfterRuns, sender: Sender, rules: MustWait) -> None:
        self._host = host
        self._send = sender.send
        self._rules = rules
        self._settles: dict[type, list[Follows]] = {}
        self._completes: dict[type, list[Follows]] = {}
        self._last_words: set[type] = set()

    def follow(self, kind: type[Errand], after: AfterRun) -> None:
        """A part has declared what it does after a kind of errand."""
        if after.settles is not None:
            self._settles.setdefault(kind, []).append(after.settles)
        if after.completes is not None:
            self._completes.setdefault(kind, []).append(after.completes)
        if after.last_word:
            self._last_words.add(kind)

    def settle(self, seat: Seat, work: Work, outcome: Outcome) -> None:
        """An errand has run; before what it sent goes out."""
        for follows in self._settles.get(type(work), ()):
            follows(seat, work, outcome)

    def send(self, event: Ran) -> None:
        """Send what a run gave, and do what follows."""
        self._send_from(0, event)

    def _send_from(self, first: int, event: Ran) -> None:
        seat, work, outcome = event.seat, event.work, event.outcome
        sends = outcome.sends if not first else outcome.sends[first:]
        for place, (out, payload) in enumerate(sends, first):
            if seat.undecided and not isinstance(payload, RecordBatch) and self._rules.must_wait(seat):
                self._interrupt(seat, place, event)
                return
            self._send(out, payload, outcome)
        if seat.undecided and (outcome.finished or type(work) in self._last_words) and self._rules.must_wait(seat):
            self._interrupt(seat, len(outcome.sends), event)
            return
        for follows in self._completes.get(type(work), ()):
            follows(seat, work, outcome)
        self._host.after_run(seat, outcome)
        strategy = seat.strategy
        if strategy is not None and strategy.has_post_apply and not seat.dropped:
            strategy.post_apply(seat, work, event.cost_ns)

    def _interrupt(self, seat: Seat, place: int, event: Ran) -> None:
        seat.interrupted = (place, event)
        seat.starved += 1

    def undecided(self, sender: Seat) -> None:
        """A batch of an instance waits for its strategy to say where it goes."""
        sender.undecided += 1
        if sender.undecided == UNDECIDED_MAX:
            sender.starved += 1

    def decided(self, sender: Seat) -> None:
        """It is on its way."""
        if sender.undecided == UNDECIDED_MAX:
            sender.starved -= 1
        sender.undecided -= 1
        if sender.interrupted is not None and not sender.undecided:
            (place, event), sender.interrupted = sender.interrupted, None
            sender.starved -= 1
            self._send_from(place, event)
        else:
            self._host.offer(sender)
