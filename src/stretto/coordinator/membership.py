"""The members: workers are expected, join, send heartbeats, leave, are lost and are replaced."""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.events import (
    AnnounceLoss,
    AnnounceMembers,
    CloseRequested,
    Death,
    DeathCause,
    ReplaceWorker,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.protocol.membership import Join, Leave, Left, Member, MemberRole, Members

HELD_UP_AFTER_NS = 1_000_000_000
"""Ticks are more frequent than this, unless the coordinator itself was delayed."""


class MembershipHost(Host, Protocol):
    """The machine, which informs its parts of new and lost members."""

    def joined(self, member: str) -> None: ...

    def lost(self, member: str, role: MemberRole, reason: str, death: Death | None) -> None: ...

    def end_all(self) -> None: ...


class Membership(Part):
    """The members, and when each last sent a frame. A parked one is idle until another one is lost."""

    def __init__(self, host: MembershipHost, lost_after_ns: int) -> None:
        self._host = host
        self._lost_after_ns = lost_after_ns
        self.version = 0
        self.members: dict[str, Member] = {}
        self.parked: set[str] = set()
        self.closing = False
        self._expected: dict[str, str] = {}
        self.coming: dict[str, int] = {}
        """Workers that are started and not parked, without their incarnation, and since when they are missing."""
        self._seen_ns: dict[str, int] = {}
        self._ticked_ns = 0

    def events(self) -> Handlers:
        return {WorkerExpected: self._on_expected, WorkerEnded: self._on_ended, CloseRequested: self._on_close}

    def frames(self) -> FrameHandlers:
        return {Left: self._on_left}

    def deadline_ns(self) -> int | None:
        """Returns when the first silent worker would count as lost."""
        return min(self._seen_ns.values()) + self._lost_after_ns if self._seen_ns else None

    @property
    def driver(self) -> str | None:
        """The member in the driver's process."""
        return min((name for name, member in self.members.items() if member.role is MemberRole.DRIVER), default=None)

    def active(self) -> list[str]:
        """The workers that are not parked, in a stable order."""
        workers = (name for name, member in self.members.items() if member.role is MemberRole.WORKER)
        return sorted(name for name in workers if name not in self.parked)

    # Joining.

    def _on_expected(self, event: WorkerExpected) -> None:
        self._expected[event.name] = event.public_key
        if event.parked:
            self.parked.add(event.name)
        else:
            self.coming.setdefault(worker_of(event.name), self._host.now_ns)

    def is_expected(self, name: str) -> bool:
        """Whether a worker was started and has not joined yet."""
        return name in self._expected

    def on_join(self, sender: str, frame: Join) -> None:
        """Admits a worker, if it is expected."""
        member = frame.member
        if member.name != sender or self._expected.get(sender) != member.public_key or self.closing:
            self._host.refuse(f"{sender} asked to join and is not expected")
            return
        del self._expected[sender]
        self.coming.pop(worker_of(sender), None)
        self.members[sender] = member
        if member.role is not MemberRole.DRIVER:
            self._seen_ns[sender] = self._host.now_ns
        self._announce()
        self._host.joined(sender)

    def _announce(self) -> None:
        self.version += 1
        members = list(self.members.values())
        self._host.effects.append(AnnounceMembers(self.version, tuple(members)))
        for name in self.members:
            self._host.send(name, Members(self.version, members))

    # Leaving.

    def mark_alive(self, sender: str) -> None:
        """Records that a member is alive."""
        if sender in self._seen_ns:
            self._seen_ns[sender] = self._host.now_ns

    def tick(self) -> None:
        now_ns = self._host.now_ns
        held_up_ns = now_ns - self._ticked_ns - min(HELD_UP_AFTER_NS, self._lost_after_ns // 4)
        if self._ticked_ns and held_up_ns > 0:
            # The coordinator itself was delayed (a paused machine, a busy driver), which must not count against the
            # workers.
            self._seen_ns = {name: seen_ns + held_up_ns for name, seen_ns in self._seen_ns.items()}
        self._ticked_ns = now_ns
        for name, seen_ns in list(self._seen_ns.items()):
            if now_ns - seen_ns >= self._lost_after_ns:
                how = f"sent nothing for {self._lost_after_ns / 1e9:g} s"
                self._lose(name, f"it {how}", death=Death(how, DeathCause.ANY))

    def _on_left(self, sender: str, frame: Left) -> None:
        self._lose(sender, "it left", replace=False)

    def _on_ended(self, event: WorkerEnded) -> None:
        if self._expected.pop(event.name, None) is not None and not self.closing:
            self._replace(event.name, joined=False)
        self._lose(event.name, event.reason, death=event.death)

    def lose(self, name: str, reason: str) -> None:
        """Replaces a worker that is alive but of no use."""
        self._lose(name, reason)

    def _lose(self, name: str, reason: str, replace: bool = True, death: Death | None = None) -> None:
        if name not in self.members:
            return
        role = self.members.pop(name).role
        self._seen_ns.pop(name, None)
        if not replace:
            self.parked.discard(name)
        self._host.effects.append(AnnounceLoss(name, reason))
        if not self.closing:
            self._announce()
            if replace and role is not MemberRole.DRIVER:
                self._replace(name)
        self._host.lost(name, role, reason, death)

    def _replace(self, name: str, joined: bool = True) -> None:
        """Lets a parked worker replace a lost one, if that was active, and has another one started."""
        was_parked = name in self.parked
        self.parked.discard(name)
        free = sorted(self.parked & self.members.keys())
        if free and not was_parked:
            self.parked.discard(free[0])
        if was_parked or free:
            self.coming.pop(worker_of(name), None)
        else:
            self.coming.setdefault(worker_of(name), self._host.now_ns)
        self._host.effects.append(ReplaceWorker(name, parked=was_parked or bool(free), joined=joined))

    def _on_close(self, event: CloseRequested) -> None:
        self.closing = True
        self._host.end_all()
        for name in self.members:
            self._host.send(name, Leave())


def worker_of(name: str) -> str:
    """Returns the name of a worker without its incarnation."""
    return name.partition("~")[0]
