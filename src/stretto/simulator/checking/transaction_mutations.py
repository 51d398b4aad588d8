"""Bugs in the protocol of transactions, planted to see that the simulation catches each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from zlib import crc32

from stretto.protocol.transactions import Conflicts, EntityName, Invoke, Look, Proceed, Round, Verdict
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.engine.entities import EntityParts
from stretto.transactions import log
from stretto.transactions.attempt import Attempt, WorkerParts
from stretto.transactions.conflicts import Decision, decided
from stretto.transactions.epoch import Epoch, EpochParts
from stretto.transactions.events import StateOpened
from stretto.transactions.execution import Execution, Part, Root
from stretto.transactions.ingress import Ingress
from stretto.transactions.locks import Locks
from stretto.transactions.log import Content, Logged
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.sequencing import Sequencer
from stretto.transactions.sessions import Kept, Sessions, Standing

# Conflicts.


def conflicts_ignored(conflicts: Iterable[Conflicts], reordering: bool) -> Decision:
    """All transactions of an epoch commit."""
    return Decision([], decided(conflicts, reordering).reordered)


def skew_allowed(conflicts: Iterable[Conflicts], reordering: bool) -> Decision:
    """A transaction that reads what a lower one writes commits, also if it writes what a lower one has read."""
    found = list(conflicts)
    writes_written = {tid for each in found for tid in each.writes_written}
    reads_written = {tid for each in found for tid in each.reads_written}
    return Decision(sorted(writes_written), reads_written - writes_written)


# Execution.


class NewEntitiesAllowed(Execution):
    """In the fallback, a transaction may use entities that it holds no lock of."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._locks = None


class HandlersDoNotShare(Execution):
    """Two handlers of a transaction on one entity do not see what the other one does."""

    def _start(self, part: Part, caller: int, invoke: Any) -> None:
        part.instances.pop(invoke.request.entity, None)
        super()._start(part, caller, invoke)


class OrderOfArrival(Execution):
    """What a wave has for a transaction runs in the order in which it came."""

    def _wave(self, part: Part) -> None:
        items, part.waiting = part.waiting, []
        for sender, item in items:
            if isinstance(item, Invoke):
                self._start(part, sender, item)
            else:
                self._resume(part, item)


class WavesRunAhead(Execution):
    """When a transaction ends in the fallback, others run their next wave before other workers have sent theirs."""

    def _may_run(self, tid: int) -> bool:
        return True


class RootDoesNotWait(Execution):
    """A transaction has ended when its root has, although calls that nobody awaits still run."""

    def _end(self, part: Part, *args: Any, **kwargs: Any) -> None:
        super()._end(part, *args, **kwargs)
        if part.tid in self.roots:
            self._note_end(part, self.roots[part.tid])

    def _is_over(self, part: Part, root: Root) -> bool:
        return root.value is not None or bool(root.failures) or super()._is_over(part, root)


class SharesGivenBackEarly(Execution):
    """A worker gives its shares back while something of the transaction still runs on it."""

    def _end(self, part: Part, *args: Any, **kwargs: Any) -> None:
        super()._end(part, *args, **kwargs)
        if part.live and part.tid not in self.roots:
            self._give_back(part)


class LocksForAll(Locks):
    """The fallback runs all losers at once."""

    def _granted(self, name: EntityName) -> list[int]:
        self._alone.clear()
        self._holders[name] = set()
        queue = self._queues[name]
        self._queues[name] = type(queue)((tid, False) for tid, _ in queue)
        return super()._granted(name)


class UpgradesAmongReaders(Locks):
    """A transaction may write what it was to read only, while others read it."""

    def may_write(self, tid: int, name: EntityName) -> bool:
        return True


# Epochs.


class AbortedWritesCount(Epoch):
    """What a transaction wrote before it was aborted stays."""

    def _commit(self, decision: Decision) -> None:
        for tid in sorted(self._aborted):
            if tid in self._dry.parts:
                self._write(self._dry.parts[tid].writes())
        super()._commit(decision)


class AbortsNotTold(Epoch):
    """Other workers do not know which transactions were aborted."""

    def _send_wave(self, execution: Execution, aborted: list[int]) -> None:
        super()._send_wave(execution, [])


class RepliesBeforeTheCut(Epoch):
    """Clients have replies before it is durable which calls the epoch has."""

    def start(self) -> None:
        self._is_durable = True
        super().start()


class FallbackNotInSnapshots(Epoch):
    """A snapshot does not have what the fallback wrote."""

    def _release(self, verdict: Verdict) -> None:
        before = set(self._setting.changed.unsaved)
        super()._release(verdict)
        self._setting.changed.unsaved.intersection_update(before)


class FallbackWritesTwoTimes(Epoch):
    """A transaction that is run again in the next epoch has left its writes already."""

    def _release(self, verdict: Verdict) -> None:
        super()._release(Verdict(verdict.tid, True))


class VerdictsForKnownOnly(Epoch):
    """A worker on which a transaction ran in the fallback, but not in the dry run, does not hear how it ended."""

    def _conclude(self, tid: int, root: Root) -> None:
        root.participants &= self._dry.roots[tid].participants
        super()._conclude(tid, root)


class RankedByTid(Epoch):
    """What the fallback commits is said to be in the order of TIDs."""

    def _conclude(self, tid: int, root: Root) -> None:
        self._tid = tid
        super()._conclude(tid, root)

    def _rank(self) -> int:
        return self._tid


# The log, sequencing and sessions.


class CutsForgotten(Ingress):
    """A replay takes the calls of the log as they come, and not as they were."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cuts = {}


class TakenBeforeDurable(Ingress):
    """Calls and cuts count before they are durable."""

    def append(self, entry: log.Entry) -> bytes:
        data = super().append(entry)
        self.written(self.end)
        return data


class NumberedAnew(Ingress):
    """The number of a call, which seeds its random numbers, is not its place in the whole log."""

    def _add(self, position: int, end: int, call: Logged) -> None:
        taken, self.taken = self.taken, 0
        super()._add(position, end, call)
        self.taken = taken


class TrimmedTooFar(Ingress):
    """After a snapshot, calls that no epoch has taken are removed from the log."""

    def position(self) -> int:
        return self.end


def torn_tail_read(data: bytes, position: int) -> Content:
    """The checksum of an entry is not looked at."""
    found = bytearray(data)
    offset = 0
    while offset + 8 <= len(found):
        end = offset + 8 + int.from_bytes(found[offset : offset + 4], "little")
        found[offset + 4 : offset + 8] = crc32(found[offset + 8 : end]).to_bytes(4, "little")
        offset = end
    return log.read(bytes(found), position)


class TidsCollide(Sequencer):
    """A worker assigns some TIDs twice."""

    def assign(self) -> int:
        tid = super().assign()
        self.counter -= 1 if self.counter % 3 == 2 else 0
        return tid


class CounterForgotten(Sequencer):
    """After a failure, a worker counts from the beginning."""

    def __init__(self, worker: int, workers: int, counter: int = 0) -> None:
        super().__init__(worker, workers, 0)


class RepeatsRun(Sessions):
    """A call that comes twice runs twice."""

    def standing(self, origin: Any) -> Standing:
        found = super().standing(origin)
        return Standing.NEW if found is Standing.PENDING else found


class SessionsForgotten(Sessions):
    """A snapshot does not have which calls were answered."""

    def kept(self) -> list[Kept]:
        return []


class RepliesForgotten(Sessions):
    """A reply is not kept until the client has it."""

    def settle(self, origin: Any) -> None:
        super().settle(origin)
        self._of(origin.client).replies = {}

    def standing(self, origin: Any) -> Standing:
        found = super().standing(origin)
        session = self._of(origin.client)
        return Standing.SETTLED if found is Standing.NEW and origin.number < max(session.pending, default=0) else found


# Attempts and snapshots.


class DoesNotWaitForOthers(TransactionWorker):
    """A worker runs epochs as soon as it has its own state, before the others are in the attempt."""

    def _on_opened(self, event: StateOpened) -> None:
        super()._on_opened(event)
        if self._own is not None:
            self._on_proceed("", Proceed(self._own.number, 0))


class EarlierAttemptsHeard(TransactionWorker):
    """Rounds of an earlier attempt count."""

    def _on_round(self, sender: str, frame: Round) -> None:
        if self._own is not None:
            frame = Round(self._own.number, frame.epoch, frame.number, frame.body)
        super()._on_round(sender, frame)


class OnlyTheLastPiece(TransactionWorker):
    """Of a snapshot's pieces only the last one is loaded."""

    def _on_opened(self, event: StateOpened) -> None:
        super()._on_opened(replace(event, pieces=event.pieces[-1:]))


class AgainForgotten(TransactionWorker):
    """A snapshot does not have the transactions that run again."""

    def _take_snapshot(self, own: Attempt) -> None:
        again, own.again = own.again, []
        super()._take_snapshot(own)
        own.again = again


class LooksAtOnce(TransactionWorker):
    """What only reads sees whatever its worker has, however old."""

    def _look(self, own: Attempt, frame: Look) -> None:
        super()._look(own, Look(frame.origin, frame.request, 0))


def _of(within: WorkerParts) -> EntityParts:
    return EntityParts(within=within)


def _in_epoch(parts: EpochParts) -> EntityParts:
    return _of(WorkerParts(in_epoch=parts))


_EXECUTIONS = (
    NewEntitiesAllowed,
    HandlersDoNotShare,
    OrderOfArrival,
    WavesRunAhead,
    RootDoesNotWait,
    SharesGivenBackEarly,
)
_EPOCHS = (
    AbortedWritesCount,
    AbortsNotTold,
    RepliesBeforeTheCut,
    FallbackNotInSnapshots,
    FallbackWritesTwoTimes,
    VerdictsForKnownOnly,
    RankedByTid,
)
_LOCKS = (LocksForAll, UpgradesAmongReaders)
_INGRESSES = (CutsForgotten, TakenBeforeDurable, NumberedAnew, TrimmedTooFar)
_SEQUENCERS = (TidsCollide, CounterForgotten)
_SESSIONS = (RepeatsRun, SessionsForgotten, RepliesForgotten)
_WORKERS = (DoesNotWaitForOthers, EarlierAttemptsHeard, OnlyTheLastPiece, AgainForgotten, LooksAtOnce)

TRANSACTION_MUTATIONS: dict[str, EntityParts] = {
    "conflicts-ignored": _in_epoch(EpochParts(decide=conflicts_ignored)),
    "skew-allowed": _in_epoch(EpochParts(decide=skew_allowed)),
    **{mutation_name(each): _in_epoch(EpochParts(execution=each)) for each in _EXECUTIONS},
    **{mutation_name(each): _in_epoch(EpochParts(locks=each)) for each in _LOCKS},
    **{mutation_name(each): _of(WorkerParts(epoch=each)) for each in _EPOCHS},
    **{mutation_name(each): _of(WorkerParts(ingress=each)) for each in _INGRESSES},
    "torn-tail-read": _of(WorkerParts(read_log=torn_tail_read)),
    **{mutation_name(each): _of(WorkerParts(sequencer=each)) for each in _SEQUENCERS},
    **{mutation_name(each): _of(WorkerParts(sessions=each)) for each in _SESSIONS},
    **{mutation_name(each): EntityParts(worker=each) for each in _WORKERS},
}
