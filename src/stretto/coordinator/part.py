"""What a part of the coordinator declares, and what the machine offers to every part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from stretto.coordinator.events import Effect
from stretto.coordinator.records import Job

Handlers = dict[type, Callable[[Any], None]]
"""What is done on each type of event."""
FrameHandlers = dict[type, Callable[[str, Any], None]]
"""What is done on each type of frame, given its sender."""


class Part:
    """A part of the machine. All declarations have a default; a part overrides those that concern it."""

    def events(self) -> Handlers:
        """The events that it handles."""
        return {}

    def frames(self) -> FrameHandlers:
        """The frames that it handles."""
        return {}

    def tick(self) -> None:
        """Time has passed."""

    def deadline_ns(self) -> int | None:
        """When it wants to be woken, if nothing else happens."""
        return None

    def member_lost(self, member: str) -> None:
        """A member is gone, and nothing of it will be heard any more."""


class Host(Protocol):
    """The machine as its parts see it."""

    now_ns: int
    effects: list[Effect]
    jobs: dict[str, Job]

    def tell(self, member: str, frame: Any) -> None:
        """Send a frame to a member."""

    def refuse(self, reason: str) -> None:
        """Count and log what has no business here."""

    def running(self, attempt: str) -> Job | None:
        """The job that workers know by this name; None for what has ended, and for an attempt that was given up."""
