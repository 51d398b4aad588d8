"""The members: workers are expected, join, send heartbeats, leave, are lost and are replaced."""

from __future__ import annotations

from typing import Protocol

from stretto.coordinator.events import (
    AnnounceLoss,
    AnnounceMembers,
    CloseRequested,
    Death,
    DeathCause,
    GiveUpWorker,
    ReleaseWorker,
    ReplaceWorker,
    StartFailed,
    WorkerEnded,
    WorkerExpected,
)
from stretto.coordinator.part import FrameHandlers, Handlers, Host, Part
from stretto.coordinator.standing import Standing, Standings
from stretto.protocol.membership import Join, Leave, Left, Member, MemberRole, Members

HELD_UP_AFTER_NS = 1_000_000_000
"""Ticks are more frequent than this, unless the coordinator itself was delayed."""

JOINED: dict[Standing | None, Standing] = {
    Standing.COMING_SPARE: Standing.PARKED,
    Standing.COMING_TRANSIENT: Standing.TRANSIENT,
}
"""How a worker stands when it has joined, by how it was expected; others are active."""


class MembershipHost(Host, Protocol):
    """The machine, which informs its parts of new and lost members."""

    def joined(self, member: str) -> None: ...

    def lost(self, member: str, role: MemberRole, reason: str, death: Death | None) -> None: ...

    def ended(self, member: str) -> None: ...

    def start_failed(self, member: str, reason: str) -> None: ...

    def end_all(self) -> None: ...


class Membership(Part):
    """The members, how each stands, and when each last sent a frame."""

    def __init__(self, host: MembershipHost, lost_after_ns: int, workerless_ns: int) -> None:
        self._host = host
        self._lost_after_ns = lost_after_ns
        self.workerless_ns = workerless_ns
        """How long jobs wait for a worker where none is left."""
        self.version = 0
        self.members: dict[str, Member] = {}
        self.standings = Standings()
        self.wanted = 0
        """How many workers there are to be, besides spare ones; those that are lost count until they are replaced."""
        self._named: set[str] = set()
        """Workers that were ever named here, without their incarnation: a name that was drained is not used again."""
        self.closing = False
        self._expected: dict[str, str] = {}
        self.coming: dict[str, int] = {}
        """Workers that are started and not parked, without their incarnation, and since when they are missing."""
        self._cold: set[str] = set()
        """Transient workers that were asked for and have not joined, without their incarnation."""
        self._seen_ns: dict[str, int] = {}
        self._ticked_ns = 0

    def events(self) -> Handlers:
        return {
            WorkerExpected: self._on_expected,
            StartFailed: self._on_start_failed,
            WorkerEnded: self._on_ended,
            CloseRequested: self._on_close,
        }

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
        """The workers that get work, in a stable order: those that are neither parked nor leaving."""
        active = self.standings.named(Standing.ACTIVE)
        return sorted(n for n, member in self.members.items() if member.role is MemberRole.WORKER and n in active)

    def transient(self) -> list[str]:
        """The transient workers that have joined, in a stable order."""
        return sorted(self.standings.named(Standing.TRANSIENT) & self.members.keys())

    @property
    def parked(self) -> set[str]:
        """The spare workers, also those that have not joined."""
        return self.standings.named(Standing.PARKED, Standing.COMING_SPARE)

    @property
    def draining(self) -> list[str]:
        """The workers that are to leave once nothing is there, in a stable order."""
        return sorted(self.standings.named(Standing.DRAINING))

    # Joining.

    def name_more(self, count: int, transient: bool = False) -> list[str]:
        """Returns names for so many more workers, which are wanted from now on."""
        found: list[str] = []
        number = 0
        taken = self._named | {worker_of(name) for name in self._expected}
        while len(found) < count:
            base = f"{'t' if transient else 'w'}{number}"
            if base not in taken:
                self._named.add(base)
                found.append(f"{base}~1")
            number += 1
        if transient:
            self._cold.update(map(worker_of, found))
            return found
        self.wanted += count
        for name in found:
            self.coming.setdefault(worker_of(name), self._host.now_ns)
        return found

    def _on_expected(self, event: WorkerExpected) -> None:
        self._expected[event.name] = event.public_key
        if event.transient:
            self.standings.begin(event.name, Standing.COMING_TRANSIENT)
            return
        self.standings.begin(event.name, Standing.COMING_SPARE if event.parked else Standing.COMING)
        if not event.parked:
            self.coming.setdefault(worker_of(event.name), self._host.now_ns)

    def _on_start_failed(self, event: StartFailed) -> None:
        """Gives up a worker that was to be added; one that has joined in the meantime stays."""
        self._give_up(worker_of(event.name), event.reason)

    def give_up(self, base: str, reason: str) -> None:
        """Does not wait for a worker any more that was to be added; what was started for it ends."""
        self._host.effects.append(GiveUpWorker(base))
        self._give_up(base, reason)

    def _give_up(self, base: str, reason: str) -> None:
        expected = [name for name in self._expected if worker_of(name) == base]
        if not expected and base not in self.coming and base not in self._cold:
            return
        for name in expected:
            del self._expected[name]
            self.standings.end(name)
        self._cold.discard(base)
        if self.coming.pop(base, None) is not None:
            self.wanted -= 1
        self._host.start_failed(base, reason)

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
        self._cold.discard(worker_of(sender))
        self.members[sender] = member
        coming = self.standings.of(sender)
        spare = coming is Standing.COMING_SPARE
        self.standings.move(sender, JOINED.get(coming, Standing.ACTIVE))
        if member.role is MemberRole.WORKER and not spare and worker_of(sender) not in self._named:
            self.wanted += 1
        self._named.add(worker_of(sender))
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

    def drain(self, name: str) -> None:
        """Lets a worker get nothing new, and wants one worker less."""
        self.standings.move(name, Standing.DRAINING)
        self.wanted -= 1

    def dismiss(self, name: str) -> None:
        """Asks a drained worker to leave."""
        self.standings.move(name, Standing.DISMISSED)
        self._host.send(name, Leave())

    def _on_left(self, sender: str, frame: Left) -> None:
        self._lose(sender, "it left", left=True)

    def _on_ended(self, event: WorkerEnded) -> None:
        if self._expected.pop(event.name, None) is not None:
            standing = self.standings.end(event.name)
            if not self.closing:
                self._replace(event.name, standing, joined=False)
        self._lose(event.name, event.reason, death=event.death, ended=True)
        self._host.ended(event.name)

    def lose(self, name: str, reason: str) -> None:
        """Replaces a worker that is alive but of no use."""
        self._lose(name, reason)

    def _lose(
        self, name: str, reason: str, death: Death | None = None, left: bool = False, ended: bool = False
    ) -> None:
        """Removes a member. One that was not leaving is replaced; the Spark task of one that was is ended, unless it
        has returned (`ended`) or is about to (`left`)."""
        if name not in self.members:
            return
        role = self.members.pop(name).role
        standing = self.standings.end(name)
        self._seen_ns.pop(name, None)
        self._host.effects.append(AnnounceLoss(name, reason))
        if not self.closing:
            self._announce()
            if standing is not None and standing.is_leaving:
                if not left and not ended:
                    self._host.effects.append(ReleaseWorker(name))
            elif not left and role is not MemberRole.DRIVER:
                self._replace(name, standing)
        self._host.lost(name, role, reason, death)

    def _replace(self, name: str, standing: Standing | None, joined: bool = True) -> None:
        """Lets a parked worker replace a lost one, if that was active, and has another one started."""
        if standing in (Standing.COMING_TRANSIENT, Standing.TRANSIENT):
            self._host.effects.append(ReplaceWorker(name, parked=False, joined=joined, transient=True))
            return
        was_spare = standing in (Standing.COMING_SPARE, Standing.PARKED)
        free = sorted(self.standings.named(Standing.PARKED))
        if free and not was_spare:
            self.standings.move(free[0], Standing.ACTIVE)
        if was_spare or free:
            self.coming.pop(worker_of(name), None)
        else:
            self.coming.setdefault(worker_of(name), self._host.now_ns)
        self._host.effects.append(ReplaceWorker(name, parked=was_spare or bool(free), joined=joined))

    def _on_close(self, event: CloseRequested) -> None:
        self.closing = True
        self._host.end_all()
        for name in self.members:
            self._host.send(name, Leave())


def worker_of(name: str) -> str:
    """Returns the name of a worker without its incarnation."""
    return name.partition("~")[0]
