"""Sources here whose rows are emitted by entities: what they want is asked for, again and again until it comes.

What is wanted, and when, the function knows (`actors/emitted.py`, `operators/emitted.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.actors.address import Address, job_of
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.emitted import PlacesKnown, RowsEmitted, Wanted
from stretto.actors.seat import Phase, Seat
from stretto.actors.work import Errand
from stretto.protocol.entities import CallsSent, EmittedSent, EntitiesAt, WhereEntities, entities_of
from stretto.protocol.membership import COORDINATOR
from stretto.protocol.transactions import Fetch
from stretto.worker.doors import AGAIN_NS, AGAIN_NS_MAX
from stretto.worker.local_job import LocalJob
from stretto.worker.part import FrameHandlers, Host, Part


@dataclass
class _Asked:
    """What was asked for, and when it is asked for again."""

    wanted: Wanted
    wait_ns: int
    due_ns: int


class Fetching(Part):
    """What the sources here have asked for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._members: dict[str, list[str]] = {}
        """The workers with the entities of a job, by their places."""
        self._readers: dict[Address, dict[int, _Asked]] = {}
        """What each source has asked for that has not come, by place."""
        self._told: set[Address] = set()
        """Sources that know how many places there are."""

    def frames(self) -> FrameHandlers:
        return {EmittedSent: self._on_emitted}

    def after_run(self, seat: Seat) -> None:
        """A source of emitted rows has run."""
        address, entities = seat.address, entities_of(job_of(seat.address.job))
        if seat.phase is not Phase.OPEN:
            return
        is_new = address not in self._readers
        if is_new:
            self._readers[address] = {}
            self._host.send(COORDINATOR, WhereEntities(entities))
            self._tell_places(address)
        for wanted in seat.instance.function.take_wanted(is_new):
            asked = _Asked(wanted, AGAIN_NS, 0)
            self._readers[address][wanted.place] = asked
            self._ask(address, asked)
        self._set_alarm()

    def moved(self, frame: EntitiesAt) -> None:
        """The entities are at these workers now, and may have lost what was asked for."""
        self._members[frame.job] = frame.members
        for address, asked in self._readers.items():
            if entities_of(job_of(address.job)) == frame.job:
                self._tell_places(address)
                for each in asked.values():
                    self._ask(address, each)
        self._set_alarm()

    def _tell_places(self, address: Address) -> None:
        members = self._members.get(entities_of(job_of(address.job)))
        if members is not None and address not in self._told:
            self._told.add(address)
            self._offer(address, PlacesKnown(len(members)))

    def _ask(self, address: Address, asked: _Asked) -> None:
        wanted = asked.wanted
        asked.due_ns = self._host.now_ns + asked.wait_ns
        entities = entities_of(job_of(address.job))
        members = self._members.get(entities)
        if members is not None:
            fetch = Fetch(wanted.stream, _name_of(address), wanted.since, wanted.settled, wanted.at_us)
            self._host.send(members[wanted.place - 1], CallsSent(entities, wanted.place, [fetch]))

    def _on_emitted(self, sender: str, frame: EmittedSent) -> None:
        emitted = frame.emitted
        for address, asked in self._readers.items():
            if _name_of(address) == emitted.reader and frame.place in asked:
                del asked[frame.place]
                came = RowsEmitted(frame.place, emitted.first, emitted.rows, emitted.reached_us, emitted.missing)
                self._offer(address, came)
        self._set_alarm()

    def _offer(self, address: Address, errand: Errand) -> None:
        seat = self._host.seat_of(address)
        if seat is not None and seat.phase is Phase.OPEN:
            seat.mailbox.append(errand)
            self._host.offer(seat)

    def wake(self) -> None:
        for address, asked in self._readers.items():
            for each in asked.values():
                if each.due_ns <= self._host.now_ns:
                    each.wait_ns = min(2 * each.wait_ns, AGAIN_NS_MAX)
                    self._ask(address, each)
        self._set_alarm()

    def finished(self, seat: Seat) -> None:
        self._forget({seat.address})

    def dropped(self, job: LocalJob) -> None:
        self._forget({address for address in self._readers if address.job == job.job})
        if not any(job_of(address.job) == job_of(job.job) for address in self._readers):
            self._members.pop(entities_of(job_of(job.job)), None)

    def _forget(self, addresses: set[Address]) -> None:
        self._told -= addresses
        for address in addresses:
            self._readers.pop(address, None)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = (each.due_ns for asked in self._readers.values() for each in asked.values())
        self.due_ns = min(due, default=NEVER_NS)


def _name_of(address: Address) -> str:
    return f"{address.job}/{address.function}/{address.partition}"
