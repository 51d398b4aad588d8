"""Planted bugs in the parts that host entities: each must be caught by `hosted_transactions.py`."""

from __future__ import annotations

from msgspec.structs import replace

from stretto.coordinator.entities import EntityJob, EntityJobs
from stretto.coordinator.events import Death
from stretto.coordinator.machine import CoordinatorParts
from stretto.protocol.entities import EntitiesBroken, EntitiesHosted, EntityPlaces, HostEntities, RepliesSent, RoundSent
from stretto.simulator.checking.hosted_transactions import HostedParts
from stretto.simulator.checking.moving_mutations import OF_JOBS, OF_MACHINES
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.durable import Parts
from stretto.transactions import log
from stretto.transactions.events import AppendLog, Keeping, WorkerUp
from stretto.transactions.place_log import PlaceLog
from stretto.worker.doors import Doors
from stretto.worker.entities import Entities
from stretto.worker.events import DoorMoved
from stretto.worker.machine import WorkerParts


class LaterWritersIgnored(PlaceLog):
    """Only what the first attempt has written is read."""

    def _ordered(self) -> list[tuple[int, str]]:
        found = super()._ordered()
        return [each for each in found if each[1].partition("-")[2] == found[0][1].partition("-")[2]]


class LogBeginsAgain(PlaceLog):
    """A worker in a new process reads only what it has written itself."""

    def open(self, attempt: int) -> tuple[bytes, int]:
        is_new = self._attempt == 0
        data, position = super().open(attempt)
        return (b"", position) if is_new else (data, position)


class TrimmedTooFar(PlaceLog):
    """The file with the position that is still needed is removed."""

    def trim(self, position: int) -> None:
        self._files.delete([self._path("log", name) for begin, name in self._ordered()[:-1] if begin <= position])


class BreaksUnreported(Entities):
    """Rounds that a broken connection lost are not sent again by anybody."""

    def broken(self, member: str) -> None:
        return


class AppendsGarbled(Entities):
    """What is appended is not what was to be."""

    def _keep(self, order: HostEntities, what: Keeping) -> None:
        if isinstance(what, AppendLog):
            what = AppendLog(what.attempt, what.data[::-1], what.end)
        super()._keep(order, what)


class DoorStays(Doors):
    """The door goes on sending to the workers of the first attempt."""

    def _on_moved(self, event: DoorMoved) -> None:
        opened = self._opened.get(event.job)
        if opened is not None and opened.door._placement is None:
            super()._on_moved(event)


class RepliesSwapped(Doors):
    """An answer is given to whoever has called last."""

    def _on_replies(self, sender: str, frame: RepliesSent) -> None:
        opened = self._opened.get(frame.job)
        if opened is not None and len(opened.tickets) > 1:
            numbers = list(opened.tickets)
            opened.tickets[numbers[0]], opened.tickets[numbers[-1]] = (
                opened.tickets[numbers[-1]],
                opened.tickets[numbers[0]],
            )
        super()._on_replies(sender, frame)


class RoundsOfStrangersHeard(Entities):
    """A round is taken for one of whoever is first in the attempt."""

    def _on_round(self, sender: str, frame: RoundSent) -> None:
        first = 2 if frame.place == 1 else 1
        super()._on_round(sender, replace(frame, origin=first))


class LossesUnnoticed(EntityJobs):
    """Nobody takes the place of a worker that was lost."""

    def lost(self, member: str, death: Death | None) -> None:
        return


class MembersOfTheFirst(Entities):
    """Workers go on sending to the members of the first attempt."""

    def _on_places(self, sender: str, frame: EntityPlaces) -> None:
        job = self._jobs.get(frame.job)
        if job is not None and not job.members:
            super()._on_places(sender, frame)


class BreaksIgnored(EntityJobs):
    """A broken connection does not begin another attempt."""

    def _on_broken(self, sender: str, frame: EntitiesBroken) -> None:
        return


class HostedTooSoon(EntityJobs):
    """A worker counts as ready before it has the code."""

    def _host_at(self, job: EntityJob, place: int, member: str) -> None:
        super()._host_at(job, place, member)
        self._tell(job, WorkerUp(str(place + 1)))

    def _on_hosted(self, sender: str, frame: EntitiesHosted) -> None:
        return


def stops_forgotten(data: bytes, position: int) -> log.Content:
    """A transaction that ran out of time runs again in the next attempt as if nothing had been."""
    content = log.read(data, position)
    content.stopped.clear()
    return content


def stops_count_in_both(data: bytes, position: int) -> log.Content:
    """One that ran out of time in the fallback is aborted in the dry run already, which changes the order of others
    that have replies."""
    content = log.read(data, position)
    content.stopped |= {log.Stopped(each.seed, not each.in_fallback, each.epoch) for each in content.stopped}
    return content


def stops_count_before(data: bytes, position: int) -> log.Content:
    """One that ran out of time is aborted already in the epochs in which it had lost to others."""
    content = log.read(data, position)
    content.stopped = {log.Stopped(each.seed, each.in_fallback, 0) for each in content.stopped}
    return content


_PLACES = (LaterWritersIgnored, LogBeginsAgain, TrimmedTooFar)
_ENTITIES = (BreaksUnreported, AppendsGarbled, RoundsOfStrangersHeard, MembersOfTheFirst)
_DOORS = (DoorStays, RepliesSwapped)
_JOBS = (LossesUnnoticed, BreaksIgnored, HostedTooSoon)

HOSTED_MUTATIONS: dict[str, HostedParts] = {
    "stops-forgotten": HostedParts(read_log=stops_forgotten),
    "stops-count-in-both": HostedParts(read_log=stops_count_in_both),
    "stops-count-before": HostedParts(read_log=stops_count_before),
    **{mutation_name(each): HostedParts(place=each) for each in _PLACES},
    **{mutation_name(each): HostedParts(Parts(worker=WorkerParts(entities=each))) for each in _ENTITIES},
    **{mutation_name(each): HostedParts(Parts(worker=WorkerParts(doors=each))) for each in _DOORS},
    **{mutation_name(each): HostedParts(Parts(coordinator=CoordinatorParts(entities=each))) for each in _JOBS},
    **{name: HostedParts(machine=each) for name, each in OF_MACHINES.items()},
    **{name: HostedParts(Parts(coordinator=CoordinatorParts(entities=each))) for name, each in OF_JOBS.items()},
}
