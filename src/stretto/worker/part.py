"""What a part of the worker declares, and what the machine offers to every part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from stretto.actors.address import Address
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.seat import Seat
from stretto.actors.work import Errand, Outcome
from stretto.protocol.jobs import Failure
from stretto.scheduling.policies import Policy
from stretto.scheduling.ready import ReadyQueue
from stretto.worker.events import Effect
from stretto.worker.local_job import LocalJob

Handlers = dict[type, Callable[[Any], None]]
"""What is done on each type of event."""
FrameHandlers = dict[type, Callable[[str, Any], None]]
"""What is done on each type of frame, given its sender."""
Follows = Callable[[Seat, Any, Outcome], None]
"""What follows a run, given the seat, the work and the outcome."""


@dataclass(frozen=True, slots=True)
class AfterRun:
    """What a part does after a kind of errand has run: `settles` before what the run sent goes out, `completes` after.

    A `last_word` speaks for all that was sent before it, so it waits until every batch has its place."""

    settles: Follows | None = None
    completes: Follows | None = None
    last_word: bool = False


class Part:
    """A part of the machine. All declarations have a default; a part overrides those that concern it."""

    due_ns: int = NEVER_NS
    """When it wants to be woken."""

    def events(self) -> Handlers:
        """The events that it handles."""
        return {}

    def frames(self) -> FrameHandlers:
        """The frames that it handles."""
        return {}

    def errands(self) -> dict[type[Errand], AfterRun]:
        """The kinds of errands that it has run, and what it does after each."""
        return {}

    def wake(self) -> None:
        """`due_ns` has come."""

    def finished(self, seat: Seat) -> None:
        """The input of an instance has ended."""

    def dropped(self, job: LocalJob) -> None:
        """A job is dropped, with all its seats."""


class Host(Protocol):
    """The machine as its parts see it."""

    member: str
    now_ns: int
    effects: list[Effect]
    jobs: dict[str, LocalJob]
    policy: Policy
    ready: ReadyQueue
    stale: int
    """Frames that spoke of what is not here any more."""
    refused: int
    memory_bytes: int
    """What the process holds, as its driver has measured; 0 where there is none."""

    @property
    def running(self) -> Seat | None:
        """Whose run is under way."""

    def attend(self, part: Part) -> None:
        """Wake a part that was made later than the others."""

    def offer(self, seat: Seat) -> None:
        """Put a seat up for running if it has work and may send."""

    def send(self, member: str, frame: Any) -> None:
        """Send a frame to a member, or hand it to this worker itself after the event at hand."""

    def refuse(self, reason: str) -> None:
        """Count and log what has no business here."""

    def fail(self, job: str, failure: Failure) -> None:
        """A job cannot continue."""

    def seat_of(self, address: Address) -> Seat | None:
        """The instance of an actor here, be it the lessor or a lessee."""

    def home(self, address: Address) -> str:
        """The member that hosts the lessor of an actor."""
