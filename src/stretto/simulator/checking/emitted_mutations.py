"""Planted bugs in emitted rows: each must be caught by `emitted_rows.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from stretto.actors.emitted import EmittedRow
from stretto.coordinator.machine import CoordinatorParts
from stretto.operators.emitted import EmittedFunction, EmittedReader
from stretto.protocol.entities import EntitiesAt
from stretto.protocol.transactions import EntityName, Row, Takeover
from stretto.simulator.checking.emitted_rows import EmittedParts
from stretto.simulator.checking.mutations import mutation_name
from stretto.simulator.checking.row_call_mutations import CallersUntold
from stretto.simulator.engine.durable import Parts
from stretto.transactions.attempt import Attempt
from stretto.transactions.attempt import WorkerParts as TransactionParts
from stretto.transactions.conflicts import Decision
from stretto.transactions.emitted import Bounds, EmittedRows, Name
from stretto.transactions.epoch import Epoch
from stretto.transactions.machine import TransactionWorker
from stretto.transactions.moving import Departure, PartOfCopy, changed_rest
from stretto.worker.emitted import Fetching
from stretto.worker.machine import WorkerParts

# At the place of the entities.


class AbortedRowsStay(Epoch):
    """What an aborted transaction has emitted is there."""

    def _commit(self, decision: Decision) -> None:
        super()._commit(decision)
        for tid in sorted(self._aborted & self._dry.parts.keys()):
            self._setting.emitted.stage(self._dry.parts[tid].emitted)


class LosersEmitTwice(Epoch):
    """What a transaction has emitted in the dry run is there, also if it runs again."""

    def _commit(self, decision: Decision) -> None:
        super()._commit(decision)
        for tid in decision.losers:
            if tid in self._dry.parts:
                self._setting.emitted.stage(self._dry.parts[tid].emitted)


class SnapshotsOverlap(Epoch):
    """A snapshot is taken also while the last one is being written."""

    @property
    def snapshot(self) -> bool:
        return self._is_wanted


class NumbersBeginAgain(EmittedRows):
    """After a failure, rows are numbered from the first that is kept."""

    def bound(self, bounds: Iterable[Bounds]) -> None:
        super().bound([Bounds(each.stream, each.first, each.first) for each in bounds])


class RowsNotInSnapshots(EmittedRows):
    """A snapshot has the numbers, and not the rows."""

    def kept(self, is_whole: bool) -> list[tuple[Name, Row]]:
        super().kept(is_whole)
        return []

    def since(self, stream: str, number: int) -> list[Row]:
        kept = self._of(stream).rows
        return super().since(stream, number) if number in kept or not kept else super().since(stream, min(kept))


class NeverDropped(EmittedRows):
    """Rows are kept for ever."""

    def settle(self, stream: str, number: int) -> None:
        return


class RowsLeftBehind(Departure):
    """When a place moves, its rows stay."""

    def _part(
        self, entities: Sequence[EntityName], keys: Sequence[str], delayed: Sequence[str], rows: Sequence[Name]
    ) -> PartOfCopy:
        return super()._part(entities, keys, delayed, ())


class BoundsLeftBehind(Departure):
    """When a place moves, its numbers begin again."""

    def takeover(self, recent: Any, now_ns: int) -> Takeover:
        return changed_rest(super().takeover(recent, now_ns), lambda rest: replace(rest, streams=[]))


class _RowsStay(TransactionWorker):
    departure = RowsLeftBehind


class _BoundsStay(TransactionWorker):
    departure = BoundsLeftBehind


class TimeAhead(TransactionWorker):
    """The time of the epoch that is to come is said to have come."""

    def _end_epoch(self, own: Attempt, epoch: Epoch) -> None:
        own.reached_us += 5_000
        super()._end_epoch(own, epoch)
        own.reached_us += 5_000


class TimeStandsStill(TransactionWorker):
    """No epoch begins only because a stream waits for the time."""

    def _sweep_due_ns(self, own: Attempt) -> int:
        fetches, own.fetches = own.fetches, {}
        due_ns = super()._sweep_due_ns(own)
        own.fetches = fetches
        return due_ns


# At the source of the stream.


class SettledAtMarks(EmittedFunction):
    """Rows are dropped when a mark is behind them, before that checkpoint is complete."""

    def seal(self, checkpoint: int) -> None:
        super().seal(checkpoint)
        self._settled = self._positions()


class PositionsForgotten(EmittedFunction):
    """A checkpoint does not say how far the places were read."""

    def remember(self) -> Any:
        return [self._last_step, []]


class TakenTwice(EmittedReader):
    """Rows that come twice are taken twice."""

    def take(self, first: int, rows: Sequence[EmittedRow], reached_us: int, now_ns: int) -> None:
        following = self.next
        super().take(first if following is None else following, rows, reached_us, now_ns)


class WatermarkOvertakes(EmittedReader):
    """The watermark does not wait for the rows that have come and were not read."""

    def _watermark_us(self, last: EmittedRow | None) -> int | None:
        return self.reached_us

    def read(self, now_ns: int, max_rows: int) -> Any:
        return super().read(now_ns, 1)


class NotAskedAgain(Fetching):
    """What was asked for is asked for once, wherever the entities go."""

    def wake(self) -> None:
        for asked in self._readers.values():
            for each in asked.values():
                each.due_ns = self._host.now_ns + 10**12
        self._set_alarm()

    def moved(self, frame: EntitiesAt) -> None:
        is_first = frame.job not in self._members
        readers = self._readers
        self._readers = readers if is_first else {}
        super().moved(frame)
        self._readers = readers


_EPOCHS = (AbortedRowsStay, LosersEmitTwice, SnapshotsOverlap)
_ROWS = (NumbersBeginAgain, RowsNotInSnapshots, NeverDropped)
_FUNCTIONS = (SettledAtMarks, PositionsForgotten)
_READERS = (TakenTwice, WatermarkOvertakes)

EMITTED_MUTATIONS: dict[str, EmittedParts] = {
    **{mutation_name(each): EmittedParts(within=TransactionParts(epoch=each)) for each in _EPOCHS},
    **{mutation_name(each): EmittedParts(within=TransactionParts(emitted=each)) for each in _ROWS},
    **{mutation_name(each): EmittedParts(function=each) for each in _FUNCTIONS},
    **{mutation_name(each): EmittedParts(reader=each) for each in _READERS},
    "rows-left-behind": EmittedParts(machine=_RowsStay),
    "bounds-left-behind": EmittedParts(machine=_BoundsStay),
    "time-ahead": EmittedParts(machine=TimeAhead),
    "time-stands-still": EmittedParts(machine=TimeStandsStill),
    "not-asked-again": EmittedParts(cluster=Parts(worker=WorkerParts(fetching=NotAskedAgain))),
    "readers-untold": EmittedParts(cluster=Parts(coordinator=CoordinatorParts(checkpointing=CallersUntold))),
}
