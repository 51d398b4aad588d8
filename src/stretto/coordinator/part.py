"""What a part of the coordinator declares, and what the machine offers to every part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stretto.coordinator.events import Effect
from stretto.coordinator.records import Job

Handlers = dict[type, Callable[[Any], None]]
"""The handler of each type of event."""
FrameHandlers = dict[type, Callable[[str, Any], None]]
"""The handler of each type of frame; its first argument is the sender."""


class Part:
    """A part of the machine. All declarations have a default; a part overrides those that concern it."""

    def events(self) -> Handlers:
        """Returns the events that it handles."""
        return {}

    def frames(self) -> FrameHandlers:
        """Returns the frames that it handles."""
        return {}

    def tick(self) -> None:
        """Acts on what is due."""

    def deadline_ns(self) -> int | None:
        """Returns when it is to be called again, if nothing else happens."""
        return None

    def member_lost(self, member: str) -> None:
        """Handles the loss of a member, which sends no more frames."""


class Host(Protocol):
    """The machine as its parts see it."""

    now_ns: int
    effects: list[Effect]
    jobs: dict[str, Job]

    def send(self, member: str, frame: Any) -> None:
        """Sends a frame to a member."""

    def refuse(self, reason: str) -> None:
        """Counts and logs a frame or request that is refused."""

    def running(self, attempt: str) -> Job | None:
        """Returns the job of this attempt; None if the job has ended or the attempt was given up."""
