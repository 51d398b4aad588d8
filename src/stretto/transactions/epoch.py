"""One epoch on one worker: dry run, conflicts, commit, fallback (styx.txt 6-7).

Workers go through the same rounds, and a round is over when it has come from all of them:

    EXECUTE    waves, until no worker has anything left: then every transaction has run on the state before the epoch
    CONFLICTS  one round: every worker knows all conflicts and decides alike. It is sent when the cut of the epoch is
               durable, so that who has it from all may reply
    FALLBACK   waves, in which the losers run under locks, until no worker has anything left

What differs from the paper: reads and writes are not broadcast. Each worker finds the conflicts on its own entities,
and only the TIDs that have one are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from stretto.errors import InvariantError, ProtocolError
from stretto.protocol.transactions import (
    Acknowledged,
    Conflicts,
    EntityName,
    Failure,
    Invoke,
    Place,
    Returned,
    Verdict,
    Wave,
)
from stretto.transactions import conflicts
from stretto.transactions.catalog import Catalog
from stretto.transactions.changes import Changes
from stretto.transactions.conflicts import ABORTED, FALLBACK, Decision
from stretto.transactions.delayed import DelayedCalls
from stretto.transactions.emitted import EmittedRows
from stretto.transactions.execution import Execution, Outgoing, Part, Root
from stretto.transactions.locks import Locks
from stretto.transactions.log import Logged, Stopped
from stretto.transactions.placement import Placement
from stretto.transactions.sequencing import worker_of

RANKS_MAX = 1 << 20
"""More than there are workers, and transactions of one worker in an epoch."""


class Phase(Enum):
    EXECUTE = "execute"
    CONFLICTS = "conflicts"
    FALLBACK = "fallback"
    DONE = "done"


class Sequenced(msgspec.Struct, frozen=True, gc=False):
    """A call with its place in the order. `number` is its number in the log, which seeds its random numbers."""

    tid: int
    number: int
    call: Logged


class Settled(msgspec.Struct, frozen=True, gc=False):
    """How a transaction of this worker ended. Without a place, it runs again in the next epoch."""

    transaction: Sequenced
    value: bytes | None
    failure: Failure | None
    place: Place | None


@dataclass(frozen=True)
class EpochParts:
    """The classes that an epoch is made of. The simulator plants a bug by replacing one."""

    execution: type[Execution] = Execution
    locks: type[Locks] = Locks
    decide: Callable[[Iterable[Conflicts], bool], Decision] = conflicts.decided


@dataclass
class Setting:
    """What an epoch needs of its worker."""

    worker: int
    placement: Placement
    catalog: Catalog
    state: dict[EntityName, bytes]
    changed: Changes[EntityName]
    """Entities that were written."""
    send: Callable[[int, int, Wave | Conflicts], None]
    """Send the body of a round to a worker: worker, number, body."""
    settle: Callable[[Settled], None]
    reordering: bool = True
    fallback: bool = True
    parts: EpochParts = field(default_factory=EpochParts)
    stopped: AbstractSet[Stopped] = frozenset()
    """Transactions that ran out of time here."""
    delayed: DelayedCalls = field(default_factory=DelayedCalls)
    emitted: EmittedRows = field(default_factory=EmittedRows)
    refuses_rows: bool = False
    """Whether transactions that emit rows here are aborted in this epoch."""
    is_storing: bool = False
    """Whether a snapshot is still being written here as the epoch begins."""
    wrote: Callable[[Mapping[EntityName, bytes | None]], None] | None = None
    """Hears of writes, if there are entities that expire."""

    def stopped_in(self, epoch: int, in_fallback: bool) -> frozenset[str]:
        """Returns the seeds of the transactions that are aborted where they come here in a phase."""
        return frozenset(each.seed for each in self.stopped if each.in_fallback is in_fallback and each.epoch <= epoch)


@dataclass
class _Outbox:
    """What goes to others in the fallback, besides what handlers send."""

    granted: dict[int, list[int]] = field(default_factory=dict)
    verdicts: dict[int, list[Verdict]] = field(default_factory=dict)


class Epoch:
    """An epoch that runs. `counter` is that of this worker after its transactions were sequenced."""

    def __init__(
        self, setting: Setting, number: int, transactions: list[Sequenced], counter: int, wants_snapshot: bool
    ) -> None:
        self._setting = setting
        self.number = number
        self.phase = Phase.EXECUTE
        self.transactions = {each.tid: each for each in transactions}
        self.counters = [counter]
        self.lost = 0
        """How many of its transactions lost to others."""
        self._wants_snapshot = self._is_wanted = wants_snapshot
        self._is_storing = setting.is_storing
        self._others = [each for each in range(1, setting.placement.workers + 1) if each != setting.worker]
        self._received: dict[int, dict[int, Wave | Conflicts]] = {}
        self._round = 0
        self._is_busy = True
        self._has_sent = False
        self._is_durable = False
        self._aborted: set[int] = set()
        self._own_conflicts = Conflicts([], [], [])
        self._dry = setting.parts.execution(setting.worker, setting.placement, setting.catalog, setting.state)
        self._dry.stopped = setting.stopped_in(number, False)
        self._dry.refuses_delayed = self._refuses_delayed = setting.delayed.is_full
        self._dry.refuses_rows = setting.refuses_rows
        self._fallback: Execution | None = None
        self._locks = setting.parts.locks()
        self._grants: dict[int, int] = {}
        self._outbox = _Outbox()
        self._concluded = 0

    @property
    def snapshot(self) -> bool:
        """Whether a snapshot is taken at the end, which all workers know alike: if one wants it, and none still writes
        the last one. Otherwise a place that moves might never have all that it took written (see moving.py)."""
        return self._is_wanted and not self._is_storing

    # What happens.

    def start(self) -> None:
        for tid, each in sorted(self.transactions.items()):
            self._dry.begin(tid, each.call.request, each.call.at_us, self._seed(each))
        self._run_dry()
        self._advance()

    def arrived(self, sender: int, number: int, body: Wave | Conflicts) -> None:
        """A round has come. One that has come before changes nothing."""
        if number >= self._round and self.phase is not Phase.DONE:
            self._received.setdefault(number, {}).setdefault(sender, body)
            self._advance()

    def cut_is_durable(self) -> None:
        """All calls of the epoch on this worker, and where it was cut, are in the log for good."""
        if not self._is_durable:
            self._is_durable = True
            if self.phase is Phase.CONFLICTS:
                self._send_conflicts()
                self._advance()

    def _seed(self, each: Sequenced) -> str:
        return f"{self._setting.worker}-{each.number}"

    # Rounds.

    def _advance(self) -> None:
        steps = {Phase.EXECUTE: self._executed, Phase.CONFLICTS: self._decide, Phase.FALLBACK: self._fell_back}
        while self.phase is not Phase.DONE and self._has_sent and self._is_complete():
            bodies = self._received.pop(self._round, {})
            self._round += 1
            self._has_sent = False
            steps[self.phase](bodies)

    def _is_complete(self) -> bool:
        return len(self._received.get(self._round, ())) == len(self._others)

    def _send_wave(self, execution: Execution, aborted: list[int]) -> None:
        outgoing, outbox = execution.take_outgoing(), self._outbox
        self._outbox = _Outbox()
        self._is_busy = bool(outgoing or outbox.granted or outbox.verdicts or execution.has_work)
        for worker in self._others:
            sent = outgoing.get(worker, Outgoing())
            wave = Wave(
                self._is_busy,
                self.counters[0],
                self._wants_snapshot,
                self._setting.is_storing,
                sent.calls,
                sent.returns,
                sent.shares,
                aborted,
                outbox.granted.get(worker, []),
                outbox.verdicts.get(worker, []),
            )
            self._setting.send(worker, self._round, wave)
        self._has_sent = True

    def _send_conflicts(self) -> None:
        for worker in self._others:
            self._setting.send(worker, self._round, self._own_conflicts)
        self._has_sent = True

    def _waves(self, bodies: Mapping[int, Wave | Conflicts]) -> dict[int, Wave]:
        waves = {sender: body for sender, body in sorted(bodies.items()) if isinstance(body, Wave)}
        if len(waves) != len(bodies):
            raise ProtocolError("a worker is in another phase of the epoch", f"epoch {self.number}: {bodies}")
        return waves

    # The dry run.

    def _executed(self, bodies: Mapping[int, Wave | Conflicts]) -> None:
        waves = self._waves(bodies)
        for wave in waves.values():
            self._aborted.update(wave.aborted)
            self._is_wanted |= wave.snapshot
            self._is_storing |= wave.storing
        self.counters = [self.counters[0], *(wave.counter for wave in waves.values())]
        if not self._is_busy and not any(wave.busy for wave in waves.values()):
            self._find_conflicts()
            return
        _deliver(self._dry, waves)
        self._run_dry()

    def _run_dry(self) -> None:
        self._dry.run()
        roots = self._dry.roots
        aborted = sorted(tid for tid in self._dry.take_completed() if roots[tid].failures)
        self._aborted.update(aborted)
        self._send_wave(self._dry, aborted)

    def _find_conflicts(self) -> None:
        incomplete = [tid for tid, root in self._dry.roots.items() if not root.complete]
        if incomplete:
            raise InvariantError("transactions have not ended, and nothing is under way", f"TIDs {incomplete}")
        self.phase = Phase.CONFLICTS
        sets = {tid: part.sets() for tid, part in self._dry.parts.items() if tid not in self._aborted}
        self._own_conflicts = conflicts.found(sets)
        if self._is_durable:
            self._send_conflicts()

    # Conflicts and commit.

    def _decide(self, bodies: Mapping[int, Wave | Conflicts]) -> None:
        others = [body for _, body in sorted(bodies.items()) if isinstance(body, Conflicts)]
        if len(others) != len(bodies):
            raise ProtocolError("a worker is in another phase of the epoch", f"epoch {self.number}: {bodies}")
        decision = self._setting.parts.decide([self._own_conflicts, *others], self._setting.reordering)
        self._commit(decision)
        self.lost = sum(tid in self.transactions for tid in decision.losers)
        if not decision.losers or not self._setting.fallback:
            for tid in decision.losers:
                self._again(tid)
            self.phase = Phase.DONE
            return
        self._begin_fallback(decision.losers)

    def _commit(self, decision: Decision) -> None:
        not_now = {*decision.losers, *self._aborted}
        committed = [tid for tid in self._dry.parts if tid not in not_now]
        for tid in sorted(committed, key=lambda tid: decision.place(self.number, tid)):
            self._keep(self._dry.parts[tid])
        for tid, root in sorted(self._dry.roots.items()):
            if tid in self._aborted:
                self._settle(tid, root, Place(self.number, ABORTED, tid))
            elif tid not in not_now:
                self._settle(tid, root, decision.place(self.number, tid))

    def _keep(self, part: Part) -> None:
        """A transaction has committed, and this is what it did here."""
        self._write(part.writes())
        self._setting.delayed.schedule(part.delayed)
        self._setting.emitted.stage(part.emitted)

    def _write(self, writes: Mapping[EntityName, bytes | None]) -> None:
        setting = self._setting
        for name, state in writes.items():
            if state is None:
                setting.state.pop(name, None)
            else:
                setting.state[name] = state
        setting.changed.update(writes)
        if setting.wrote is not None:
            setting.wrote(writes)

    def _settle(self, tid: int, root: Root, place: Place) -> None:
        self._setting.settle(Settled(self.transactions[tid], root.value, root.failure, place))

    def _again(self, tid: int) -> None:
        if tid in self.transactions:
            self._setting.settle(Settled(self.transactions[tid], None, None, None))

    # The fallback.

    def _begin_fallback(self, losers: list[int]) -> None:
        self.phase = Phase.FALLBACK
        setting = self._setting
        parts = self._dry.parts
        known = {tid: parts[tid].sets() for tid in losers if tid in parts and parts[tid].runs_here}
        self._fallback = setting.parts.execution(
            setting.worker, setting.placement, setting.catalog, setting.state, self._locks
        )
        self._fallback.stopped = setting.stopped_in(self.number, True)
        self._fallback.refuses_delayed = self._refuses_delayed
        self._fallback.refuses_rows = setting.refuses_rows
        for tid, sets in sorted(known.items()):
            self._locks.add(tid, sets)
        self._grants = {tid: len(self._dry.roots[tid].participants) for tid in losers if tid in self._dry.roots}
        self._grant(self._locks.begin())
        self._run_fallback(self._fallback)

    def _fell_back(self, bodies: Mapping[int, Wave | Conflicts]) -> None:
        waves = self._waves(bodies)
        execution = self._fallback
        assert execution is not None
        if not self._is_busy and not any(wave.busy for wave in waves.values()):
            if self._grants:
                raise InvariantError("transactions wait for locks, and nothing runs", f"TIDs {sorted(self._grants)}")
            self.phase = Phase.DONE
            return
        for wave in waves.values():
            for verdict in wave.verdicts:
                self._release(verdict)
            for tid in wave.granted:
                self._count_grant(tid)
        _deliver(execution, waves)
        self._run_fallback(execution)

    def _grant(self, tids: list[int]) -> None:
        """These transactions have all their locks here: their roots count that."""
        for tid in tids:
            home = worker_of(tid, self._setting.placement.workers)
            if home == self._setting.worker:
                self._count_grant(tid)
            else:
                self._outbox.granted.setdefault(home, []).append(tid)

    def _count_grant(self, tid: int) -> None:
        self._grants[tid] -= 1
        if self._grants[tid] == 0:
            each = self.transactions[tid]
            assert self._fallback is not None
            self._fallback.begin(tid, each.call.request, each.call.at_us, self._seed(each))

    def _run_fallback(self, execution: Execution) -> None:
        while True:
            execution.run()
            ended = execution.take_completed()
            if not ended:
                break
            for tid in sorted(ended):
                self._conclude(tid, execution.roots[tid])
        self._send_wave(execution, [])

    def _conclude(self, tid: int, root: Root) -> None:
        """A transaction of this worker has run under its locks."""
        del self._grants[tid]
        commits = root.failure is None and not root.is_new
        if root.is_new:
            self._again(tid)
        else:
            self._settle(tid, root, Place(self.number, FALLBACK, self._rank()))
        verdict = Verdict(tid, commits)
        for worker in sorted((self._dry.roots[tid].participants | root.participants) - {self._setting.worker}):
            self._outbox.verdicts.setdefault(worker, []).append(verdict)
        self._release(verdict)

    def _rank(self) -> int:
        """Returns the place of a transaction among those that the fallback ends: by round, and on one worker by their
        order. Two that end on different workers in one round have both held their locks before it: they do not
        conflict, and the number of the worker decides."""
        self._concluded += 1
        return (self._round * RANKS_MAX + self._concluded) * RANKS_MAX + self._setting.worker

    def _release(self, verdict: Verdict) -> None:
        assert self._fallback is not None
        part = self._fallback.drop(verdict.tid)
        if verdict.commit and part is not None:
            self._keep(part)
        self._grant(self._locks.release(verdict.tid))


def _deliver(execution: Execution, waves: Mapping[int, Wave]) -> None:
    for sender, wave in waves.items():
        items: list[Acknowledged | Invoke | Returned] = [*wave.shares, *wave.calls, *wave.returns]
        for item in items:
            execution.deliver(sender, item)
