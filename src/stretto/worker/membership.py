"""Who the other members are, and when this one leaves."""

from __future__ import annotations

from typing import Protocol

from stretto.protocol.checkpointing import Broken
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR, Leave, Left, Member, MemberRole, Members
from stretto.worker.events import Connect, Exit, PeerBroken
from stretto.worker.part import FrameHandlers, Handlers, Host, Part


class Redirections(Protocol):
    """Whoever has batches on transient workers."""

    def lost(self, member: str) -> None: ...


class JobsHere(Protocol):
    """Whoever has jobs here."""

    def drop_all(self) -> None:
        """Forget all of them."""


class EntitiesHere(Protocol):
    """Whoever has entities here."""

    def drop_all(self) -> None: ...

    def broken(self, member: str) -> None: ...


class Questions(Protocol):
    """Whoever asks the other workers."""

    def members_changed(self) -> None: ...


class Membership(Part):
    """The latest membership that was heard of."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.version = 0
        self.members: dict[str, Member] = {}
        self.leaving = False

    def connect(self, jobs: JobsHere, redirecting: Redirections, entities: EntitiesHere, questions: Questions) -> None:
        self._questions = questions
        self._jobs = jobs
        self._redirecting = redirecting
        self._entities = entities

    def events(self) -> Handlers:
        return {PeerBroken: self._on_peer_broken}

    def frames(self) -> FrameHandlers:
        return {Members: self._on_members, Leave: self._on_leave}

    def _on_members(self, sender: str, frame: Members) -> None:
        if frame.version <= self.version:
            self._host.refuse(f"membership version {frame.version} after version {self.version}")
            return
        self.version = frame.version
        before, self.members = self.members, {member.name: member for member in frame.members}
        if self._host.member not in self.members:
            self._exit("this incarnation was superseded")
            return
        self._host.effects.append(Connect(frame.members))
        for name, member in before.items():
            if member.role is MemberRole.TRANSIENT and name not in self.members:
                self._redirecting.lost(name)
        self._questions.members_changed()

    def _on_peer_broken(self, event: PeerBroken) -> None:
        """Frames may be lost. What a transient worker has, others can do without: it leaves."""
        own = self.members.get(self._host.member)
        if own is not None and own.role is MemberRole.TRANSIENT:
            self._exit(f"the connection to {event.member} broke")
            return
        self._entities.broken(event.member)
        for job in self._host.jobs:
            self._host.effects.append(Send(COORDINATOR, Broken(job, event.member, "the connection broke")))

    def _on_leave(self, sender: str, frame: Leave) -> None:
        self._jobs.drop_all()
        self._entities.drop_all()
        self._host.effects.append(Send(COORDINATOR, Left()))
        self._exit("the coordinator asked it to leave")

    def _exit(self, reason: str) -> None:
        self.leaving = True
        self._host.effects.append(Exit(reason))
