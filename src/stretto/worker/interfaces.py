"""What several parts need of the same other part. What one part alone needs, it declares beside itself."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.channel import OutChannel, Payload
from stretto.actors.critical import SyncProgram
from stretto.actors.seat import Seat


class Emitting(Protocol):
    """Whoever puts messages on channels."""

    def emit(
        self,
        channel: OutChannel,
        payload: Payload,
        arrived_ns: int,
        sync: SyncProgram | None,
        progress_us: int | None,
        deadline_ns: int,
        credits: int = 1,
    ) -> None: ...


class HostsOf(Protocol):
    """Whoever knows where lessees may be."""

    def hosts(self, lessor: Seat) -> list[str]: ...

    def lessees_set(self, lessor: Seat) -> int | None: ...


class Figures(Protocol):
    """Whoever reports the figures of instances."""

    def touch(self, seat: Seat) -> None: ...


class ChannelNumbers(Protocol):
    """Whoever numbers the channels here."""

    made: int

    def add(self, outs: dict[int, OutChannel]) -> None: ...
