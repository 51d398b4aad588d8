"""What batches here read of shared objects: it is here before they run, one round trip for all that is missing.

Each space of a job has a cache here. What a batch asks for and the cache has not, fresh enough, is asked of the homes
of the objects, or of a server. What was written here is seen here at once, in `sharing/cache.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa
from pyarrow import RecordBatch

from stretto.actors.channel import Message
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.partitioning import hash_array
from stretto.actors.seat import Seat
from stretto.actors.sharing import Lookups, Seek, Sharing, Slot
from stretto.actors.work import Errand, Outcome, Work
from stretto.protocol.sharing import ObjectsAsked, ObjectsSent
from stretto.sharing.cache import Cache, Copy
from stretto.sharing.contents import ObjectContent, Ref
from stretto.sharing.state import SharedState
from stretto.worker.events import Ran
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Handlers, Host, Part
from stretto.worker.sharing.asking import Asked, Asking
from stretto.worker.sharing.servers import Servers

CONFIRM_AFTER = 256
"""When so many writes to one home are not confirmed, it is asked which it has made."""


class ReadsHost(Host, Protocol):
    """The machine, which counts a run when its writes are confirmed."""

    def ran(self, event: Ran) -> None: ...


class SharedReads(Part):
    """The batches here that wait for objects, and the caches of this worker."""

    cache: type[Cache] = Cache
    asking: type[Asking] = Asking

    def __init__(self, host: ReadsHost) -> None:
        self._host = host
        self._caches: dict[tuple[str, str], Cache] = {}
        self._asking = self.asking()
        self._servers = Servers(host, self)

    def frames(self) -> FrameHandlers:
        return {ObjectsSent: self._on_sent}

    def events(self) -> Handlers:
        return self._servers.events()

    def errands(self) -> dict[type[Errand], AfterRun]:
        return {Seek: AfterRun(completes=self._sought)}

    def cache_of(self, job: str, state: SharedState) -> Cache:
        """Returns the cache of a space of a job."""
        cache = self._caches.get((job, state.space))
        if cache is None:
            cache = self._caches[job, state.space] = self.cache(state.cached)
        return cache

    # What runs next.

    def instead(self, seat: Seat, lookups: Lookups, work: Work) -> Work | None:
        """Returns what runs for a piece of work: a batch asks for its objects first, and what is not a batch waits for
        all that are before it."""
        if work is lookups.begun:
            lookups.begun = None
            return work
        if type(work) is Message and type(work.payload) is RecordBatch:
            sharing = self._sharing(seat)
            if not sharing.asks:
                sharing.see({})
                return work
            slot = Slot(Seek(work), self._host.now_ns)
            lookups.slots.append(slot)
            return slot.seek
        if not lookups.slots:
            self._sharing(seat).see({})
            return work
        lookups.held = work
        self._host.offer(seat)
        return None

    def next_work(self, seat: Seat, lookups: Lookups) -> Work | None:
        """Returns a batch whose objects are here, or what has waited for all batches."""
        slot = lookups.next_slot()
        if slot is not None and self._is_uncertain(seat, slot):
            self._host.offer(seat)
            return None
        if slot is not None and not slot.seek.done:
            slot.seeking = True
            self._show(seat, slot)
            lookups.begun = slot.seek
            return slot.seek
        if slot is not None:
            lookups.slots.remove(slot)
            self._show(seat, slot)
            self._release(seat, slot)
            lookups.begun = slot.seek.message
            return slot.seek.message
        if lookups.held is not None and not lookups.slots:
            held, lookups.held = lookups.held, None
            self._sharing(seat).see({})
            lookups.begun = held
            return held
        return None

    def _is_uncertain(self, seat: Seat, slot: Slot) -> bool:
        """Whether a batch has copies that cannot be used any more; they are then asked for again."""
        uncertain = [ref for ref, copy in slot.copies.items() if copy.uncertain]
        for ref in uncertain:
            cache = self.cache_of(seat.address.job, self._sharing(seat).spaces[ref.space])
            cache.release(ref.name, slot.copies.pop(ref))
        for space in dict.fromkeys(ref.space for ref in uncertain):
            self._ask(seat, slot, space, [ref for ref in uncertain if ref.space == space])
        return bool(uncertain)

    def _show(self, seat: Seat, slot: Slot) -> None:
        """Let the next run see the objects that a batch has asked for."""
        sharing = self._sharing(seat)
        views: dict[str, dict[str, ObjectContent | None]] = {}
        for ref, copy in slot.copies.items():
            cache = self.cache_of(seat.address.job, sharing.spaces[ref.space])
            views.setdefault(ref.space, {})[ref.name] = cache.seen(ref.name, copy)
        for (space, name), content in slot.seek.shown.items():
            views.setdefault(space, {})[name] = content
        sharing.see(views)

    def _release(self, seat: Seat, slot: Slot) -> None:
        sharing = self._sharing(seat)
        for ref, copy in slot.copies.items():
            self.cache_of(seat.address.job, sharing.spaces[ref.space]).release(ref.name, copy)

    def _sharing(self, seat: Seat) -> Sharing:
        sharing: Sharing | None = seat.instance.sharing
        assert sharing is not None
        return sharing

    # What a batch asks for.

    def _sought(self, seat: Seat, errand: Seek, outcome: Outcome) -> None:
        """A batch has said what it reads."""
        assert seat.lookups is not None
        slot = next(each for each in seat.lookups.slots if each.seek is errand)
        slot.seeking = False
        missing: dict[str, list[Ref]] = {}
        asked = [ref for ref in dict.fromkeys(errand.refs) if ref not in slot.copies]
        for ref in asked:
            if not self._find(seat, slot, ref):
                missing.setdefault(ref.space, []).append(ref)
        _count(seat, len(asked), sum(map(len, missing.values())))
        for space, refs in missing.items():
            self._ask(seat, slot, space, refs)
        self._trim(seat)
        self._host.offer(seat)

    def _find(self, seat: Seat, slot: Slot, ref: Ref) -> bool:
        state = self._sharing(seat).spaces[ref.space]
        copy = self.cache_of(seat.address.job, state).find(ref.name, state.freshness, slot.taken_ns)
        if copy is not None:
            slot.copies[ref] = copy
        return copy is not None

    def _ask(self, seat: Seat, slot: Slot, space: str, refs: list[Ref]) -> None:
        """Ask for objects that are not here. What is on its way already, and is fresh enough, is waited for."""
        state = self._sharing(seat).spaces[space]
        slot.missing += len(refs)
        job = seat.address.job
        left = [ref for ref in refs if not self._asking.join(job, ref, (seat, slot), state.freshness, slot.taken_ns)]
        if not left:
            return
        if state.server is not None:
            self._servers.read(self._asking.ask(job, space, None, left, (seat, slot), self._host.now_ns), state)
            return
        for partition, each in self._by_partition(seat, space, left).items():
            self._send(self._asking.ask(job, space, partition, each, (seat, slot), self._host.now_ns))
        self._set_alarm()

    def _by_partition(self, seat: Seat, space: str, refs: list[Ref]) -> dict[int, list[Ref]]:
        found: dict[int, list[Ref]] = {}
        for ref, partition in zip(refs, self._partitions(seat, space, [ref.name for ref in refs]), strict=True):
            found.setdefault(partition, []).append(ref)
        return found

    def _partitions(self, seat: Seat, space: str, names: list[str]) -> list[int]:
        """Returns the partition of each object, by the same rule as rows have."""
        deployment = self._host.jobs[seat.address.job].deployment
        assert deployment is not None
        store = deployment.functions[space]
        if store.parallelism == 1:
            return [0] * len(names)
        found: list[int] = store.shards.partitions_of(hash_array(pa.array(names, pa.string()))).tolist()
        return found

    def _send(self, asked: Asked) -> None:
        job = self._host.jobs.get(asked.job)
        if job is not None and asked.partition is not None:
            member = job.placement[asked.space][asked.partition]
            names = tuple(ref.name for ref in asked.refs)
            self._host.send(member, ObjectsAsked(asked.job, asked.space, asked.partition, asked.number, names))

    # What comes.

    def _on_sent(self, sender: str, frame: ObjectsSent) -> None:
        cache = self._caches.get((frame.job, frame.space))
        if cache is None or cache.predates(frame.partition, frame.applied):
            self._host.stale += 1  # The question stays, and is asked again.
            return
        asked = self._asking.answered(frame.number, frame.job)
        if asked is None or len(frame.objects) != len(asked.refs):
            self._host.stale += 1
            return
        included = {}
        for ref, held in zip(asked.refs, frame.objects, strict=True):
            content = None if held.kind is None else ObjectContent(held.kind, held.data)
            cache.take_in(ref.name, content, held.version, asked.asked_ns)
            included[ref.name] = held.version
        cache.confirm(frame.partition, frame.applied, included)
        self.arrived(asked, cache)
        self._set_alarm()

    def answered(self, asked: Asked) -> None:
        """A server has answered a question."""
        self._asking.answered(asked.number, asked.job)

    def arrived(self, asked: Asked, cache: Cache) -> None:
        """Objects are here: batches that have waited for the last of theirs can go on."""
        for ref, waiting in asked.waiting.items():
            copy = cache.copy_of(ref.name)
            for seat, slot in waiting:
                if seat.dropped:
                    continue
                slot.copies[ref] = _used(copy)
                slot.missing -= 1
                if not slot.missing:
                    self._host.offer(seat)
        for name in asked.superseded:
            cache.outdate(name)
        cache.trim()

    def _trim(self, seat: Seat) -> None:
        for state in self._sharing(seat).spaces.values():
            self.cache_of(seat.address.job, state).trim()

    # What is written.

    def writes_first(self, event: Ran) -> bool:
        """Whether a run waits until a server has what it wrote."""
        return self._servers.write(event)

    def after_run(self, seat: Seat, sharing: Sharing) -> None:
        """An instance has run: what it has written to the workers' memory is on its way."""
        if not sharing.made:
            return
        for space, made in sharing.take_made().items():
            state = sharing.spaces[space]
            cache = self.cache_of(seat.address.job, state)
            partitions = self._partitions(seat, space, [name for name, _, _ in made])
            for partition, (name, number, write) in zip(partitions, made, strict=True):
                cache.wrote((partition, sharing.writer), number, name, write, state.freshness)
                self.superseded(seat.address.job, state, name)
            self._have_confirmed(seat, space, cache, set(partitions))

    def superseded(self, job: str, state: SharedState, name: str) -> None:
        """An object was written here."""
        if state.freshness.drops_written:
            self._asking.supersede(job, state.space, name)

    def _have_confirmed(self, seat: Seat, space: str, cache: Cache, partitions: Iterable[int]) -> None:
        for partition in sorted(partitions):
            job = seat.address.job
            if cache.unconfirmed(partition) >= CONFIRM_AFTER and not self._asking.confirms(job, space, partition):
                self._send(self._asking.ask(job, space, partition, [], None, self._host.now_ns))
        self._set_alarm()

    # Time, and the end.

    def wake(self) -> None:
        for asked in self._asking.due(self._host.now_ns):
            self._send(asked)
        self._servers.wake()
        self._set_alarm()

    def dropped(self, job: LocalJob) -> None:
        self._asking.forget(job.job)
        self._servers.dropped(job.job)
        for key in [key for key in self._caches if key[0] == job.job]:
            del self._caches[key]
        for seat in job.all_seats():
            if seat.lookups is not None:
                seat.lookups.slots.clear()
                seat.lookups.held = None
        self._set_alarm()

    def set_alarm(self) -> None:
        """Something is due at another time."""
        self._set_alarm()

    def _set_alarm(self) -> None:
        self.due_ns = min(self._asking.next_ns, self._servers.next_ns, NEVER_NS)


def _count(seat: Seat, reads: int, fetches: int) -> None:
    """Counts what an instance asked for, and what of it was not here, in its metrics."""
    counts = seat.instance.ctx.counts
    counts["shared_reads"] = counts.get("shared_reads", 0) + reads
    counts["shared_fetches"] = counts.get("shared_fetches", 0) + fetches


def _used(copy: Copy) -> Copy:
    copy.users += 1
    return copy
