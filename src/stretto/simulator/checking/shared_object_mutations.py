"""Planted bugs in shared objects: each must be caught by `shared_objects.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from stretto.actors.seat import Seat
from stretto.actors.sharing import Lookups, Slot
from stretto.actors.work import Work
from stretto.protocol.sharing import Held
from stretto.sharing.cache import Cache, Copy
from stretto.sharing.contents import ObjectContent, Ref, Write
from stretto.sharing.freshness import Freshness
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.durable import Parts
from stretto.worker.events import Ran
from stretto.worker.machine import WorkerParts
from stretto.worker.sharing.asking import Asked, Asking, Waiting
from stretto.worker.sharing.homes import SharedHomes, SharedObjects
from stretto.worker.sharing.reads import SharedReads

# The cache.


class AnyAge(Cache):
    """A copy is used however old it is."""

    def find(self, name: str, freshness: Freshness, taken_ns: int) -> Copy | None:
        copy = self._copies.get(name)
        return super().find(name, freshness, taken_ns if copy is None else copy.asked_ns)


class OwnUnseen(Cache):
    """What was written here is seen when its home has confirmed it."""

    def seen(self, name: str, copy: Copy) -> ObjectContent | None:
        return copy.content


class ConfirmedForgotten(Cache):
    """What a home has confirmed is in no copy that was here before."""

    def _include(self, name: str, write: Write) -> None:
        """Does nothing."""


class NeverConfirmed(Cache):
    """What was written here comes over all copies, also those that have it."""

    def confirm(self, partition: int, applied: Mapping[str, int], included: Mapping[str, int]) -> None:
        """Does nothing."""


class OlderWins(Cache):
    """The last answer counts, also one that others have overtaken, and not the newest."""

    def predates(self, partition: int, applied: Mapping[str, int]) -> bool:
        return False

    def take_in(self, name: str, content: ObjectContent | None, version: int, asked_ns: int) -> Copy:
        copy = self._copies.get(name)
        if copy is not None:
            copy.version = min(copy.version, version)
        return super().take_in(name, content, version, asked_ns)


class KeptWhenWritten(Cache):
    """A write here leaves the copy as it is, also where it is to be asked for again."""

    def outdate(self, name: str) -> None:
        """Does nothing."""


# Questions.


class AgeFromAnswer(Asking):
    """A copy's age counts from when its answer came."""

    def answered(self, number: int, job: str) -> Asked | None:
        asked = super().answered(number, job)
        if asked is not None:
            asked.asked_ns += 40_000_000
        return asked


class JoinsAny(Asking):
    """A batch waits for any question that is under way."""

    def join(self, job: str, ref: Ref, by: Waiting, freshness: Freshness, taken_ns: int) -> bool:
        asked = self._by_ref.get((job, ref))
        return super().join(job, ref, by, freshness, taken_ns if asked is None else asked.asked_ns)


class NotAskedAgain(Asking):
    """A question is asked once."""

    def due(self, now_ns: int) -> Iterator[Asked]:
        for asked in super().due(now_ns):
            if asked.again_ns < 0:
                yield asked


# Homes.


class AppliedUnsaid(SharedHomes):
    """A home does not say which writes it has made."""

    def applied(self, store: SharedObjects, member: str) -> dict[str, int]:
        return {}


class VersionsMixed(SharedHomes):
    """A home says what an object held one write ago, when it has been written often."""

    def held(self, store: SharedObjects, name: str) -> Held:
        found = super().held(store, name)
        if found.kind != "list" or found.version < 5:
            return found
        numbers = msgspec.msgpack.decode(found.data)
        return Held(found.kind, msgspec.msgpack.encode(numbers[:-1]), found.version)


# Batches.


class MarksDoNotWait(SharedReads):
    """What is not a batch runs before the batches that wait."""

    def instead(self, seat: Seat, lookups: Lookups, work: Work) -> Work | None:
        slots = list(lookups.slots)
        lookups.slots.clear()
        found = super().instead(seat, lookups, work)
        lookups.slots.extendleft(reversed(slots))
        return found


class ShownForgotten(SharedReads):
    """What a batch has read while it asked may be another thing when it runs."""

    def _show(self, seat: Seat, slot: Slot) -> None:
        slot.seek.shown.clear()
        super()._show(seat, slot)


class ServedUnwritten(SharedReads):
    """A batch counts as run before a server has what it wrote."""

    def writes_first(self, event: Ran) -> bool:
        super().writes_first(event)
        seat = event.seat
        assert seat.lookups is not None
        seat.lookups.writing = False
        seat.starved -= 1
        for order in self._servers._orders.values():
            if order.event is event:
                order.event = None
        return False


def _with(reads: type[SharedReads] = SharedReads, homes: type[SharedHomes] = SharedHomes) -> Parts:
    return Parts(worker=WorkerParts(shared_reads=reads, shared_homes=homes))


def _cached(mutation: type[Cache]) -> Parts:
    return _with(type(mutation.__name__, (SharedReads,), {"cache": mutation}))


def _asking(mutation: type[Asking]) -> Parts:
    return _with(type(mutation.__name__, (SharedReads,), {"asking": mutation}))


SHARED_OBJECT_MUTATIONS: dict[str, Parts] = {
    **{
        mutation_name(each): _cached(each)
        for each in (AnyAge, OwnUnseen, ConfirmedForgotten, NeverConfirmed, OlderWins, KeptWhenWritten)
    },
    **{mutation_name(each): _asking(each) for each in (AgeFromAnswer, JoinsAny, NotAskedAgain)},
    **{mutation_name(each): _with(homes=each) for each in (AppliedUnsaid, VersionsMixed)},
    **{mutation_name(each): _with(each) for each in (MarksDoNotWait, ShownForgotten, ServedUnwritten)},
}
