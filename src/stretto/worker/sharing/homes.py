"""The homes of shared objects here: they answer what objects hold, between two runs."""

from __future__ import annotations

from typing import Protocol

from stretto.actors.address import Address
from stretto.actors.seat import Phase
from stretto.protocol.sharing import Held, ObjectsAsked, ObjectsSent
from stretto.sharing.contents import ObjectContent
from stretto.worker.part import FrameHandlers, Host, Part


class SharedObjects(Protocol):
    """The function that has them (`operators/shared_store.py`)."""

    def look(self, name: str) -> tuple[ObjectContent | None, int]: ...

    def applied_of(self, member: str) -> dict[str, int]: ...


class SharedHomes(Part):
    """Whoever answers for the objects whose home this worker is."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def frames(self) -> FrameHandlers:
        return {ObjectsAsked: self._on_asked}

    def _on_asked(self, sender: str, frame: ObjectsAsked) -> None:
        """Answer at once. A home that is not open yet, or is being handed over, does not: it will be asked again."""
        job = self._host.jobs.get(frame.job)
        seat = job.seats.get(Address(frame.job, frame.space, frame.partition)) if job is not None else None
        if seat is None or seat.phase is Phase.OPENING or seat.paused is not None:
            self._host.stale += 1
            return
        store = seat.instance.function
        found = tuple(self.held(store, name) for name in frame.names)
        sent = ObjectsSent(frame.job, frame.space, frame.partition, frame.number, found, self.applied(store, sender))
        self._host.send(sender, sent)

    def applied(self, store: SharedObjects, member: str) -> dict[str, int]:
        """Returns which writes of a worker are in the objects."""
        return store.applied_of(member)

    def held(self, store: SharedObjects, name: str) -> Held:
        """Returns what an object holds."""
        content, version = store.look(name)
        kind, data = (None, b"") if content is None else content
        return Held(kind, data, version)
