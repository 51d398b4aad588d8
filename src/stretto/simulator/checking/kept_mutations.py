"""Bugs in what entities keep between calls, planted to see that `kept_transactions.py` catches each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stretto.protocol.machines import Send
from stretto.protocol.transactions import Call, EntityName, Reply, Request, Verdict
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.entities import EntityParts
from stretto.transactions.ages import Ages
from stretto.transactions.attempt import Attempt, WorkerParts
from stretto.transactions.catalog import Catalog
from stretto.transactions.conflicts import Decision
from stretto.transactions.delayed import Delayed, DelayedCalls
from stretto.transactions.epoch import Epoch, EpochParts
from stretto.transactions.idempotency import KeptKey, Keys
from stretto.transactions.in_flight import InFlight
from stretto.transactions.ingress import Ingress
from stretto.transactions.locks import Locks
from stretto.transactions.log import Logged
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.sessions import Sessions

# Idempotency keys.


class KeysForgotten(Keys):
    """A snapshot does not have the keys."""

    def kept(self, is_whole: bool, now_us: int) -> list[KeptKey]:
        return []


class OnlyNewKeysKept(Keys):
    """The first piece of a chain does not have the keys of earlier ones."""

    def kept(self, is_whole: bool, now_us: int) -> list[KeptKey]:
        return super().kept(False, now_us)


class OtherCallsAnswered(Keys):
    """Another call under a key gets the reply of the first one."""

    def _fingerprint(self, request: Request) -> bytes:
        return b""


class AbortsRunAgain(Keys):
    """A call under a key runs again if the first one was aborted."""

    def replied(self, request: Request, reply: Reply) -> list[Reply]:
        found = super().replied(request, reply)
        if reply.failure is not None and request.key is not None:
            self._keys.pop(request.key, None)
        return found


class KeysOfOpenCallsUnknown(Keys):
    """A call that comes while the first one under its key runs is run as well."""

    def is_new(self, request: Request, now_us: int) -> bool:
        found = super().is_new(request, now_us)
        return found or self._keys[request.key or ""].reply is None


class RefusedTooSoon(Keys):
    """A call is refused because of one that may still be lost."""

    def logged(self, call: Logged) -> None:
        super().logged(call)
        self.written(call)


class KeysNotReplayed(Ingress):
    """After a failure, the keys of calls in the log are not known."""

    def __init__(self, sessions: Sessions, keys: Keys, *others: Any) -> None:
        super().__init__(sessions, type(keys)(keys._catalog, keys._kept_us), *others)
        self.keys = keys


# Delayed calls.


class DelayedForgotten(DelayedCalls):
    """A snapshot does not have the calls that wait."""

    def kept(self, is_whole: bool) -> list[tuple[str, Delayed | None]]:
        super().kept(is_whole)
        return []


class MadeCallsKept(DelayedCalls):
    """A later piece does not say which calls of earlier ones wait no longer."""

    def kept(self, is_whole: bool) -> list[tuple[str, Delayed | None]]:
        return [(name, each) for name, each in super().kept(is_whole) if each is not None]


class MadeAgain(DelayedCalls):
    """A replay makes a call that it schedules, although the log has it."""

    def schedule(self, calls: Iterable[Delayed]) -> None:
        found = list(calls)
        self._logged.difference_update(each.name for each in found)
        super().schedule(found)


class MadeTooSoon(DelayedCalls):
    """A call is made before it is due."""

    def next_due(self, now_us: int) -> Delayed | None:
        return super().next_due(now_us + 10_000)


class AbortedCallsDelayed(Epoch):
    """What an aborted transaction has scheduled is made."""

    def _commit(self, decision: Decision) -> None:
        for tid in sorted(self._aborted):
            if tid in self._dry.parts:
                self._setting.delayed.schedule(self._dry.parts[tid].delayed)
        super()._commit(decision)


class FallbackDelaysNothing(Epoch):
    """What a transaction schedules that the fallback commits is not made."""

    def _release(self, verdict: Verdict) -> None:
        assert self._fallback is not None
        part = self._fallback.parts.get(verdict.tid)
        if part is not None:
            part.delayed.clear()
        super()._release(verdict)


class NoLocksNoGrant(Locks):
    """A worker that has only delayed calls of a transaction does not say that it has all its locks there."""

    def begin(self) -> list[int]:
        return sorted(tid for name in self._queues for tid in self._granted(name))


# Entities that expire.


class ExpiresByTheClock(TransactionWorker):
    """What expires in an epoch depends on when it runs, also in a replay."""

    def _expire(self, own: Attempt) -> None:
        own.at_us = max(own.at_us, self._now_ns // 1_000)
        super()._expire(own)


class WatchedOnce(Ages):
    """An entity that was written again does not expire."""

    def next_us(self) -> int | None:
        while self._due and self._expires_us(self._due[0][1]) != self._due[0][0]:
            self._due.pop(0)
        return self._due[0][0] if self._due else None


class ExpiresTooSoon(Ages):
    """Entities expire before their time."""

    def expired(self, at_us: int) -> list[EntityName]:
        return super().expired(at_us + 10_000)


# Entities that are deleted.


class DeletedInSnapshots(TransactionWorker):
    """A later piece does not say which entities of earlier ones were deleted."""

    def _take_snapshot(self, own: Attempt) -> None:
        own.changed.unsaved.intersection_update(own.state)
        super()._take_snapshot(own)


class DeletedStay(Epoch):
    """What is deleted is not removed."""

    def _write(self, writes: Mapping[EntityName, bytes | None]) -> None:
        super()._write({name: state for name, state in writes.items() if state is not None})


# Limits.


class CountedFromNow(Ingress):
    """After a failure, calls in the log do not count as under way."""

    def __init__(
        self, sessions: Sessions, keys: Keys, delayed: DelayedCalls, in_flight: InFlight, *others: Any
    ) -> None:
        super().__init__(sessions, keys, delayed, type(in_flight)(self._nothing), *others)
        self.in_flight = in_flight

    _nothing = Catalog([])


class CountedForEver(InFlight):
    """Calls that have their reply count."""

    def ended(self, call: Logged) -> None:
        return


class RefusesInReplays(TransactionWorker):
    """A call is refused because of others that were answered before a failure."""

    def _on_call(self, sender: str, frame: Call) -> None:
        own = self._running()
        if own is not None:
            decided, own.decided = own.decided, -1
            super()._on_call(sender, frame)
            own.decided = decided


class RefusalsForgotten(TransactionWorker):
    """A call that was refused may run when it comes again."""

    def _take_in(self, own: Attempt, frame: Call) -> None:
        if own.ingress.in_flight.is_full(frame.request) and not self.replays():
            failure = own.ingress.in_flight.failure(frame.request)
            self._do(Send(frame.origin.client, Reply(frame.origin.client, frame.origin.number, None, failure)))
            return
        super()._take_in(own, frame)


class OneMore(InFlight):
    """The limit is one more than it should be."""

    def is_full(self, request: Request) -> bool:
        self._counts[request.entity] -= 1
        found = super().is_full(request)
        self._counts[request.entity] += 1
        return found


_KEYS = (KeysForgotten, OnlyNewKeysKept, OtherCallsAnswered, AbortsRunAgain, RefusedTooSoon, KeysOfOpenCallsUnknown)
_DELAYED = (DelayedForgotten, MadeCallsKept, MadeAgain, MadeTooSoon)
_LIMITS = (CountedForEver, OneMore)
_INGRESSES = (KeysNotReplayed, CountedFromNow)
_AGES = (WatchedOnce, ExpiresTooSoon)
_WORKERS = (ExpiresByTheClock, DeletedInSnapshots, RefusesInReplays, RefusalsForgotten)
_EPOCHS = (AbortedCallsDelayed, FallbackDelaysNothing, DeletedStay)

KEPT_MUTATIONS: dict[str, EntityParts] = {
    **{mutation_name(each): EntityParts(within=WorkerParts(keys=each)) for each in _KEYS},
    **{mutation_name(each): EntityParts(within=WorkerParts(delayed=each)) for each in _DELAYED},
    **{mutation_name(each): EntityParts(within=WorkerParts(epoch=each)) for each in _EPOCHS},
    mutation_name(NoLocksNoGrant): EntityParts(within=WorkerParts(in_epoch=EpochParts(locks=NoLocksNoGrant))),
    **{mutation_name(each): EntityParts(within=WorkerParts(ages=each)) for each in _AGES},
    **{mutation_name(each): EntityParts(worker=each) for each in _WORKERS},
    **{mutation_name(each): EntityParts(within=WorkerParts(in_flight=each)) for each in _LIMITS},
    **{mutation_name(each): EntityParts(within=WorkerParts(ingress=each)) for each in _INGRESSES},
}
